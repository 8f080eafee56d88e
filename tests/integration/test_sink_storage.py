"""Rows of the Spark sink at a broker that has them, but not as safely as it should, that takes less
than is sent, or that does not answer: what tasks do then."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from emberq.errors import BrokerError, CallTimeout, EmberqError, MessageRefused, SendFailed
from emberq.protocol.codes import EmberqCode, RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.record.batch import iter_batch
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


# How large requests are, and how long they may take

AT_ONCE = {"retries": "0", "brokerWaitMs": "0"}


@asynccontextmanager
async def sink_and_broker(
    delivery: str, answers: Callable[[Command, Connection], Command | None]
) -> AsyncIterator[tuple[Callable[..., Any], Scripted]]:
    """What writes rows of one process to a broker that answers so."""
    handlers: Any = {**broker(), **dict.fromkeys(SENDS[delivery], answers)}
    async with (
        scripted_server(handlers) as master,
        scripted_server(name_server({"orders": route_to(master.address, queues=1)})) as server,
    ):
        given = {"nameServer": server.address, "topic": "orders", "delivery": delivery, **AT_ONCE}

        async def write(bodies: Sequence[bytes], **options: str) -> None:
            batch = pa.RecordBatch.from_pydict({"body": list(bodies)})
            sink = _delivery(parse_sink(given | options))
            await asyncio.to_thread(sink.write, iter([batch]), Task("w", 0, 0))

        yield write, master


def fine(command: Command, connection: Connection) -> Command:
    return answer(command, fields={"queueId": "0"})


@pytest.mark.parametrize("delivery", ["at-least-once", "idempotent"])
async def test_requests_are_as_large_as_the_option_says(delivery: str) -> None:
    async with sink_and_broker(delivery, fine) as (write, master):
        bodies = [bytes([number]) * 300 for number in range(1, 100)]
        await write(bodies, **{"send.maxBytes": "2k"})

        sent = [each for each in master.requests if each.code in SENDS[delivery]]
        assert max(len(request.body) for request in sent) <= 2048
        elements = [bytes(each.body) for one in sent for each in iter_batch(one.body)]
        assert elements == bodies


async def test_a_row_that_fits_only_without_its_properties_goes_alone() -> None:
    async with sink_and_broker("at-least-once", fine) as (write, master):
        await write([b"a", bytes(1999), b"b"], **{"send.maxBytes": "2000"})

        sent = [each for each in master.requests if each.code in SENDS["at-least-once"]]
        codes = [request.code for request in sent]
        batch, alone = RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2
        assert codes == [batch, alone, batch]
        assert sent[1].body == bytes(1999)


async def test_rows_that_are_too_large_are_named_and_nothing_is_sent(
    way: tuple[str, dict[str, Any]],
) -> None:
    async with sink_and_broker(way[0], fine) as (write, master):
        with pytest.raises(MessageRefused, match=r"row 1 for orders: .* 2001 bytes.*maxBytes"):
            await write([b"a", bytes(2001)], **{"send.maxBytes": "2000"})

        assert [each for each in master.requests if each.code in SENDS[way[0]]] == []


@pytest.mark.parametrize("delivery", ["at-least-once", "idempotent"])
@pytest.mark.parametrize(
    "remark",
    [
        "ProtocolError: message body size exceeded: 3092890 bytes, at most 1048576",
        "the message is illegal, maybe msg body or properties length not matched. msg body length "
        "limit 1048576B, msg properties length limit 32KB.",
    ],
)
async def test_a_broker_that_takes_less_leads_to_the_option(delivery: str, remark: str) -> None:
    def too_large(command: Command, connection: Connection) -> Command:
        return answer(command, ResponseCode.MESSAGE_ILLEGAL, remark)

    async with sink_and_broker(delivery, too_large) as (write, _):
        with pytest.raises(BrokerError, match=r"send\.maxBytes is the most that is sent"):
            await write([b"a"])


@pytest.mark.parametrize("delivery", ["at-least-once", "idempotent"])
async def test_each_write_of_a_process_has_its_own_time_limit(delivery: str) -> None:
    is_dumb = False

    def at_first(command: Command, connection: Connection) -> Command | None:
        return None if is_dumb else fine(command, connection)

    async with sink_and_broker(delivery, at_first) as (write, _):
        await write([b"a"], **{"send.timeoutMs": "60000"})
        is_dumb = True

        async with asyncio.timeout(30.0):
            with pytest.raises((CallTimeout, SendFailed), match="no answer"):
                await write([b"a"], **{"send.timeoutMs": "50"})
