"""Everything of a store that waits for its time: wheel, timer log and check file together."""

import logging
from collections.abc import Callable
from mmap import mmap
from pathlib import Path

from msgspec import Struct

from emberq.errors import RecordError
from emberq.record.decode import decode_record, read_properties
from emberq.record.properties import find_stored_property
from emberq.record.property_names import REAL_TOPIC, TIMER_DELETE_UNIQUE_KEY
from emberq.store.disk import Disk, DiskFile
from emberq.store.timers.census import TimerCensus
from emberq.store.timers.check_file import TimerCheck, read_timer_check, write_timer_check
from emberq.store.timers.recovery import RecoveredTimers, recover_timers
from emberq.store.timers.slot_order import SlotOrder, Waiting
from emberq.store.timers.times import PRECISION_MAX_MS, stored_due_ms
from emberq.store.timers.unit_log import TimerLog, UnitReader
from emberq.store.timers.units import DELETES, NO_POSITION, ROLLS, UNIT, UNIT_SIZE, WAITS
from emberq.store.timers.wheel import (
    ROLL_WINDOW_MAX,
    SLOTS_AHEAD,
    WHEEL_SIZE_BYTES,
    Slot,
    TimerWheel,
)

log = logging.getLogger(__name__)

# Units that may wait in memory for a flush; beyond that no message is put into the wheel.
UNWRITTEN_MAX_BYTES = 16 * 1024 * 1024

_DELETE_KEY, _REAL_TOPIC = TIMER_DELETE_UNIQUE_KEY.encode(), REAL_TOPIC.encode()

ReadRecord = Callable[[int], bytes | None]


class TimerChanges(Struct, frozen=True):
    """What one flush writes."""

    log_position: int
    units: bytes
    pages: list[tuple[int, bytes]]
    check: TimerCheck
    # Slots were delivered; else the check file may say only that time went on.
    has_left_slots: bool

    @property
    def log_end(self) -> int:
        return self.log_position + len(self.units)


class SlotContent(Struct, frozen=True):
    """What a slot's units say."""

    order: SlotOrder
    # Markers name messages that were taken back: units, keys of those messages, their topics.
    markers: SlotOrder
    deleted: set[str]
    marked_topics: list[str]


