"""Delivers messages that asked for a time: when it has come, each becomes a message of its real
topic. At least once, never early, in the order in which they are due.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from emberq.broker.appending import PutOne
from emberq.broker.delayed_delivery import DeliveryCounter
from emberq.broker.open_slots import OpenSlot, OpenSlots
from emberq.broker.timer_flush import TimerFlush
from emberq.broker.timer_metrics import TimerMetrics
from emberq.broker.timer_queue import TimerQueue
from emberq.broker.timer_recount import TimerRecount
from emberq.errors import RecordError
from emberq.kernel.stored_properties import find_keys, find_tags, find_unique_key
from emberq.model.system_topics import TIMER_TOPIC
from emberq.record.decode import decode_record
from emberq.record.properties import (
    decode_properties,
    encode_properties,
    find_stored_property,
    join_properties,
)
from emberq.record.property_names import (
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TIMER_DELETE_UNIQUE_KEY,
    TIMER_DEQUEUE_MS,
    TIMER_ENQUEUE_MS,
    TIMER_ROLL_TIMES,
)
from emberq.record.record import Record
from emberq.store.consume_queue import ConsumeQueue
from emberq.store.message_store import MessageStore
from emberq.store.results import PutStatus
from emberq.store.timers.slot_order import Waiting
from emberq.store.timers.timer_store import SlotContent, TimerStore
from emberq.store.timers.units import DELETES, ROLLS

log = logging.getLogger(__name__)

# How many messages, and how long, before others have their turn.
DELIVERIES_PER_TURN_MAX = 64
WORK_PER_TURN_MAX_S = 0.002
# Between two looks when there is little to do: messages that are due close to one another leave
# together.
PAUSE_MS = 5
# Clocks are looked at again at least this often: somebody may have set them.
SLEEP_MAX_MS = 1_000
# After a put that the store refused.
RETRY_INTERVAL_MS = 100
# How long a stop waits until the last deliveries are durable.
STOP_WAIT_MAX_S = 5.0
QUEUE_ID_MAX = 2**31 - 1
# What official brokers write for a message that never was in the wheel.
NEVER_ENQUEUED_MS = (1 << 63) - 1

# No put will ever take these; trying again would keep back all that follow.
_HOPELESS = (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED)
_REAL_TOPIC, _REAL_QUEUE_ID = REAL_TOPIC.encode(), REAL_QUEUE_ID.encode()
_DELETED = TIMER_DELETE_UNIQUE_KEY.encode()
_ENQUEUED = b"%b\x01" % TIMER_ENQUEUE_MS.encode()
_TIMES = b"%b\x01%%d\x02%b\x01%%d\x02" % (TIMER_ENQUEUE_MS.encode(), TIMER_DEQUEUE_MS.encode())


class TimedDelivery:
    """One service; lives on the loop's thread."""

    def __init__(
        self,
        store: MessageStore,
        timers: TimerStore,
        metrics: TimerMetrics,
        statistics: DeliveryCounter,
        now_ms: Callable[[], int],
        flush_interval_s: float,
    ) -> None:
        self._store = store
        self._put: PutOne = store.put
        self._timers = timers
        self._metrics = metrics
        self._statistics = statistics
        self._now_ms = now_ms
        self._flush_interval_s = flush_interval_s
        self._slots = OpenSlots(timers, store.record_at_waiting, self._slot_loaded)
        self.queue = TimerQueue(
            store, timers, self._slots, metrics, self._deliver_late, self._time_ms
        )
        self._flush = TimerFlush(store, timers, now_ms, metrics.sample)
        self._recount = TimerRecount(timers, metrics, store.record_at_waiting, now_ms)
        self._refused_until_ms = 0
        self._woken = asyncio.Event()
        store.dispatcher.on_queue_grown(self._queue_grown)

    async def run(self) -> None:
        """Deliver until cancelled."""
        is_stopping = asyncio.Event()
        counting = asyncio.ensure_future(self._recount.run())
        flushing = asyncio.ensure_future(self._flush.run(self._flush_interval_s, is_stopping))
        try:
            while True:
                self._woken.clear()
                is_busy = await self._work()
                await asyncio.sleep(0)
                if not is_busy:
                    await self._sleep()
        finally:
            is_stopping.set()
            counting.cancel()
            await self._settle(flushing)

    async def _settle(self, flushing: "asyncio.Future[None]") -> None:
        """At the stop: the next start goes on where this one was."""
        try:
            async with asyncio.timeout(STOP_WAIT_MAX_S):
                await flushing
                await self._slots.close()
                await self._flush.flush(is_last=True)
        except TimeoutError:
            log.warning("timers_behind reason=the disk is slow")

    def _queue_grown(self, queue: ConsumeQueue, end_offset: int) -> None:
        del end_offset
        if queue.topic == TIMER_TOPIC:
            self._woken.set()

    def _slot_loaded(self, content: SlotContent) -> None:
        now_ms = self._now_ms()
        for topic in content.marked_topics:
            # Counted out when it was taken back; those that it finds are counted out again.
            self._metrics.add(topic, 1, now_ms)
        self._woken.set()

    def _time_ms(self) -> int:
        """Now, but not before the last stored message: see `DelayedDelivery`."""
        return max(self._now_ms(), self._store.dispatcher.last_stored_at_ms)

    async def _sleep(self) -> None:
        now_ms = self._time_ms()
        wake_ms = min(self._next_look_ms(now_ms), now_ms + SLEEP_MAX_MS)
        await asyncio.sleep(PAUSE_MS / 1000)
        try:
            async with asyncio.timeout(max(wake_ms - now_ms - PAUSE_MS, 0) / 1000):
                await self._woken.wait()
        except TimeoutError:
            return

    def _next_look_ms(self, now_ms: int) -> int:
        look_ms = self._slots.open_next(now_ms)
        for slot in self._slots:
            due_ms = slot.order.next_due_ms() if slot.is_loaded else None
            if due_ms is not None:
                look_ms = min(look_ms, due_ms)
        return max(look_ms, self._refused_until_ms)

    async def _work(self) -> bool:
        """Some messages into the wheel, some out of it; False: nothing more to do now."""
        if self._time_ms() < self._refused_until_ms:
            return False
        has_taken = await self.queue.take()
        has_delivered = await self._deliver()
        return has_taken or has_delivered

    async def _deliver(self) -> bool:
        now_ms = self._time_ms()
        slot = self._slots.current(now_ms)
        if slot is None or not self._is_ready(slot):
            return False
        due = slot.order.due(now_ms, DELIVERIES_PER_TURN_MAX)
        if due:
            waiting = [entry for _, entry in due]
            count = self._deliver_some(slot, waiting, await self._records(waiting))
            slot.delivered_count += count
            slot.order.done(due[:count])
            return len(due) == DELIVERIES_PER_TURN_MAX or count < len(due)
        if not slot.order and now_ms >= slot.time_ms + self._timers.precision_ms:
            self._slots.finish(slot)
            return True
        return False

    def _is_ready(self, slot: OpenSlot) -> bool:
        """Whether all is known of a slot whose time has come, also what was taken back."""
        if slot.queue_end is None:
            slot.queue_end = self.queue.end
        return slot.is_loaded and self._timers.queue_offset >= slot.queue_end

    async def _records(self, waiting: list[Waiting]) -> list[bytes | memoryview]:
        """The bytes of messages; empty for one that is deleted."""
        records = self._read(waiting, may_wait=False)
        if records is None:
            records = await asyncio.to_thread(self._read, waiting, may_wait=True)
        assert records is not None
        return records

    def _read(self, waiting: list[Waiting], *, may_wait: bool) -> list[bytes | memoryview] | None:
        records: list[bytes | memoryview] = []
        for log_offset, size, *_ in waiting:
            parts = self._store.reader.record_bytes(log_offset, size, may_wait=may_wait)
            if parts is None:
                return None
            records.append(memoryview(parts[0]) if len(parts) == 1 else b"".join(parts))
        return records

    def _deliver_some(
        self, slot: OpenSlot, waiting: list[Waiting], records: list[bytes | memoryview]
    ) -> int:
        """Returns how many of them are delivered, or never will be."""
        deadline = time.perf_counter() + WORK_PER_TURN_MAX_S
        for index, (entry, content) in enumerate(zip(waiting, records, strict=True)):
            if not self._deliver_one(slot, entry, content):
                self._refused_until_ms = self._time_ms() + RETRY_INTERVAL_MS
                return index
            if time.perf_counter() > deadline:
                return index + 1
        return len(waiting)

    def _deliver_one(self, slot: OpenSlot, entry: Waiting, content: bytes | memoryview) -> bool:
        """False: the store does not take it now."""
        try:
            record = _timed_record(content, entry.log_offset)
        except RecordError as error:
            log.error(  # noqa: TRY400 - deleted or damaged, not ours to repair
                "timed_message_lost log_offset=%d reason=%s", entry.log_offset, error
            )
            return True
        if entry.flags & ROLLS:
            return self._roll(record, entry)
        if slot.deleted and self._is_taken_back(record, slot.deleted):
            return True
        return self._deliver_record(record, entry.written_at_ms)

    def _is_taken_back(self, record: Record, deleted: set[str]) -> bool:
        key, topic = find_unique_key(record.properties), _real_topic(record)
        if key is None or (key not in deleted and f"{topic}+{key}" not in deleted):
            return False
        self._metrics.add(topic, -1, self._now_ms())
        return True

    def _deliver_late(self, record: Record) -> bool:
        """A message that reached the wheel after its slot was over."""
        if self._deliver_record(record, NEVER_ENQUEUED_MS):
            return True
        self._refused_until_ms = self._time_ms() + RETRY_INTERVAL_MS
        return False

    def _deliver_record(self, record: Record, enqueued_at_ms: int) -> bool:
        properties = record.properties
        topic = _real_topic(record)
        queue_text = find_stored_property(properties, _REAL_QUEUE_ID) or b""
        if not topic or not queue_text.isdigit() or int(queue_text) > QUEUE_ID_MAX:
            log.error("timed_message_without_topic log_offset=%d", record.log_offset)
            return True
        now_ms = self._now_ms()
        if enqueued_at_ms != NEVER_ENQUEUED_MS:
            self._metrics.add(topic, -1, now_ms)
        if find_stored_property(properties, _DELETED) is not None:
            return True  # a marker that found nothing is nobody's message
        is_stored = self._store_copy(record, topic, int(queue_text), enqueued_at_ms, now_ms)
        if not is_stored and enqueued_at_ms != NEVER_ENQUEUED_MS:
            self._metrics.add(topic, 1, now_ms)
        return is_stored

    def _roll(self, record: Record, entry: Waiting) -> bool:
        """Its time is still far away: it is put again, and comes nearer."""
        now_ms = self._now_ms()
        topic = _real_topic(record)
        enqueued_at_ms = entry.written_at_ms
        if not self._store_copy(record, TIMER_TOPIC, 0, enqueued_at_ms, now_ms, is_rolled=True):
            return False
        self._metrics.add(topic, 1 if entry.flags & DELETES else -1, now_ms)
        return True

    def _store_copy(
        self,
        record: Record,
        topic: str,
        queue_id: int,
        enqueued_at_ms: int,
        now_ms: int,
        *,
        is_rolled: bool = False,
    ) -> bool:
        properties = record.properties
        if is_rolled or _ENQUEUED in properties:
            stored = _with_times(properties, enqueued_at_ms, now_ms, is_rolled=is_rolled)
        else:
            stored = join_properties(properties, _TIMES % (enqueued_at_ms, now_ms))
        result = self._put(
            topic,
            queue_id,
            record.body,
            stored,
            flag=record.flag,
            system_flag=record.system_flag,
            born_at_ms=record.born_at_ms,
            born_host=record.born_host,
            reconsume_times=record.reconsume_times,
            prepared_offset=record.prepared_offset,
            tags=find_tags(properties),
            keys=find_keys(properties),
            unique_key=find_unique_key(properties),
            was_accepted=True,
        )
        if result.status in _HOPELESS:
            log.error(
                "timed_message_illegal log_offset=%d topic=%s reason=%s",
                record.log_offset,
                topic,
                result.reason,
            )
            return True
        if not result.status.is_stored:
            return False
        self._metrics.dequeued_count += 1
        self._statistics.count_put(topic, queue_id, 1, result.end_offset - result.log_offset)
        return True


def _timed_record(content: bytes | memoryview, log_offset: int) -> Record:
    """Raises RecordError: no message of the timer's topic stands there."""
    record = decode_record(content)
    if record.topic != TIMER_TOPIC or record.log_offset != log_offset:
        raise RecordError("another message stands there")
    return record


def _real_topic(record: Record) -> str:
    return (find_stored_property(record.properties, _REAL_TOPIC) or b"").decode("utf-8", "replace")


def _with_times(stored: bytes, enqueued_at_ms: int, now_ms: int, *, is_rolled: bool) -> bytes:
    """Properties of a message that went through the wheel before."""
    properties = decode_properties(stored)
    properties[TIMER_ENQUEUE_MS] = str(enqueued_at_ms)
    properties[TIMER_DEQUEUE_MS] = str(now_ms)
    if is_rolled:
        times = properties.get(TIMER_ROLL_TIMES, "0")
        count = int(times) if times.isascii() and times.isdigit() else 0
        properties[TIMER_ROLL_TIMES] = str(count + 1)
    return encode_properties(properties)
