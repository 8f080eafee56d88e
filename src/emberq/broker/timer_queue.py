"""Takes messages of the timer's topic into the wheel, in the order in which they were stored."""

import asyncio
import logging
from collections.abc import Callable

from emberq.broker.open_slots import OpenSlots
from emberq.broker.timer_metrics import TimerMetrics
from emberq.errors import RecordError
from emberq.model.system_topics import TIMER_TOPIC
from emberq.record.decode import iter_records
from emberq.record.properties import find_stored_property
from emberq.record.property_names import REAL_TOPIC, TIMER_DELETE_UNIQUE_KEY
from emberq.record.record import Record
from emberq.record.string_hash import tag_code
from emberq.seldom import Seldom
from emberq.store.message_store import MessageStore
from emberq.store.reader import ReadLimits
from emberq.store.results import ReadResult
from emberq.store.timers.timer_store import TimerStore
from emberq.store.timers.times import slot_time_ms, stored_due_ms, stored_slot_ms

log = logging.getLogger(__name__)

TAKEN_PER_TURN_MAX = 256
READ_SIZE_MAX_BYTES = 256 * 1024
ILLEGAL_LOGGED_EVERY_S = 10.0

_LIMITS = ReadLimits(
    count_max=TAKEN_PER_TURN_MAX,
    size_max_bytes=READ_SIZE_MAX_BYTES,
    count_max_on_disk=TAKEN_PER_TURN_MAX,
    size_max_bytes_on_disk=READ_SIZE_MAX_BYTES,
)
_REAL_TOPIC, _DELETED = REAL_TOPIC.encode(), TIMER_DELETE_UNIQUE_KEY.encode()


class TimerQueue:
    """Lives on the loop's thread."""

    def __init__(
        self,
        store: MessageStore,
        timers: TimerStore,
        slots: OpenSlots,
        metrics: TimerMetrics,
        deliver_now: Callable[[Record], bool],
        time_ms: Callable[[], int],
    ) -> None:
        """`deliver_now` delivers a message whose slot is over; False: the store takes nothing."""
        self._store = store
        self._timers = timers
        self._slots = slots
        self._metrics = metrics
        self._deliver_now = deliver_now
        self._time_ms = time_ms
        self._seldom = Seldom(ILLEGAL_LOGGED_EVERY_S)
        self._known_end = self.end  # where the queue ended at the start

    @property
    def end(self) -> int:
        """Behind the last message that is stored, in the queue already or not."""
        queue = self._store.queues.get(TIMER_TOPIC, 0)
        return 0 if queue is None else queue.next_offset

    async def take(self) -> bool:
        """Take some messages; False: there are no more, or they cannot be taken now."""
        queue = self._store.queues.get(TIMER_TOPIC, 0)
        if queue is None or self._timers.is_full:
            return False
        offset = self._timers.queue_offset
        if not queue.min_offset <= offset <= queue.end_offset:
            offset = min(max(offset, queue.min_offset), queue.end_offset)
            log.warning("timer_queue_moved from=%d to=%d", self._timers.queue_offset, offset)
            self._timers.queue_offset = offset
        if offset == queue.end_offset:
            return False
        found: ReadResult | None = self._store.read(TIMER_TOPIC, 0, offset, _LIMITS)
        if found is None:
            found = await asyncio.to_thread(
                self._store.read_waiting, TIMER_TOPIC, 0, offset, _LIMITS
            )
        next_offset = self._take_records(found)
        self._timers.queue_offset = next_offset
        if self._timers.enqueued and next_offset >= self._known_end:
            self._timers.enqueued = frozenset()
        return offset < next_offset < queue.end_offset

    def _take_records(self, found: ReadResult) -> int:
        """Returns the queue offset to go on at."""
        now_ms = self._time_ms()
        for part in found.parts:
            for record in iter_records(memoryview(part), is_crc_checked=False):
                try:
                    if not self._take_record(record, now_ms):
                        return record.queue_offset
                except RecordError as error:
                    held_back = self._seldom.held_back()
                    if held_back is not None:
                        log.error(  # noqa: TRY400 - the message's, not ours
                            "timed_message_illegal queue_offset=%d reason=%s passed_before=%d",
                            record.queue_offset,
                            error,
                            held_back,
                        )
        return found.next_offset

    def _take_record(self, record: Record, now_ms: int) -> bool:
        """False: the store does not take it now. Raises RecordError."""
        if record.log_offset in self._timers.enqueued:
            return True
        properties = record.properties
        slot_ms = stored_slot_ms(properties)
        raw_topic = find_stored_property(properties, _REAL_TOPIC)
        if raw_topic is None:
            raise RecordError("a timed message without its topic")
        deleted = find_stored_property(properties, _DELETED)
        precision_ms = self._timers.precision_ms
        due_ms = stored_due_ms(properties, record.stored_at_ms, slot_ms, precision_ms)
        if slot_ms + precision_ms <= now_ms:
            if deleted is not None:
                return True  # it has nothing to take back any more
            if due_ms <= now_ms:
                return self._deliver_now(record)
            slot_ms = slot_time_ms(due_ms, precision_ms)
        elif slot_ms % precision_ms:
            slot_ms = slot_time_ms(due_ms, precision_ms)  # slots had another length when it came
        topic = raw_topic.decode("utf-8", "replace")
        placed_ms, waiting = self._timers.enqueue(
            slot_ms,
            due_ms,
            now_ms,
            record.log_offset,
            record.size_bytes,
            tag_code(topic),
            is_deletion=deleted is not None,
        )
        self._slots.arrived(
            placed_ms,
            due_ms if placed_ms == slot_ms else placed_ms + 1,
            waiting,
            None if deleted is None else deleted.decode("utf-8", "replace"),
        )
        self._metrics.enqueued_count += 1
        self._metrics.add(topic, 1 if deleted is None else -1, now_ms)
        return True
