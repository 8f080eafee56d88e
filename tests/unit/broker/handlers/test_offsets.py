"""Offsets of groups and queues."""

from collections.abc import Iterator
from inspect import isawaitable
from pathlib import Path
from typing import Any, cast

import pytest

from emberq.errors import ProtocolError
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import ONEWAY_BIT, Command, new_request
from emberq.remoting.connection import Connection
from tests.support.stores import TOPIC, put, put_many
from tests.unit.broker.pulling import GROUP, Pulling, field, pulling_in


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Pulling]:
    with pulling_in(tmp_path) as bench:
        bench.groups.find(GROUP)
        yield bench


def commit_request(**changes: str | None) -> Command:
    fields = {
        "consumerGroup": GROUP,
        "topic": TOPIC,
        "queueId": "0",
        "commitOffset": "5",
        **changes,
    }
    kept = {name: value for name, value in fields.items() if value is not None}
    return new_request(RequestCode.UPDATE_CONSUMER_OFFSET, kept)


def served(bench: Pulling, request: Command) -> Command:
    response = bench.serve(request)
    assert response is not None
    return response


def query(bench: Pulling, **changes: str) -> Command:
    fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", **changes}
    return served(bench, new_request(RequestCode.QUERY_CONSUMER_OFFSET, fields))


async def ask(bench: Pulling, code: RequestCode, **changes: str) -> Command:
    request = new_request(code, {"topic": TOPIC, "queueId": "0", **changes})
    entry = bench.registry.get(code)
    assert entry is not None
    result: Any = entry.handle(request, cast(Connection, bench.peer))
    response = await result if isawaitable(result) else bench.serve(request)
    assert isinstance(response, Command)
    return response


def test_a_commit_counts(bench: Pulling) -> None:
    response = served(bench, commit_request())

    assert (response.code, response.remark, response.fields) == (0, None, {})
    assert field(query(bench), "offset") == 5


def test_a_oneway_commit_counts_without_a_word(bench: Pulling) -> None:
    request = commit_request()
    request.flag |= ONEWAY_BIT

    assert bench.serve(request) is None
    assert bench.offsets.query(GROUP, TOPIC, 0) == 5


@pytest.mark.parametrize(
    ("changes", "code", "remark"),
    [
        ({"consumerGroup": "nobody"}, 26, "Group nobody not exist!"),
        ({"consumerGroup": None}, 26, "Group null not exist!"),
        ({"topic": "No"}, 17, "Topic No not exist!"),
        ({"queueId": None}, 29, f"QueueId is null, topic is {TOPIC}"),
        ({"queueId": "x"}, 29, f"QueueId is null, topic is {TOPIC}"),
        ({"commitOffset": None}, 29, f"Offset is null, topic is {TOPIC}"),
        ({"commitOffset": "--1"}, 29, f"Offset is null, topic is {TOPIC}"),
    ],
)
def test_commits_that_make_no_sense(
    bench: Pulling, changes: dict[str, str | None], code: int, remark: str
) -> None:
    response = served(bench, commit_request(**changes))

    assert (response.code, response.remark, response.fields) == (code, remark, {})
    assert bench.offsets.query(GROUP, TOPIC, 0) == -1


def test_a_commit_without_a_topic_is_no_request(bench: Pulling) -> None:
    with pytest.raises(ProtocolError, match="topic"):
        bench.serve(commit_request(topic=None))


def test_commits_do_not_count_while_a_reset_waits(bench: Pulling) -> None:
    bench.offsets.assign_reset(GROUP, TOPIC, 0, 2)

    response = served(bench, commit_request())
    assert (response.code, response.remark) == (0, "Offset has been previously reset")
    assert bench.offsets.query(GROUP, TOPIC, 0) == 2
    bench.set(use_server_side_reset_offset=False)
    served(bench, commit_request())

    bench.offsets.take_reset(GROUP, TOPIC, 0)
    assert bench.offsets.query(GROUP, TOPIC, 0) == 5


def test_an_unknown_offset_of_a_young_queue_is_its_begin(bench: Pulling) -> None:
    empty = query(bench)
    assert (empty.code, empty.fields) == (22, {})
    assert empty.remark == "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"

    put_many(bench.store, 1)

    assert field(query(bench), "offset") == 0
    for text in ("true", "yes"):
        expected = 0 if text == "true" else 22
        assert query(bench, setZeroIfNotFound=text).code == expected
    refused = query(bench, setZeroIfNotFound="false")
    assert refused.remark == "Not found, do not set to zero, maybe this group boot first"


async def test_both_ends_of_a_queue(bench: Pulling) -> None:
    assert field(await ask(bench, RequestCode.GET_MAX_OFFSET), "offset") == 0
    put_many(bench.store, 3)

    assert field(await ask(bench, RequestCode.GET_MAX_OFFSET), "offset") == 3
    assert field(await ask(bench, RequestCode.GET_MIN_OFFSET), "offset") == 0
    assert field(await ask(bench, RequestCode.GET_MAX_OFFSET, topic="No"), "offset") == 0


async def test_offsets_by_time(bench: Pulling) -> None:
    start = bench.clock.now_ms
    for number in range(3):
        bench.clock.now_ms = start + 10 * number
        put(bench.store)

    async def offset(time_ms: int, **more: str) -> int:
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        return field(await ask(bench, code, timestamp=str(time_ms), **more), "offset")

    assert await offset(start + 5) == 1
    assert await offset(start + 5, boundaryType="lower") == 1
    assert await offset(start + 15, boundaryType="Upper") == 1
    assert await offset(start + 99) == 3
    assert await offset(start, topic="No") == 0


async def test_when_the_first_message_was_stored(bench: Pulling) -> None:
    code = RequestCode.GET_EARLIEST_MSG_STORETIME
    assert field(await ask(bench, code), "timestamp") == -1
    put(bench.store)

    assert field(await ask(bench, code), "timestamp") == bench.clock.now_ms
