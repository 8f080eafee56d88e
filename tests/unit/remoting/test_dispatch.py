"""From a request to its answer: every way a handler can end, and flow control."""

import asyncio
import logging
from typing import Any, ClassVar

import pytest

from emberq.errors import ProtocolError, RequestRejected
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import ONEWAY_BIT, Command, HeaderEncoding, answer
from emberq.protocol.frame import encode_frame
from emberq.protocol.header_fields import Header, Int32
from emberq.remoting.connection import Connection
from emberq.remoting.dispatch import Dispatcher
from emberq.remoting.endpoint import Endpoint
from emberq.remoting.limits import RemotingLimits
from emberq.remoting.registry import Answer, AsyncHandler, HandlerRegistry, PlainHandler, Request
from tests.support.endpoints import ECHO, WORK, endpoint_of
from tests.support.fake_transport import FakeTransport
from tests.support.waiting import loop_turns, until


class Query(Header, frozen=True, kw_only=True):
    code: ClassVar = WORK
    topic: str
    queue_id: Int32


def connect_to(endpoint: Endpoint) -> tuple[Connection, FakeTransport]:
    connection, transport = Connection(endpoint), FakeTransport()
    transport.attach(connection)
    return connection, transport


async def answers_of(
    handler: PlainHandler | AsyncHandler, *requests: Command, **limits: Any
) -> list[Command]:
    """What a peer receives that sends these requests in one read."""
    endpoint = endpoint_of({WORK: handler}, **limits)
    connection, transport = connect_to(endpoint)
    connection.data_received(b"".join(map(encode_frame, requests)))
    await until(lambda: not connection.is_busy)
    return transport.commands


def raising(error: Exception) -> PlainHandler:
    def handle(command: Command, connection: Connection) -> Answer:
        raise error

    return handle


def raising_later(error: Exception) -> AsyncHandler:
    async def handle(command: Command, connection: Connection) -> Answer:
        await asyncio.sleep(0)
        raise error

    return handle


@pytest.mark.parametrize("kind", [raising, raising_later])
@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (ValueError("no such luck"), 1, "ValueError: no such luck"),
        (ProtocolError("topic is missing"), 1, "ProtocolError: topic is missing"),
        (RequestRejected(17, "no route"), 17, "no route"),
        (AssertionError(), 1, "AssertionError: "),
        (TimeoutError(), 1, "TimeoutError: "),
    ],
)
async def test_a_failure_is_an_answer_with_its_words(
    kind: Any, error: Exception, code: int, remark: str
) -> None:
    first, second = await answers_of(
        kind(error), Command(code=WORK, opaque=8), Command(code=ECHO, opaque=9)
    )

    if first.opaque == 9:
        first, second = second, first
    assert (first.opaque, first.code, first.remark) == (8, code, remark)
    assert (second.opaque, second.code) == (9, 0)


async def test_a_rejection_may_carry_fields() -> None:
    handler = raising(RequestRejected(21, "offset moved", {"nextBeginOffset": "7"}))

    (refusal,) = await answers_of(handler, Command(code=WORK))

    assert refusal.fields == {"nextBeginOffset": "7"}


