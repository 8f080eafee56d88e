"""Timed messages from our producers to our consumers: when they come, and taking them back."""

import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from emberq import Producer as BlockingProducer
from emberq.client.aio.producer import Producer
from emberq.errors import BrokerError, MessageIllegal, NoPermission, ProtocolError
from emberq.model.system_topics import TIMER_TOPIC
from emberq.protocol.codes import ResponseCode
from emberq.protocol.recall_handle import RecallHandle
from emberq.record.decode import iter_records
from emberq.record.record import Record
from emberq.store.reader import ReadLimits
from emberq.testing.embedded import EmbeddedCluster as Cluster
from emberq.testing.embedded import cluster_on_this_loop as cluster
from emberq.testing.embedded import embedded_cluster
from tests.support.waiting import until

pytestmark = pytest.mark.integration

FINE = {"timerPrecisionMs": "200", "recallMessageEnable": "true", "timerFlushIntervalMs": "50"}


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path, **FINE) as started:
        yield started


def delivered(running: Cluster, topic: str) -> list[Record]:
    """Of all queues, in the order in which they were stored."""
    store = running.broker.store
    records: list[Record] = []
    for queue_id in range(8):
        found = store.read(topic, queue_id, 0, ReadLimits(count_max=1000, size_max_bytes=1 << 20))
        for part in found.parts if found is not None else ():
            records += iter_records(bytes(part))
    return sorted(records, key=lambda record: record.log_offset)


def bodies(running: Cluster, topic: str) -> list[bytes]:
    return [bytes(record.body) for record in delivered(running, topic)]


async def test_messages_come_in_the_order_of_their_times_and_none_early(running: Cluster) -> None:
    start_ms = time.time_ns() // 1_000_000 + 2_000  # when all are sent, however slow the machine
    delays_ms = [900, 300, 650, 310, 50, 640]
    async with Producer("planner", name_server=running.name_server) as producer:
        for delay_ms in delays_ms:
            when = datetime.fromtimestamp((start_ms + delay_ms) / 1000, UTC)
            await producer.send("later", str(delay_ms).encode(), delay=when)

        await until(lambda: len(bodies(running, "later")) == len(delays_ms))

    records = delivered(running, "later")
    assert [int(record.body) for record in records] == sorted(delays_ms)
    assert all(record.stored_at_ms >= start_ms + int(record.body) for record in records)


async def test_a_delay_counts_from_the_send(running: Cluster) -> None:
    async with Producer("planner", name_server=running.name_server) as producer:
        before_ms = time.time_ns() // 1_000_000
        result = await producer.send("later", b"x", delay=timedelta(milliseconds=450))

        await until(lambda: bodies(running, "later"))

    [record] = delivered(running, "later")
    assert record.stored_at_ms >= before_ms + 450
    assert result.recall_handle is not None
    handle = RecallHandle.decode(result.recall_handle)
    assert (handle.topic, handle.message_id) == ("later", result.message_id)


async def test_what_is_recalled_in_time_never_comes(running: Cluster) -> None:
    async with Producer("planner", name_server=running.name_server) as producer:
        cancelled = await producer.send("later", b"cancelled", delay=timedelta(milliseconds=3_000))
        await producer.send("later", b"kept", delay=timedelta(milliseconds=3_001))

        assert await producer.recall(cancelled.recall_handle or "") == cancelled.message_id

        await producer.send("later", b"last", delay=timedelta(milliseconds=3_600))
        await until(lambda: len(bodies(running, "later")) >= 2)

    assert bodies(running, "later") == [b"kept", b"last"]


async def test_a_recall_that_comes_too_late_says_so(running: Cluster) -> None:
    async with Producer("planner", name_server=running.name_server) as producer:
        result = await producer.send("later", b"x", delay=timedelta(milliseconds=100))
        await until(lambda: bodies(running, "later"))

        with pytest.raises(BrokerError) as caught:
            await producer.recall(result.recall_handle or "")

    assert caught.value.code == ResponseCode.ILLEGAL_OPERATION


async def test_a_text_that_is_no_handle_is_not_sent(running: Cluster) -> None:
    async with Producer("planner", name_server=running.name_server) as producer:
        with pytest.raises(ProtocolError):
            await producer.recall("nothing")


async def test_a_broker_without_recalls_refuses_them(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path) as running,
        Producer("planner", name_server=running.name_server) as producer,
    ):
        result = await producer.send("later", b"x", delay=timedelta(hours=1))

        with pytest.raises(NoPermission):
            await producer.recall(result.recall_handle or "")


async def test_a_time_beyond_the_maximum_is_refused(running: Cluster) -> None:
    async with Producer("planner", name_server=running.name_server) as producer:
        with pytest.raises(MessageIllegal, match="259200000ms"):
            await producer.send("later", b"x", delay=timedelta(days=4))


def test_the_blocking_producer_recalls_too() -> None:
    with (
        embedded_cluster(recallMessageEnable="true") as running,
        BlockingProducer("planner", name_server=running.name_server) as producer,
    ):
        result = producer.send("later", b"x", delay=timedelta(hours=1))

        assert producer.recall(result.recall_handle or "") == result.message_id


async def test_a_restart_in_the_midst_of_a_slot_repeats_nothing(tmp_path: Path) -> None:
    """The precision is a second, so the stop comes while a slot is half delivered."""
    count = 40
    async with (
        cluster(tmp_path) as running,
        Producer("planner", name_server=running.name_server) as producer,
    ):
        start_ms = time.time_ns() // 1_000_000 // 1000 * 1000 + 1_000
        for number in range(count):
            when = datetime.fromtimestamp((start_ms + 500 + number * 20) / 1000, UTC)
            await producer.send("later", b"%d" % number, delay=when)
        await until(lambda: len(bodies(running, "later")) >= count // 4)
        before = len(bodies(running, "later"))

    async with cluster(tmp_path) as again:
        await until(lambda: len(bodies(again, "later")) >= count)

        assert 0 < before < count
        assert sorted(map(int, bodies(again, "later"))) == list(range(count))


async def test_messages_whose_time_came_while_the_broker_was_off_come_at_its_start(
    tmp_path: Path,
) -> None:
    async with (
        cluster(tmp_path) as running,
        Producer("planner", name_server=running.name_server) as producer,
    ):
        for number in range(5):
            await producer.send("later", b"%d" % number, delay=timedelta(seconds=1))
        due_at = time.monotonic() + 1
    await until(lambda: time.monotonic() > due_at)  # while nothing runs

    async with cluster(tmp_path) as again:
        await until(lambda: len(bodies(again, "later")) == 5)


async def test_a_message_to_the_timers_own_topic_holds_nobody_up(running: Cluster) -> None:
    async with Producer("planner", name_server=running.name_server) as producer:
        await producer.send(TIMER_TOPIC, b"odd")
        await producer.send("later", b"x", delay=timedelta(milliseconds=100))

        await until(lambda: bodies(running, "later"))


async def test_messages_further_away_than_the_window_roll_and_arrive(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path, timerPrecisionMs="100", timerRollWindowSlot="4") as running,
        Producer("planner", name_server=running.name_server) as producer,
    ):
        before_ms = time.time_ns() // 1_000_000
        await producer.send("later", b"x", delay=timedelta(milliseconds=1_500))
        await until(lambda: bodies(running, "later"))

        [record] = delivered(running, "later")
        assert record.stored_at_ms >= before_ms + 1_500
        assert b"TIMER_ROLL_TIMES\x01" in record.properties
