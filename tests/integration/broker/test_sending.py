"""Messages on their way through a whole broker: durable, delayed, failed, given up, in order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from emberq.protocol.codes import RequestCode
from emberq.protocol.command import ONEWAY_BIT, Command, new_request
from emberq.record.properties import decode_properties
from emberq.record.record import Record
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from emberq.testing.local_broker import LocalBroker, run_broker
from tests.support.send_load import pulled
from tests.support.waiting import DEADLINE_S

pytestmark = pytest.mark.integration

TIMEOUT_S = 10.0
LEVELS = "1s 1s 1s 1s"


@asynccontextmanager
async def connected(broker: LocalBroker) -> AsyncIterator[Connection]:
    connection = await connect(broker.host, broker.port, Endpoint())
    try:
        yield connection
    finally:
        connection.abort()


def send_request(topic: str, body: bytes, properties: str = "", queue_id: int = 0) -> Command:
    fields = {
        "a": "PG",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue_id),
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": properties,
    }
    return new_request(RequestCode.SEND_MESSAGE_V2, fields, body)


async def send(connection: Connection, topic: str, body: bytes, properties: str = "") -> Command:
    response = await connection.call(send_request(topic, body, properties), TIMEOUT_S)
    assert response.code == 0, response
    return response


async def arrived(connection: Connection, topic: str, count: int) -> list[Record]:
    async with asyncio.timeout(DEADLINE_S):
        while len(records := await pulled(connection, topic, 0)) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # the queue is another process's
    return records


async def test_pipelined_sends_are_answered_and_stored_in_order(tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(500)]
    with run_broker(tmp_path) as broker:
        async with connected(broker) as connection:
            calls = [
                connection.start_call(send_request("Orders", body), TIMEOUT_S) for body in bodies
            ]
            answers = [await call for call in calls]
            records = await pulled(connection, "Orders", 0)

    offsets = [int((response.fields or {})["queueOffset"]) for response in answers]
    assert offsets == list(range(500))
    assert [bytes(record.body) for record in records] == bodies


async def test_the_largest_message_passes_and_one_byte_more_does_not(tmp_path: Path) -> None:
    limit = 4 * 1024 * 1024
    with run_broker(tmp_path) as broker:
        async with connected(broker) as connection:
            await send(connection, "Orders", bytes(limit))
            refused = await connection.call(send_request("Orders", bytes(limit + 1)), TIMEOUT_S)
            [record] = await pulled(connection, "Orders", 0)

    assert refused.code == 13
    assert len(record.body) == limit


async def test_oneway_sends_are_stored(tmp_path: Path) -> None:
    with run_broker(tmp_path) as broker:
        async with connected(broker) as connection:
            request = send_request("Orders", b"quiet")
            request.flag |= ONEWAY_BIT
            connection.send_oneway(request)
            await send(connection, "Orders", b"loud")
            records = await pulled(connection, "Orders", 0)

    assert [record.body for record in records] == [b"quiet", b"loud"]


async def test_a_delayed_message_crosses_a_restart_and_comes_once(tmp_path: Path) -> None:
    config = {"messageDelayLevel": "1s 2s"}
    with run_broker(tmp_path, config=config) as broker:
        async with connected(broker) as connection:
            await send(connection, "Orders", b"first", "DELAY\x011")
            await arrived(connection, "Orders", 1)
            await send(connection, "Orders", b"second", "DELAY\x012")
        assert broker.stop() == 0
    with run_broker(tmp_path, config=config) as broker:
        async with connected(broker) as connection:
            first, second = await arrived(connection, "Orders", 2)

    assert [first.body, second.body] == [b"first", b"second"]
    # Milliseconds of the schedule record are not here any more; its born time is not a clock.
    assert second.stored_at_ms - first.stored_at_ms >= 2_000


async def test_a_delayed_message_is_never_early(tmp_path: Path) -> None:
    with run_broker(tmp_path, config={"messageDelayLevel": "1s"}) as broker:
        async with connected(broker) as connection:
            for number in range(20):
                await send(connection, "Orders", b"%d" % number, "DELAY\x011")
            waiting = await pulled(connection, "SCHEDULE_TOPIC_XXXX", 0)
            records = await arrived(connection, "Orders", 20)

    waits_ms = [
        record.stored_at_ms - before.stored_at_ms
        for before, record in zip(waiting, records, strict=True)
    ]
    assert min(waits_ms) >= 1_000


async def test_a_message_that_fails_again_and_again_ends_as_a_dead_letter(tmp_path: Path) -> None:
    with run_broker(tmp_path, config={"messageDelayLevel": LEVELS}) as broker:
        async with connected(broker) as connection:
            await send(connection, "Orders", b"poison", "UNIQ_KEY\x01U")
            [record] = await pulled(connection, "Orders", 0)
            for attempt in (1, 2):
                await give_back(connection, record)
                record = (await arrived(connection, "%RETRY%G", attempt))[-1]
                assert record.reconsume_times == attempt
            await give_back(connection, record)
            [dead] = await arrived(connection, "%DLQ%G", 1)

    properties = decode_properties(dead.properties)
    assert dead.body == b"poison"
    assert (properties["RETRY_TOPIC"], properties["UNIQ_KEY"]) == ("Orders", "U")


async def give_back(connection: Connection, record: Record) -> None:
    fields = {
        "offset": str(record.log_offset),
        "group": "G",
        "delayLevel": "0",
        "maxReconsumeTimes": "2",
    }
    request = new_request(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
    assert (await connection.call(request, TIMEOUT_S)).code == 0


async def test_under_sync_flush_many_producers_share_a_sync(tmp_path: Path) -> None:
    with run_broker(tmp_path, config={"flushDiskType": "SYNC_FLUSH"}) as broker:
        async with connected(broker) as connection:
            calls = [
                connection.start_call(send_request("Orders", b"%d" % number), TIMEOUT_S)
                for number in range(200)
            ]
            codes = {(await call).code for call in calls}
            quick = await connection.call(
                send_request("Orders", b"no wait", "WAIT\x01false"), TIMEOUT_S
            )

    assert codes == {0}
    assert quick.code == 0