class TimerStore:
    """Lives on the loop's thread, but for opening, loading slots and writing, which may wait."""

    def __init__(
        self,
        disk: Disk,
        root: Path,
        *,
        precision_ms: int,
        file_size: int,
        roll_window: int,
        wheel_size: int = WHEEL_SIZE_BYTES,
    ) -> None:
        self.precision_ms = precision_ms
        self._disk = disk
        self._wheel_path = root / "timerwheel"
        self._check_path = root / "config" / "timercheck"
        self._roll_window_ms = _usable_window(roll_window) * precision_ms
        self._short_roll_ms = _usable_window(roll_window) // 2 * precision_ms
        self._nearly_there_ms = _usable_window(roll_window) // 3 * precision_ms
        self._log = TimerLog(disk, root / "timerlog", file_size)
        # Only pages with slots in use cost memory.
        self.wheel = TimerWheel(mmap(-1, wheel_size), precision_ms)
        self._wheel_file: DiskFile | None = None
        self.check = TimerCheck()
        self.waiting_count = 0
        self._has_left_slots = False
        self.read_time_ms = 0  # every slot before it is delivered
        self.queue_offset = 0  # every message before it is in the wheel, or delivered
        self.started_ms = 0  # the slot of the start
        self.overdue_ms: list[int] = []  # slots of before it with something in them, newest first
        # Log offsets of messages behind `queue_offset` that are in the wheel already.
        self.enqueued: frozenset[int] = frozenset()

    # Opening and closing

    def open(self, log_end: int, now_ms: int, queue_offset_of: Callable[[int], int | None]) -> None:
        """Recover. `queue_offset_of` tells it of the message at a log offset.

        Raises:
            StoreDamaged, OSError
        """
        is_wheel_known = self._load_wheel()
        stored = read_timer_check(self._disk, self._check_path)
        check = stored or TimerCheck(read_time_ms=self._oldest_ms(now_ms))
        recovered = recover_timers(
            self._log,
            self.wheel,
            check,
            is_wheel_known=is_wheel_known and stored is not None,
            log_end=log_end,
        )
        self.queue_offset = check.queue_offset
        if stored is None and recovered.last_log_offset >= 0:
            known = queue_offset_of(recovered.last_log_offset)
            self.queue_offset = 0 if known is None else known + 1
        self.enqueued = recovered.enqueued
        self.waiting_count = recovered.waiting_count
        self.check = check
        self._begin(recovered, now_ms)
        self._disk.make_folder(self._check_path.parent)
        changes = self.changes(now_ms)
        self.write(changes)
        self.written(changes)

    def _load_wheel(self) -> bool:
        """Whether there was a wheel of the right size."""
        is_known = (
            self._disk.exists(self._wheel_path)
            and self._disk.size_of(self._wheel_path) == self.wheel.size_bytes
        )
        self._wheel_file = file = self._disk.create_sparse(self._wheel_path, self.wheel.size_bytes)
        if is_known:
            for start, end in file.written_from(0):
                self.wheel.fill(start, file.read(start, min(end, self.wheel.size_bytes) - start))
        return is_known

    def _oldest_ms(self, now_ms: int) -> int:
        """The slots of a week: what official brokers look through without a check file."""
        return self.slot_at(now_ms) - SLOTS_AHEAD * self.precision_ms

    def _begin(self, recovered: RecoveredTimers, now_ms: int) -> None:
        current_ms = self.slot_at(now_ms)
        overdue = [time_ms for time_ms in recovered.slot_times_ms if time_ms < current_ms]
        self.overdue_ms = overdue[::-1]
        self.started_ms = current_ms
        self.read_time_ms = overdue[0] if overdue else current_ms
        log.info(
            "timers_recovered waiting=%d overdue_slots=%d read_time_ms=%d queue_offset=%d",
            recovered.waiting_count,
            len(overdue),
            self.read_time_ms,
            self.queue_offset,
        )

    def close(self) -> None:
        self._log.close()
        if self._wheel_file is not None:
            self._wheel_file.close()

    # Waiting messages

    def slot_at(self, time_ms: int) -> int:
        """The slot that begins at or before a time."""
        return time_ms // self.precision_ms * self.precision_ms

    @property
    def is_full(self) -> bool:
        """Whether the disk has to catch up first."""
        return self._log.unwritten_bytes >= UNWRITTEN_MAX_BYTES

    def enqueue(
        self,
        slot_ms: int,
        due_ms: int,
        now_ms: int,
        log_offset: int,
        size: int,
        topic_hash: int,
        *,
        is_deletion: bool,
    ) -> tuple[int, Waiting]:
        """Put a message into the wheel; returns the slot that it is in now. One that is due beyond
        the window is put into a nearer slot, and again when that comes."""
        written_at_ms = self.slot_at(now_ms)
        ahead_ms = slot_ms - written_at_ms
        flags = WAITS
        if ahead_ms >= self._roll_window_ms:
            flags |= ROLLS
            if ahead_ms - self._roll_window_ms < self._nearly_there_ms:
                slot_ms = written_at_ms + self._short_roll_ms  # enough time for the next one
            else:
                slot_ms = written_at_ms + self._roll_window_ms
        if is_deletion:
            flags |= DELETES
        waiting = Waiting(log_offset, size, flags, written_at_ms, topic_hash)
        self._append(slot_ms, due_ms, waiting)
        return slot_ms, waiting

    def _append(self, slot_ms: int, due_ms: int, waiting: Waiting) -> None:
        log_offset, size, flags, written_at_ms, topic_hash = waiting
        count = -1 if flags & DELETES else 1
        first, last, number = self.wheel.slot(slot_ms)
        position = self._log.append(
            UNIT.pack(
                UNIT_SIZE,
                last,
                flags,
                written_at_ms,
                slot_ms - written_at_ms,
                log_offset,
                size,
                topic_hash,
                due_ms,
            )
        )
        first = position if first == NO_POSITION else first
        self.wheel.put(slot_ms, Slot(first, position, number + count))
        self.waiting_count += count

    def leave(self, slot_ms: int) -> None:
        """A slot is delivered."""
        self._has_left_slots = True
        self.waiting_count -= self.wheel.slot(slot_ms).number

    def keep_only(self, slot_ms: int, *left: SlotOrder) -> None:
        """Before a stop in the midst of a slot: the next start finds only what is left of it."""
        self.leave(slot_ms)
        self.wheel.put(slot_ms, Slot())
        for order in left:
            for due_ms, waiting in order:
                self._append(slot_ms, due_ms, waiting)

    def load_slot(self, slot_ms: int, last: int, read_record: ReadRecord) -> SlotContent:
        """What waits in a slot whose newest unit is at `last`. May wait."""
        content = SlotContent(SlotOrder(), SlotOrder(), set(), [])
        newest_first = self._chain(slot_ms, last)
        for start in range(len(newest_first) - UNIT_SIZE, -1, -UNIT_SIZE):
            unit = UNIT.unpack_from(newest_first, start)
            _, _, flags, written_at_ms, _, log_offset, size, topic_hash, due_ms = unit
            waiting = Waiting(log_offset, size, flags, written_at_ms, topic_hash)
            if is_marker(flags):
                content.markers.add(due_ms, waiting)
                _note_marker(content, read_record(log_offset))
                continue
            if flags & ROLLS:
                due_ms = slot_ms + 1
            elif not slot_ms < due_ms <= slot_ms + PRECISION_MAX_MS:  # of an official broker
                due_ms = self._stored_due_ms(slot_ms, read_record(log_offset))
            content.order.add(due_ms, waiting)
        return content

    def _chain(self, slot_ms: int, last: int) -> bytearray:
        reader = UnitReader(self._log)
        newest_first = bytearray()
        position = last
        while position != NO_POSITION:
            unit = reader.unit(position)
            if unit is None or unit[1] >= position:
                log.error("timer_log_damaged slot_ms=%d position=%d", slot_ms, position)
                break
            newest_first += UNIT.pack(*unit)
            position = unit[1]
        return newest_first

    def _stored_due_ms(self, slot_ms: int, content: bytes | None) -> int:
        if content is None:
            return slot_ms + 1  # delivery will say so
        try:
            record = decode_record(memoryview(content), is_body_read=False)
        except RecordError:
            return slot_ms + 1
        return stored_due_ms(record.properties, record.stored_at_ms, slot_ms, self.precision_ms)

    def census(self) -> TimerCensus:
        """To count what waits now, by topic; as long as all of it is in the files."""
        return TimerCensus(self._log, self.wheel, self.read_time_ms)

    # Files

    def changes(self, now_ms: int) -> TimerChanges:
        """What is not written yet; on the loop's thread."""
        position, units = self._log.tail
        has_left_slots, self._has_left_slots = self._has_left_slots, False
        pages = self.wheel.take_changes()
        return TimerChanges(position, bytes(units), pages, self.check_at(now_ms), has_left_slots)

    def check_at(self, now_ms: int) -> TimerCheck:
        """What the check file would say now."""
        # While messages are passed over because their unit is known, the next start must find
        # those units behind the position again.
        log_position = self.check.log_position if self.enqueued else self._log.end
        return self.check.next(self.read_time_ms, log_position, self.queue_offset, now_ms)

    def write(self, changes: TimerChanges) -> None:
        """In a thread, and when all messages that it is about are durable. Raises OSError."""
        assert self._wheel_file is not None
        self._log.write(changes.log_position, changes.units)
        if changes.pages:
            for at, content in changes.pages:
                self._wheel_file.write(at, content)
            self._wheel_file.sync()
        write_timer_check(self._disk, self._check_path, changes.check)

    def written(self, changes: TimerChanges) -> None:
        self._log.forget_before(changes.log_end)
        self.check = changes.check

    def not_written(self, changes: TimerChanges) -> None:
        self.wheel.take_back(changes.pages)
        self._has_left_slots |= changes.has_left_slots

    def remove_before(self, log_offset: int) -> int:
        """Remove files of the timer log whose messages are deleted. In a thread."""
        return self._log.remove_before(log_offset)


def _usable_window(slots: int) -> int:
    return slots if 2 <= slots <= ROLL_WINDOW_MAX else ROLL_WINDOW_MAX


def is_marker(flags: int) -> bool:
    """Whether a unit takes another message of its slot back; not while it is on its way there."""
    return bool(flags & DELETES) and not flags & ROLLS


def _note_marker(content: SlotContent, record_bytes: bytes | None) -> None:
    try:
        properties = read_properties(record_bytes or b"")
    except RecordError:
        return
    key = find_stored_property(properties, _DELETE_KEY)
    topic = find_stored_property(properties, _REAL_TOPIC)
    if key is not None and topic is not None:
        content.deleted.add(key.decode("utf-8", "replace"))
        content.marked_topics.append(topic.decode("utf-8", "replace"))
