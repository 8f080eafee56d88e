"""`emberq.broker.timed_delivery` with a clock that is set by hand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from emberq.broker.appending import Appender, OutgoingMessage
from emberq.broker.config import BrokerConfig
from emberq.broker.delay_levels import DelayLevels
from emberq.broker.handlers.timers import TimerHandlers, timer_figures
from emberq.broker.timed_delivery import RETRY_INTERVAL_MS, TimedDelivery
from emberq.broker.timed_messages import TimedMessages
from emberq.broker.timer_metrics import TimerMetrics
from emberq.model.system_topics import TIMER_TOPIC
from emberq.protocol.codes import RequestCode
from emberq.record.properties import decode_properties
from emberq.record.record import Record
from emberq.remoting.registry import HandlerRegistry
from emberq.store.admission import Obstacle
from emberq.store.message_store import MessageStore
from emberq.store.results import PutStatus
from emberq.store.timers.check_file import decode_timer_check
from emberq.store.timers.timer_store import TimerStore
from tests.support.stores import HOST, Clock, read_all, store_config
from tests.support.waiting import loop_turns, until
from tests.unit.broker.peers import Peer, ask
from tests.unit.broker.sending import BORN_HOST, Counted

START_MS = 1_700_000_000_000  # the beginning of a slot
NEVER_MS = str((1 << 63) - 1)


class Delivering:
    """A store, its timers and the service."""

    def __init__(self, store: MessageStore, timers: TimerStore, clock: Clock) -> None:
        self.store = store
        self.timers = timers
        self.clock = clock
        self.metrics = TimerMetrics(None, clock())
        self.statistics = Counted()
        timed = TimedMessages(
            BrokerConfig, lambda slot_ms: timers.wheel.slot(slot_ms).number, 1_000, clock
        )
        self.appender = Appender(store.put, DelayLevels((1_000,)), timed)
        self.service = TimedDelivery(
            store, timers, self.metrics, self.statistics, clock, flush_interval_s=0.01
        )
        self.task = asyncio.create_task(self.service.run())

    def put(self, body: bytes, delay_ms: int, **properties: str) -> None:
        message = OutgoingMessage(
            topic="Orders",
            queue_id=2,
            body=body,
            properties={"TIMER_DELAY_MS": str(delay_ms), "UNIQ_KEY": f"K-{body!r}", **properties},
            born_host=BORN_HOST,
        )
        assert self.appender.put(message).result.status is PutStatus.PUT_OK

    def recall(self, body: bytes, slot_ms: int) -> None:
        message = OutgoingMessage(
            topic="Orders",
            queue_id=0,
            body=b"0",
            properties={
                "TIMER_DELIVER_MS": str(slot_ms + 1),
                "TIMER_DEL_UNIQKEY": f"K-{body!r}",
                "UNIQ_KEY": f"K-{body!r}",
            },
            born_host=BORN_HOST,
        )
        assert self.appender.put(message).result.status is PutStatus.PUT_OK

    def pass_ms(self, time_ms: int) -> None:
        self.clock.now_ms += time_ms
        self.service._woken.set()  # the loop's own clock stands still for us

    async def enqueued(self) -> None:
        await until(lambda: self.timers.queue_offset == self.service.queue.end)

    def delivered(self) -> list[Record]:
        if self.store.queues.get("Orders", 2) is None:
            return []
        return read_all(self.store, topic="Orders", queue_id=2)

    def bodies(self) -> list[bytes]:
        return [bytes(record.body) for record in self.delivered()]

    def count(self) -> int:
        counts = self.metrics.table().counts
        return counts["Orders"].count if "Orders" in counts else 0


@asynccontextmanager
async def running(root: Path, clock: Clock) -> AsyncIterator[Delivering]:
    loop = asyncio.get_running_loop()
    store = MessageStore(
        store_config(root, mapped_file_size_commit_log=1 << 20),
        store_host=HOST,
        schedule=loop.call_soon,
        schedule_from_thread=loop.call_soon_threadsafe,
        now_ms=clock,
    )
    await asyncio.to_thread(store.open)
    timers = TimerStore(
        store.disk, root, precision_ms=1_000, file_size=1 << 16, roll_window=172_800
    )
    now_ms = max(clock(), store.dispatcher.last_stored_at_ms)
    await asyncio.to_thread(timers.open, store.log.end, now_ms, store.queue_offset_at_waiting)
    delivering = Delivering(store, timers, clock)
    try:
        yield delivering
    finally:
        delivering.task.cancel()
        await asyncio.gather(delivering.task, return_exceptions=True)
        timers.close()
        store.dispatch_now()
        await asyncio.to_thread(store.close)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Delivering]:
    async with running(tmp_path, Clock(START_MS)) as bench:
        yield bench


async def test_messages_of_a_slot_come_one_by_one_at_their_times(bench: Delivering) -> None:
    bench.put(b"late", 2_900)
    bench.put(b"soon", 2_100)
    await bench.enqueued()

    bench.pass_ms(2_099)
    await loop_turns(50)
    assert bench.bodies() == []
    bench.pass_ms(1)
    await until(lambda: bench.bodies() == [b"soon"])
    bench.pass_ms(799)
    await loop_turns(50)
    assert bench.bodies() == [b"soon"]
    bench.pass_ms(1)
    await until(lambda: bench.bodies() == [b"soon", b"late"])

    [soon, _] = bench.delivered()
    properties = decode_properties(soon.properties)
    assert properties["TIMER_OUT_MS"] == str(START_MS + 2_000)
    assert properties["TIMER_ENQUEUE_MS"] == str(START_MS)
    assert properties["TIMER_DEQUEUE_MS"] == str(START_MS + 2_100)
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("Orders", "2")


async def test_a_message_for_the_slot_that_is_being_delivered_finds_its_place(
    bench: Delivering,
) -> None:
    bench.put(b"a", 1_100)
    bench.put(b"c", 1_900)
    bench.pass_ms(1_200)
    await until(lambda: bench.bodies() == [b"a"])

    bench.put(b"b", 300)
    await bench.enqueued()
    bench.pass_ms(800)

    await until(lambda: len(bench.bodies()) == 3)
    assert bench.bodies() == [b"a", b"b", b"c"]


async def test_what_was_taken_back_is_not_delivered(bench: Delivering) -> None:
    bench.put(b"kept", 2_200)
    bench.put(b"gone", 2_100)
    bench.put(b"other", 2_300)
    await bench.enqueued()
    assert bench.count() == 3
    bench.recall(b"gone", START_MS + 2_000)
    await bench.enqueued()
    assert bench.count() == 2

    bench.pass_ms(3_001)

    await until(lambda: len(bench.bodies()) == 2)
    await until(lambda: bench.timers.read_time_ms == START_MS + 3_000)
    assert bench.bodies() == [b"kept", b"other"]
    assert (bench.count(), bench.timers.waiting_count) == (0, 0)


async def test_a_recall_is_known_before_its_slot_begins_however_late_it_is_read(
    bench: Delivering,
) -> None:
    bench.put(b"gone", 2_001)
    await bench.enqueued()

    bench.recall(b"gone", START_MS + 2_000)
    bench.pass_ms(2_001)  # before the service had a turn

    await bench.enqueued()
    bench.pass_ms(1_000)
    await until(lambda: bench.timers.read_time_ms == START_MS + 3_000)
    assert bench.bodies() == []


async def test_what_was_accepted_is_delivered_though_bodies_may_be_less_large_now(
    bench: Delivering,
) -> None:
    bench.put(b"x" * 100, 1_100)
    await bench.enqueued()
    bench.store.follow(replace(bench.store.config, max_message_size=99))
    bench.pass_ms(1_200)
    await until(lambda: bench.bodies() == [b"x" * 100])


async def test_a_store_that_takes_nothing_gets_it_later(bench: Delivering) -> None:
    bench.put(b"a", 1_500)
    bench.put(b"b", 1_600)
    await bench.enqueued()
    bench.store.admission.hinder(Obstacle.NO_ROOM, "full")

    bench.pass_ms(1_600)
    await loop_turns(50)
    assert bench.bodies() == []
    bench.store.admission.clear(Obstacle.NO_ROOM)
    bench.pass_ms(RETRY_INTERVAL_MS)

    await until(lambda: bench.bodies() == [b"a", b"b"])
    assert bench.count() == 0


async def test_a_message_that_missed_its_slot_is_delivered_at_once(bench: Delivering) -> None:
    bench.put(b"x", 500)
    bench.pass_ms(2_000)  # before the service had a turn

    await until(lambda: bench.bodies() == [b"x"])
    [record] = bench.delivered()
    assert decode_properties(record.properties)["TIMER_ENQUEUE_MS"] == NEVER_MS


async def test_odd_messages_of_the_timers_topic_hold_nobody_up(bench: Delivering) -> None:
    bench.store.put(TIMER_TOPIC, 0, b"odd", b"a\x01b\x02", born_host=HOST)
    for text in (
        b"TIMER_OUT_MS\x017\x02",
        b"TIMER_OUT_MS\x019223372036854775807\x02REAL_TOPIC\x01Orders\x02",
        b"TIMER_OUT_MS\x017\x02REAL_TOPIC\x01Orders\x02REAL_QID\x01-2\x02",
        b"TIMER_OUT_MS\x017\x02REAL_TOPIC\x01Orders\x02REAL_QID\x0199999999999\x02",
        b"TIMER_OUT_MS\x017\x02REAL_TOPIC\x01" + b"T" * 200 + b"\x02REAL_QID\x010\x02",
    ):
        bench.store.put(TIMER_TOPIC, 0, b"odd", text, born_host=HOST)
    bench.put(b"x", 500)
    await bench.enqueued()

    bench.pass_ms(500)

    await until(lambda: bench.bodies() == [b"x"])


async def test_a_message_whose_slot_is_no_slot_any_more_finds_one(bench: Delivering) -> None:
    """As after `timerPrecisionMs` was raised: the slot is already open when it is read."""
    bench.put(b"first", 1_100)
    bench.pass_ms(1_200)
    await until(lambda: bench.bodies() == [b"first"])

    properties = f"TIMER_OUT_MS\x01{START_MS + 1_500}\x02TIMER_DELIVER_MS\x01{START_MS + 1_550}\x02"
    stored = f"{properties}REAL_TOPIC\x01Orders\x02REAL_QID\x012\x02".encode()
    bench.store.put(TIMER_TOPIC, 0, b"second", stored, born_host=HOST)
    await bench.enqueued()
    bench.pass_ms(349)
    await loop_turns(50)
    assert bench.bodies() == [b"first"]
    bench.pass_ms(1)

    await until(lambda: bench.bodies() == [b"first", b"second"])


async def test_a_clock_that_is_set_back_makes_nothing_early(bench: Delivering) -> None:
    bench.put(b"x", 5_000)
    await bench.enqueued()
    bench.pass_ms(2_000)
    bench.put(b"mark", 60_000)  # the store has seen this time
    await bench.enqueued()

    bench.pass_ms(-60_000)
    await loop_turns(50)
    assert bench.bodies() == []
    bench.pass_ms(63_000)
    await until(lambda: bench.bodies() == [b"x"])


async def test_the_next_life_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    clock = Clock(START_MS)
    async with running(tmp_path, clock) as bench:
        for number in range(6):
            bench.put(b"%d" % number, 2_100 + number * 200)
        await bench.enqueued()
        bench.pass_ms(2_500)
        await until(lambda: len(bench.bodies()) == 3)

    clock.now_ms += 60_000
    async with running(tmp_path, clock) as bench:
        await until(lambda: len(bench.bodies()) == 6)
        assert bench.bodies() == [b"%d" % number for number in range(6)]


async def test_figures_tell_what_waits_and_how_far_the_timer_is(bench: Delivering) -> None:
    bench.put(b"a", 5_000)
    bench.put(b"b", 6_000)
    await bench.enqueued()
    registry = HandlerRegistry()
    TimerHandlers(bench.timers, bench.metrics, bench.clock).add_to(registry)
    await until(lambda: bench.timers.check.queue_offset == 2)

    figures = timer_figures(bench.timers, bench.metrics, 5, START_MS + 3_000)
    check = await ask(registry, Peer(), RequestCode.GET_TIMER_CHECK_POINT)

    assert figures["timerCongestNum"] == "2"
    assert (figures["timerOffsetBehind"], figures["timerReadBehind"]) == ("3", "3")
    assert decode_timer_check(bytes(check.body)) == bench.timers.check_at(bench.clock())


async def test_a_timer_in_which_nothing_happens_leaves_the_disk_alone(bench: Delivering) -> None:
    bench.put(b"x", 1_500)
    bench.pass_ms(2_000)
    await until(lambda: bench.timers.check.read_time_ms >= START_MS + 2_000)
    written = bench.timers.check

    for _ in range(5):
        bench.pass_ms(1_000)
        await until(lambda: bench.timers.read_time_ms >= bench.clock() - 1_000)
        assert await bench.service._flush.flush()

    assert bench.timers.check is written


async def test_a_message_and_its_recall_count_the_same_after_they_have_rolled(
    bench: Delivering,
) -> None:
    delay_ms = 60 * 3600 * 1000  # beyond the window of two days: both are put again after one
    bench.put(b"far", delay_ms)
    bench.put(b"kept", delay_ms)
    bench.recall(b"far", START_MS + delay_ms - 1_000)
    await bench.enqueued()
    assert bench.count() == 1

    bench.pass_ms(24 * 3600 * 1000 + 1)
    await until(lambda: bench.service.queue.end == 6)
    await bench.enqueued()

    assert bench.count() == 1
    assert bench.bodies() == []