async def test_only_failures_that_are_ours_are_logged_as_errors(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for error in (RequestRejected(1, "no"), ProtocolError("bad"), ValueError("bug")):
        await answers_of(raising(error), Command(code=WORK))

    levels = [record.levelno for record in caplog.records if record.name.endswith("dispatch")]
    assert levels == [logging.WARNING, logging.ERROR]


@pytest.mark.parametrize("encoding", HeaderEncoding)
async def test_an_unknown_code_is_answered_with_3(encoding: HeaderEncoding) -> None:
    connection, transport = connect_to(endpoint_of())

    connection.data_received(encode_frame(Command(code=9999, opaque=4, encoding=encoding)))

    (refusal,) = transport.commands
    assert (refusal.code, refusal.opaque, refusal.encoding) == (3, 4, encoding)
    assert refusal.remark == " request type 9999 not supported"


@pytest.mark.parametrize("code", [ECHO, WORK, 9999])
async def test_a_oneway_request_is_never_answered_however_it_ends(code: int) -> None:
    oneway = Command(code=code, flag=ONEWAY_BIT)

    answers = await answers_of(raising(ValueError("no")), oneway, Command(code=ECHO, opaque=2))

    assert [command.opaque for command in answers] == [2]


async def test_a_handler_may_answer_with_a_frame_of_its_own() -> None:
    def handle(command: Command, connection: Connection) -> Answer:
        return encode_frame(answer(command, remark="made by hand"))

    (made,) = await answers_of(handle, Command(code=WORK, opaque=3))

    assert (made.opaque, made.remark) == (3, "made by hand")


async def test_a_handler_may_answer_later_or_not_at_all() -> None:
    held: list[tuple[Command, Connection]] = []

    def hold(command: Command, connection: Connection) -> Answer:
        held.append((command, connection))
        return None

    connection, transport = connect_to(endpoint_of({WORK: hold}))
    connection.data_received(
        encode_frame(Command(code=WORK, opaque=1)) + encode_frame(Command(code=ECHO, opaque=2))
    )
    assert [command.opaque for command in transport.commands] == [2]

    request, asker = held[0]
    asker.send_answer(request, answer(request))
    await loop_turns(2)
    assert [command.opaque for command in transport.commands] == [2, 1]


async def test_typed_handlers_get_their_header_and_bad_headers_an_answer() -> None:
    def plain(request: Request[Query]) -> Answer:
        return answer(request.command, remark=f"{request.header.topic} {request.header.queue_id}")

    async def waiting(request: Request[Query]) -> Answer:
        return plain(request)

    registry = HandlerRegistry()
    registry.add_typed(Query, plain)
    registry.add_typed(Query, waiting, code=RequestCode.GET_MIN_OFFSET)
    connection, transport = connect_to(Endpoint(registry))
    fields_of_requests: list[dict[str, str] | None] = [
        {"topic": "T", "queueId": "3"},
        {"topic": "T", "queueId": "three"},
        None,
    ]

    for code in (WORK, RequestCode.GET_MIN_OFFSET):
        for fields in fields_of_requests:
            connection.data_received(encode_frame(Command(code=code, fields=fields)))
    await until(lambda: len(transport.commands) == 6)

    expected = [
        (0, "T 3"),
        (1, "ProtocolError: Query: queueId is not a number in range"),
        (1, "ProtocolError: Query: topic is missing"),
    ]
    assert [(command.code, command.remark) for command in transport.commands] == expected * 2


class Gate:
    """A handler that waits until it is opened."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    async def handle(self, command: Command, connection: Connection) -> Answer:
        await self.event.wait()
        return answer(command)


async def test_async_handlers_answer_when_they_are_done_not_in_order() -> None:
    gate = Gate()
    connection, transport = connect_to(endpoint_of({WORK: gate.handle}))

    connection.data_received(
        encode_frame(Command(code=WORK, opaque=1)) + encode_frame(Command(code=ECHO, opaque=2))
    )
    assert [command.opaque for command in transport.commands] == [2]
    assert connection.requests_in_flight == 1
    assert connection.is_busy

    gate.event.set()
    await until(lambda: len(transport.commands) == 2)
    assert connection.requests_in_flight == 0
    assert not connection.is_busy


async def test_one_connection_may_have_only_so_many_requests_in_flight() -> None:
    gate = Gate()
    endpoint = endpoint_of({WORK: gate.handle}, requests_in_flight_per_connection_max=2)
    connection, transport = connect_to(endpoint)
    other, other_transport = connect_to(endpoint)

    connection.data_received(b"".join(encode_frame(Command(code=WORK, opaque=n)) for n in range(3)))
    other.data_received(encode_frame(Command(code=WORK, opaque=7)))

    (refusal,) = transport.commands
    assert (refusal.opaque, refusal.code) == (2, 2)
    assert refusal.remark is not None
    assert refusal.remark.startswith("[OVERLOAD]")
    gate.event.set()
    await until(lambda: len(transport.commands) == 3 and len(other_transport.commands) == 1)
    assert other_transport.commands[0].code == 0

    connection.data_received(encode_frame(Command(code=WORK, opaque=9)))
    await until(lambda: transport.commands[-1].opaque == 9)
    assert transport.commands[-1].code == 0


async def test_all_connections_together_may_have_only_so_many_requests_in_flight() -> None:
    gate = Gate()
    endpoint = endpoint_of({WORK: gate.handle}, requests_in_flight_max=2)
    transports = []
    for opaque in range(4):
        connection, transport = connect_to(endpoint)
        connection.data_received(encode_frame(Command(code=WORK, opaque=opaque)))
        connection.data_received(encode_frame(Command(code=WORK, flag=ONEWAY_BIT)))
        transports.append(transport)

    refused = [[command.opaque for command in transport.commands] for transport in transports]
    assert refused == [[], [1], [2], [3]]
    assert endpoint.dispatcher.in_flight == 2
    gate.event.set()
    await until(lambda: endpoint.dispatcher.in_flight == 0)


async def test_a_request_that_waited_too_long_is_refused_as_busy() -> None:
    registry = HandlerRegistry()
    registry.add(WORK, raising(AssertionError("must not run")), wait_max_ms=200)
    registry.add(ECHO, raising(RequestRejected(99, "ran")), wait_max_ms=300)
    endpoint = Endpoint(registry)
    endpoint.loop_lag_ms = 250.0  # as if the loop were this late
    connection, transport = connect_to(endpoint)

    connection.data_received(encode_frame(Command(code=WORK)) + encode_frame(Command(code=ECHO)))

    late, in_time = transport.commands
    assert late.code == 2
    assert late.remark is not None
    assert late.remark.startswith("[TIMEOUT_CLEAN_QUEUE]broker busy")
    assert "size of queue: 0" in late.remark
    assert in_time.code == 99


async def test_what_comes_after_a_late_turn_has_not_waited() -> None:
    registry = HandlerRegistry()
    registry.add(WORK, raising(RequestRejected(99, "ran")), wait_max_ms=200)
    endpoint = Endpoint(registry)
    connection, transport = connect_to(endpoint)
    for lag_ms in (250.0, 0.0):
        endpoint.loop_lag_ms = lag_ms
        connection.data_received(encode_frame(Command(code=WORK)))

    assert [command.code for command in transport.commands] == [2, 99]


@pytest.mark.parametrize("error", [ProtocolError("nonsense"), ZeroDivisionError("ours")])
async def test_failures_in_a_row_are_all_answered_and_seldom_logged(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    registry = HandlerRegistry()
    registry.add(WORK, raising(error))
    connection, transport = connect_to(Endpoint(registry))

    connection.data_received(encode_frame(Command(code=WORK)) * 50)
    await until(lambda: len(transport.commands) == 50)  # a busy machine takes several turns

    assert [command.code for command in transport.commands] == [1] * 50
    assert len(caplog.records) == 1
    assert str(error) in caplog.records[0].getMessage()


async def test_cancelled_handlers_are_counted_and_gone() -> None:
    gate = Gate()
    endpoint = endpoint_of({WORK: gate.handle})
    connection, transport = connect_to(endpoint)
    connection.data_received(b"".join(encode_frame(Command(code=WORK)) for _ in range(3)))
    await loop_turns(2)

    assert await endpoint.dispatcher.cancel() == 3
    assert endpoint.dispatcher.in_flight == 0
    assert connection.requests_in_flight == 0
    assert transport.commands == []


async def test_a_handler_that_will_not_be_cancelled_does_not_hold_up_the_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("emberq.remoting.dispatch.CANCEL_WAIT_MAX_S", 0.01)
    gate = asyncio.Event()

    async def stubborn(command: Command, connection: Connection) -> Answer:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        return None

    endpoint = endpoint_of({WORK: stubborn})
    connection, _ = connect_to(endpoint)
    connection.data_received(encode_frame(Command(code=WORK)))
    await loop_turns(2)

    assert await endpoint.dispatcher.cancel() == 1
    gate.set()
    await until(lambda: endpoint.dispatcher.in_flight == 0)


async def test_nothing_in_flight_is_nothing_to_cancel() -> None:
    assert await Dispatcher(HandlerRegistry(), RemotingLimits()).cancel() == 0
