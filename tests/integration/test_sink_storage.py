"""Rows of the Spark sink that a broker has, but not as safely as it should: what tasks do then."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from emberq.errors import EmberqError, SendFailed
from emberq.protocol.codes import EmberqCode, RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.remoting.connection import Connection
from emberq.spark.row_sending import Task
from emberq.spark.sink import _delivery
from emberq.spark.sink_options import parse_sink
from tests.integration.client.scripted import (
    Scripted,
    broker,
    name_server,
    route_to,
    scripted_server,
)

pytestmark = pytest.mark.integration

SENDS: dict[str, tuple[int, ...]] = {
    "at-least-once": (RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2),
    "idempotent": (EmberqCode.SEND_ONCE,),
}
PLAIN = {"body": ["a", "b"]}
IN_MESSAGES = {"body": ["a"], "delayLevel": [1]}  # one by one, not as columns


async def written(
    delivery: str, codes: Sequence[int], columns: dict[str, Any], **options: str
) -> tuple[int, EmberqError | None]:
    """How many requests a task needs at a broker that answers so, and why it fails."""
    left = list(codes)

    def stored(command: Command, connection: Connection) -> Command:
        return answer(command, left.pop(0) if len(left) > 1 else left[0], fields={"queueId": "0"})

    handlers: Any = {**broker(), **dict.fromkeys(SENDS[delivery], stored)}
    async with (
        scripted_server(handlers) as master,
        scripted_server(name_server({"orders": route_to(master.address, queues=1)})) as server,
    ):
        given = {"nameServer": server.address, "topic": "orders", "delivery": delivery, **options}
        sink = _delivery(parse_sink(given))
        batches = iter([pa.RecordBatch.from_pydict(columns)])
        failure = None
        try:
            await asyncio.to_thread(sink.write, batches, Task("w", 0, 0))
        except EmberqError as error:
            failure = error
        return _count(master, delivery), failure


def _count(master: Scripted, delivery: str) -> int:
    return sum(request.code in SENDS[delivery] for request in master.requests)


@pytest.fixture(params=["at-least-once", "at-least-once one by one", "idempotent"])
def way(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    delivery, _, rest = request.param.partition(" ")
    return delivery, IN_MESSAGES if rest else PLAIN


@pytest.mark.parametrize(
    "code", [ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT]
)
async def test_rows_that_are_not_safe_in_time_are_sent_again(
    way: tuple[str, dict[str, Any]], code: int
) -> None:
    count, failure = await written(way[0], [code, code, ResponseCode.SUCCESS], way[1])

    assert (count, failure) == (3, None)


async def test_a_task_whose_rows_are_never_safe_fails(way: tuple[str, dict[str, Any]]) -> None:
    options = {"retries": "2", "brokerWaitMs": "0"}
    count, failure = await written(way[0], [ResponseCode.FLUSH_DISK_TIMEOUT], way[1], **options)

    assert count == 3
    assert failure is not None
    assert isinstance(failure, SendFailed) or "not safe in time" in str(failure)


async def test_a_master_without_slaves_takes_rows_and_is_told_once(
    way: tuple[str, dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="emberq"):
        count, failure = await written(way[0], [ResponseCode.SLAVE_NOT_AVAILABLE], way[1])

    assert (count, failure) == (1, None)
    told = [each.message for each in caplog.records if "without_slave" in each.message]
    assert told == ["stored_without_slave broker=broker-0"]
