"""Messages with a delay level arrive when their time has come."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from emberq.broker.appending import Appender, OutgoingMessage
from emberq.broker.config import BrokerConfig
from emberq.broker.delay_levels import DelayLevels
from emberq.broker.delay_offsets import DelayOffsets
from emberq.broker.delayed_delivery import (
    DELIVERIES_PER_TURN_MAX,
    RETRY_INTERVAL_MS,
    SLEEP_MAX_MS,
    DelayedDelivery,
)
from emberq.broker.timed_messages import TimedMessages
from emberq.model.system_topics import HALF_TOPIC, SCHEDULE_TOPIC
from emberq.protocol.bodies.offsets import DelayOffsetTable
from emberq.record.record import Record
from emberq.store.admission import Obstacle
from emberq.store.message_store import MessageStore
from emberq.store.results import PutStatus
from emberq.store.tag_codes import TagCodes
from tests.support.stores import HOST, Clock, bodies_of, read_all, store_config
from tests.support.waiting import loop_turns, until
from tests.unit.broker.sending import BORN_HOST, Counted

LEVELS = DelayLevels((1_000, 5_000))


class Delivering:
    """A store and the service, with a clock that is set by hand."""

    def __init__(self, store: MessageStore, clock: Clock, offsets: DelayOffsets) -> None:
        self.store = store
        self.clock = clock
        self.offsets = offsets
        self.statistics = Counted()
        self.changes = 0
        self.appender = Appender(store.put, LEVELS, TimedMessages(BrokerConfig, None, 1_000, clock))
        self.service = DelayedDelivery(
            store, LEVELS, offsets, self.statistics, clock, self._changed
        )
        self.task = asyncio.create_task(self.service.run())

    def _changed(self) -> None:
        self.changes += 1

    def put(self, body: bytes = b"hello", level: int = 1, **changes: Any) -> None:
        properties = {"DELAY": str(level), "TAGS": "a", **changes.pop("properties", {})}
        message = OutgoingMessage(
            **{
                "topic": "Orders",
                "queue_id": 2,
                "body": body,
                "properties": properties,
                "born_host": BORN_HOST,
                **changes,
            }
        )
        assert self.appender.put(message).result.status is PutStatus.PUT_OK

    def pass_ms(self, time_ms: int) -> None:
        self.clock.now_ms += time_ms
        self.service._woken.set()  # the loop's own clock stands still for us

    def delivered(self) -> list[bytes]:
        return bodies_of(self.store, "Orders", 2)

    def records(self) -> list[Record]:
        return read_all(self.store, "Orders", 2)


@asynccontextmanager
async def delivering(
    root: Path, stored: DelayOffsetTable | None = None, clock: Clock | None = None
) -> AsyncIterator[Delivering]:
    clock = clock or Clock()
    loop = asyncio.get_running_loop()
    store = MessageStore(
        store_config(root, mapped_file_size_commit_log=256 * 1024),
        store_host=HOST,
        now_ms=clock,
        tag_codes=TagCodes(LEVELS.delays_ms),
        schedule=loop.call_soon,
        schedule_from_thread=loop.call_soon_threadsafe,
    )
    store.open()
    running = Delivering(store, clock, DelayOffsets(stored))
    try:
        yield running
    finally:
        running.task.cancel()
        await asyncio.gather(running.task, return_exceptions=True)
        store.close()


async def test_a_message_arrives_when_its_time_has_come_and_not_before(tmp_path: Path) -> None:
    async with delivering(tmp_path) as broker:
        broker.put()
        await loop_turns(20)
        broker.pass_ms(999)
        await loop_turns(20)
        assert broker.delivered() == []

        broker.pass_ms(1)
        await until(lambda: broker.delivered() == [b"hello"])


async def test_it_is_the_same_message_in_its_real_queue(tmp_path: Path) -> None:
    async with delivering(tmp_path) as broker:
        broker.put(
            properties={"KEYS": "k"}, flag=5, system_flag=1, born_at_ms=77, reconsume_times=3
        )
        await loop_turns(5)
        [waiting] = read_all(broker.store, SCHEDULE_TOPIC, 0)
        broker.pass_ms(1_000)
        await until(broker.delivered)

        [record] = broker.records()
        assert record.properties == waiting.properties, "its delay level stays in sight"
        assert (record.flag, record.system_flag, record.born_at_ms) == (5, 1, 77)
        assert (record.reconsume_times, record.born_host) == (3, BORN_HOST)
        size = record.size_bytes
        assert broker.statistics.puts == [("Orders", 2, 1, size)]
        assert broker.statistics.gets == [("SCHEDULE_CONSUMER", SCHEDULE_TOPIC, 0, 1, size)]
        found = broker.store.find_by_key("Orders", "k", 10, 0, 1 << 62)
        assert len(found.records) == 1


async def test_levels_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async with delivering(tmp_path) as broker:
        broker.put(b"late", level=2)
        broker.put(b"soon", level=1)

        broker.pass_ms(1_000)
        await until(lambda: broker.delivered() == [b"soon"])
        broker.pass_ms(4_000)
        await until(lambda: broker.delivered() == [b"soon", b"late"])


async def test_many_keep_their_order_and_leave_turns_to_others(tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(5 * DELIVERIES_PER_TURN_MAX)]
    async with delivering(tmp_path) as broker:
        for body in bodies:
            broker.put(body)
        broker.pass_ms(1_000)
        most = 0
        before = 0
        while before < len(bodies):
            await asyncio.sleep(0)
            after = len(broker.statistics.puts)
            most, before = max(most, after - before), after

        await until(lambda: broker.delivered() == bodies)
        assert most <= DELIVERIES_PER_TURN_MAX


async def test_a_restart_goes_on_where_the_offsets_say(tmp_path: Path) -> None:
    clock = Clock()
    async with delivering(tmp_path, clock=clock) as broker:
        for body in (b"one", b"two"):
            broker.put(body)
        broker.pass_ms(1_000)
        await until(lambda: len(broker.delivered()) == 2)
        broker.put(b"three")
    stored = broker.offsets.table(1 << 60, 0)
    assert stored.offsets == {1: 2}

    clock.now_ms += 1_000
    async with delivering(tmp_path, stored, clock) as broker:
        await until(lambda: broker.delivered() == [b"one", b"two", b"three"])


async def test_a_stop_waits_until_deliveries_are_durable(tmp_path: Path) -> None:
    async with delivering(tmp_path) as broker:
        broker.put()
        broker.pass_ms(1_000)
        await until(broker.delivered)
        broker.task.cancel()
        await asyncio.gather(broker.task, return_exceptions=True)

        assert broker.offsets.table(broker.store.flushed_offset, 0).offsets == {1: 1}
        assert broker.changes >= 2


@pytest.mark.parametrize("offset", [-5, 99])
async def test_an_offset_outside_of_the_queue_is_corrected(tmp_path: Path, offset: int) -> None:
    async with delivering(tmp_path) as broker:
        broker.put(b"first")
    stored = DelayOffsetTable(offsets={1: offset})
    async with delivering(tmp_path, stored) as broker:
        await loop_turns(10)
        broker.put(b"second")
        broker.pass_ms(1_000)

        expected = [b"first", b"second"] if offset < 0 else [b"second"]
        await until(lambda: broker.delivered() == expected)


async def test_what_was_accepted_is_delivered_though_bodies_may_be_less_large_now(
    tmp_path: Path,
) -> None:
    async with delivering(tmp_path) as broker:
        broker.put(b"x" * 100)
        broker.store.follow(replace(broker.store.config, max_message_size=99))
        broker.pass_ms(1_000)
        await until(lambda: broker.delivered() == [b"x" * 100])


async def test_what_the_store_refuses_is_tried_again(tmp_path: Path) -> None:
    async with delivering(tmp_path) as broker:
        broker.put()
        await loop_turns(5)
        broker.store._admission.hinder(Obstacle.DISK_FULL, "full")
        broker.pass_ms(1_000)
        await loop_turns(20)
        assert broker.delivered() == []
        assert broker.offsets.next(1) == 0

        broker.store._admission.clear(Obstacle.DISK_FULL)
        broker.pass_ms(RETRY_INTERVAL_MS)
        await until(lambda: broker.delivered() == [b"hello"])


async def test_a_clock_that_is_set_back_delivers_nothing_early(tmp_path: Path) -> None:
    async with delivering(tmp_path) as broker:
        broker.put()
        broker.pass_ms(-60_000)
        await loop_turns(20)
        assert broker.delivered() == []

        broker.pass_ms(61_000)
        await until(lambda: broker.delivered() == [b"hello"])


async def test_a_time_of_longer_levels_counts_as_over(tmp_path: Path) -> None:
    async with delivering(tmp_path) as broker:
        broker.service._levels = DelayLevels((10, 10))
        broker.put()

        await until(lambda: broker.delivered() == [b"hello"])


async def test_what_has_no_real_topic_is_passed_over(tmp_path: Path) -> None:
    async with delivering(tmp_path) as broker:
        for properties in (b"DELAY\x011", b"REAL_TOPIC\x01Orders\x02REAL_QID\x01x"):
            broker.store.put(SCHEDULE_TOPIC, 0, b"", properties, born_host=HOST, delay="1")
        broker.put(b"half", topic=HALF_TOPIC)
        broker.put(b"x", topic="x" * 300)
        broker.put(b"good")
        broker.pass_ms(1_000)

        await until(lambda: broker.delivered() == [b"good"])
        assert broker.offsets.next(1) == 5


async def test_a_level_that_the_settings_lost_is_left_alone(tmp_path: Path) -> None:
    async with delivering(tmp_path) as broker:
        broker.store.put(SCHEDULE_TOPIC, 7, b"", b"", born_host=HOST, delay="8")
        await loop_turns(10)

        assert 8 not in broker.service._due_ms
        assert not broker.task.done()


async def test_without_messages_it_sleeps(tmp_path: Path) -> None:
    async with delivering(tmp_path) as broker:
        await loop_turns(10)

        assert broker.service._due_ms == {}
        assert SLEEP_MAX_MS == 1_000
        assert not broker.task.done()
