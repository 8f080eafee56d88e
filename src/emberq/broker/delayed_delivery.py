"""Delivers messages with a delay level: when its time has come, each becomes a message of its
real topic. At least once, never early, in the order of its level.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from emberq.broker.appending import PutOne
from emberq.broker.delay_levels import DelayLevels
from emberq.broker.delay_offsets import DelayOffsets
from emberq.broker.durable import until_durable
from emberq.model.system_topics import HALF_TOPIC, SCHEDULE_TOPIC
from emberq.record.decode import iter_records
from emberq.record.properties import decode_properties
from emberq.record.property_names import KEYS, REAL_QUEUE_ID, REAL_TOPIC, TAGS, UNIQUE_KEY
from emberq.record.record import Record
from emberq.store.consume_queue import ENTRY, ConsumeQueue
from emberq.store.message_store import MessageStore
from emberq.store.reader import ReadLimits
from emberq.store.results import PutStatus, ReadResult, ReadStatus

log = logging.getLogger(__name__)

# How many messages, and how long, before others have their turn.
DELIVERIES_PER_TURN_MAX = 64
WORK_PER_TURN_MAX_S = 0.002
READ_SIZE_MAX_BYTES = 256 * 1024
# After a put that the store refused: a full or slow disk is not asked again at once.
RETRY_INTERVAL_MS = 100
# Clocks are looked at again at least this often: somebody may have set them.
SLEEP_MAX_MS = 1_000
# How long a stop waits until the last deliveries are durable.
STOP_WAIT_MAX_S = 5.0
# Under this group official statistics count what leaves the schedule topic.
SCHEDULE_GROUP = "SCHEDULE_CONSUMER"

_LIMITS = ReadLimits(
    count_max=DELIVERIES_PER_TURN_MAX,
    size_max_bytes=READ_SIZE_MAX_BYTES,
    count_max_on_disk=DELIVERIES_PER_TURN_MAX,
    size_max_bytes_on_disk=READ_SIZE_MAX_BYTES,
)
# No put will ever take these; trying again would keep back all that follow.
_HOPELESS = (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED)


class DeliveryCounter(Protocol):
    def count_put(
        self, topic: str, queue_id: int, count: int, size: int, time_ms: int = 0
    ) -> None: ...

    def count_get(
        self, group: str, topic: str, queue_id: int, count: int, size: int, time_ms: int = 0
    ) -> None: ...


class DelayedDelivery:
    """One service for all levels; lives on the loop's thread."""

    def __init__(
        self,
        store: MessageStore,
        levels: DelayLevels,
        offsets: DelayOffsets,
        statistics: DeliveryCounter,
        now_ms: Callable[[], int],
        on_delivered: Callable[[], None],
    ) -> None:
        """`on_delivered` is told that the offsets have changed."""
        self._store = store
        self._put: PutOne = store.put
        self._levels = levels
        self._offsets = offsets
        self._statistics = statistics
        self._now_ms = now_ms
        self._on_delivered = on_delivered
        # When each level has to be looked at next; a level without a time waits for a message.
        self._due_ms: dict[int, int] = dict.fromkeys(range(1, levels.highest + 1), 0)
        self._woken = asyncio.Event()
        store.dispatcher.on_queue_grown(self._queue_grown)

    async def run(self) -> None:
        """Deliver until cancelled."""
        try:
            while True:
                self._woken.clear()
                now_ms = self._time_ms()
                due = [level for level, due_ms in self._due_ms.items() if due_ms <= now_ms]
                for level in due:
                    await self._deliver(level)
                    await asyncio.sleep(0)
                if not due:
                    await self._sleep(now_ms)
        except asyncio.CancelledError:
            await self._settle()
            raise

    async def _settle(self) -> None:
        """At the stop: wait until all deliveries may be written down as such."""
        try:
            async with asyncio.timeout(STOP_WAIT_MAX_S):
                await until_durable(self._store, self._store.log.end)
        except TimeoutError:
            log.warning("delay_offsets_behind reason=the disk is slow")
        self._on_delivered()

    async def _sleep(self, now_ms: int) -> None:
        due_ms = min(self._due_ms.values(), default=now_ms + SLEEP_MAX_MS)
        try:
            async with asyncio.timeout(min(due_ms - now_ms, SLEEP_MAX_MS) / 1000):
                await self._woken.wait()
        except TimeoutError:
            return

    def _queue_grown(self, queue: ConsumeQueue, end_offset: int) -> None:
        del end_offset
        if queue.topic == SCHEDULE_TOPIC:
            level = queue.queue_id + 1
            if level not in self._due_ms and level <= self._levels.highest:
                self._due_ms[level] = 0
                self._woken.set()

    def _time_ms(self) -> int:
        """Now, but not before the last stored message: a clock that was set back must not make
        what is stored look as if it waited for too long."""
        return max(self._now_ms(), self._store.dispatcher.last_stored_at_ms)

    async def _deliver(self, level: int) -> None:
        """Deliver some of a level's messages that are due, and note when to look again."""
        queue = self._store.queues.get(SCHEDULE_TOPIC, level - 1)
        if queue is None:
            del self._due_ms[level]
            return
        offset = self._offsets.next(level)
        if not queue.min_offset <= offset <= queue.end_offset:
            offset = min(max(offset, queue.min_offset), queue.end_offset)
            self._offsets.reset(level, offset)
        if offset == queue.end_offset:
            del self._due_ms[level]
            return
        entries = queue.entries(offset, DELIVERIES_PER_TURN_MAX)
        if entries is None:
            entries = await asyncio.to_thread(
                queue.entries_from_disk, offset, DELIVERIES_PER_TURN_MAX
            )
        count, due_ms = self._count_due(level, entries)
        if count:
            await self._deliver_due(level, offset, count)
        else:
            self._due_ms[level] = due_ms

    def _count_due(self, level: int, entries: bytes) -> tuple[int, int]:
        """How many of these entries are due, and when the next one will be."""
        now_ms = self._time_ms()
        # A time further away than the level's delay is of other settings; it counts as over.
        latest_ms = now_ms + self._levels.delay_ms(level)
        for count, (_, _, due_ms) in enumerate(ENTRY.iter_unpack(entries)):
            if now_ms < due_ms <= latest_ms:
                return count, due_ms
        return len(entries) // ENTRY.size, now_ms

    async def _deliver_due(self, level: int, offset: int, count: int) -> None:
        limits = _LIMITS if count == DELIVERIES_PER_TURN_MAX else _at_most(count)
        found: ReadResult | None = self._store.read(SCHEDULE_TOPIC, level - 1, offset, limits)
        if found is None:
            found = await asyncio.to_thread(
                self._store.read_waiting, SCHEDULE_TOPIC, level - 1, offset, limits
            )
        next_offset = offset
        if found.status in (
            ReadStatus.FOUND,
            ReadStatus.NO_MATCHED_MESSAGE,
            ReadStatus.MESSAGE_WAS_REMOVING,
        ):
            # Never beyond what is due, whatever the reader passed over.
            next_offset = self._deliver_records(
                level, found, min(found.next_offset, offset + count)
            )
        if next_offset > offset:
            self._offsets.advance(level, next_offset, self._store.log.end)
            self._on_delivered()
        else:  # the store takes nothing, or the reader finds nothing
            self._due_ms[level] = self._time_ms() + RETRY_INTERVAL_MS

    def _deliver_records(self, level: int, found: ReadResult, next_offset: int) -> int:
        """Put what was read; returns the offset to go on at."""
        deadline = time.perf_counter() + WORK_PER_TURN_MAX_S
        for part in found.parts:
            for record in iter_records(memoryview(part), is_crc_checked=False):
                if record.queue_offset >= next_offset:
                    return next_offset
                if not self._deliver_record(level, record):
                    return record.queue_offset
                if time.perf_counter() > deadline:
                    return record.queue_offset + 1
        return next_offset

    def _deliver_record(self, level: int, record: Record) -> bool:
        """False: the store does not take it now."""
        properties = decode_properties(record.properties)
        topic, queue_text = properties.get(REAL_TOPIC), properties.get(REAL_QUEUE_ID, "")
        if topic is None or not (queue_text.isascii() and queue_text.isdigit()):
            log.error(
                "delayed_message_without_topic level=%d offset=%d", level, record.queue_offset
            )
            return True
        if topic == HALF_TOPIC:  # official brokers drop it too: its transaction is decided alone
            log.warning("delayed_half_message level=%d offset=%d", level, record.queue_offset)
            return True
        queue_id = int(queue_text)
        result = self._put(
            topic,
            queue_id,
            record.body,
            record.properties,  # with its level, which means nothing in another topic
            flag=record.flag,
            system_flag=record.system_flag,
            born_at_ms=record.born_at_ms,
            born_host=record.born_host,
            reconsume_times=record.reconsume_times,
            tags=properties.get(TAGS),
            keys=properties.get(KEYS),
            unique_key=properties.get(UNIQUE_KEY),
            was_accepted=True,
        )
        if result.status in _HOPELESS:
            log.error(
                "delayed_message_illegal level=%d offset=%d topic=%s reason=%s",
                level,
                record.queue_offset,
                topic,
                result.reason,
            )
            return True
        if not result.status.is_stored:
            return False
        size = result.end_offset - result.log_offset
        self._statistics.count_get(SCHEDULE_GROUP, SCHEDULE_TOPIC, level - 1, 1, size)
        self._statistics.count_put(topic, queue_id, 1, size)
        return True


def _at_most(count: int) -> ReadLimits:
    return ReadLimits(
        count_max=count,
        size_max_bytes=READ_SIZE_MAX_BYTES,
        count_max_on_disk=count,
        size_max_bytes_on_disk=READ_SIZE_MAX_BYTES,
    )
