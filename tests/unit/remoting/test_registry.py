"""The table of handlers."""

from typing import ClassVar

import pytest

from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, answer
from emberq.protocol.header_fields import Header
from emberq.remoting.connection import Connection
from emberq.remoting.registry import Answer, HandlerRegistry, Request


class Query(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_MAX_OFFSET
    topic: str


def plain(command: Command, connection: Connection) -> Answer:
    return answer(command)


async def waiting(command: Command, connection: Connection) -> Answer:
    return answer(command)


def typed(request: Request[Query]) -> Answer:
    return answer(request.command, remark=request.header.topic)


async def waiting_typed(request: Request[Query]) -> Answer:
    return answer(request.command, body=request.body)


class Service:
    async def handle(self, command: Command, connection: Connection) -> Answer:
        return None


def test_a_code_has_one_handler() -> None:
    registry = HandlerRegistry()
    registry.add(RequestCode.HEART_BEAT, plain)

    with pytest.raises(ValueError, match="HEART_BEAT is already handled"):
        registry.add(RequestCode.HEART_BEAT, waiting)
    with pytest.raises(ValueError, match="HEART_BEAT is already handled"):
        registry.add_typed(Query, typed, code=RequestCode.HEART_BEAT)


def test_a_typed_handler_serves_the_code_of_its_header_or_the_one_it_is_given() -> None:
    registry = HandlerRegistry()
    registry.add_typed(Query, typed)
    registry.add_typed(Query, typed, code=RequestCode.GET_MIN_OFFSET)
    registry.add(RequestCode.HEART_BEAT, plain)

    assert list(registry.codes()) == [30, 31, 34]
    assert registry.get(99) is None


def test_handlers_that_wait_are_known_as_such() -> None:
    registry = HandlerRegistry()
    registry.add(RequestCode.HEART_BEAT, plain)
    registry.add(RequestCode.PULL_MESSAGE, waiting)
    registry.add(RequestCode.SEND_MESSAGE, Service().handle)
    registry.add_typed(Query, typed)
    registry.add_typed(Query, waiting_typed, code=RequestCode.GET_MIN_OFFSET)

    kinds = {code: entry.is_async for code in registry.codes() if (entry := registry.get(code))}
    assert kinds == {10: True, 11: True, 30: False, 31: True, 34: False}


def test_wait_limits_are_known_without_a_request() -> None:
    registry = HandlerRegistry()
    registry.add(RequestCode.HEART_BEAT, plain)
    assert not registry.has_wait_limits

    registry.add_typed(Query, typed, wait_max_ms=200)
    assert registry.has_wait_limits


def test_a_limited_view_adds_to_the_same_table_with_its_limit() -> None:
    registry = HandlerRegistry()
    limited = registry.limited(5000.0)
    limited.add(RequestCode.GET_MIN_OFFSET, plain)
    limited.add(RequestCode.SEND_MESSAGE, plain, wait_max_ms=200.0)
    limited.add_typed(Query, typed)
    registry.add(RequestCode.HEART_BEAT, plain)

    limits = {code: entry.wait_max_ms for code in registry.codes() if (entry := registry.get(code))}
    assert limits == {31: 5000.0, 10: 200.0, 30: 5000.0, 34: None}


def test_how_long_requests_may_wait_can_change() -> None:
    registry = HandlerRegistry()
    registry.add(RequestCode.GET_KV_CONFIG, lambda command, connection: None, wait_max_ms=5)

    registry.set_wait_max(RequestCode.GET_KV_CONFIG, None)

    entry = registry.get(RequestCode.GET_KV_CONFIG)
    assert entry is not None
    assert entry.wait_max_ms is None
    assert not registry.has_wait_limits
