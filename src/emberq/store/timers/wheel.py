"""The timer wheel: for each slot of time where its newest unit stands in the timer log.

Twice as many slots as a message may wait for, so that a slot that is over is not needed again soon.
The layout is docs/formats/timer-files.md.
"""

from collections.abc import Iterable, Iterator
from mmap import mmap
from struct import Struct as Layout
from typing import NamedTuple

from emberq.store.disk import PAGE_SIZE_BYTES
from emberq.store.timers.units import NO_POSITION

# Time in units of the precision, first and last position in the timer log, number of messages,
# and a number that is always 0.
SLOT = Layout(">qqqii")
SLOT_SIZE = SLOT.size
# A week of seconds, whatever the precision; the wheel has twice that.
SLOTS_AHEAD = 7 * 24 * 3600
SLOT_COUNT = 2 * SLOTS_AHEAD
WHEEL_SIZE_BYTES = SLOT_COUNT * SLOT_SIZE
# Slots before the end of a week that are left alone.
BLANK_SLOTS = 60
ROLL_WINDOW_MAX = SLOTS_AHEAD - BLANK_SLOTS


class Slot(NamedTuple):
    """Units of one slot; markers that take messages back count as minus one."""

    first: int = NO_POSITION
    last: int = NO_POSITION
    number: int = 0


EMPTY = Slot()


class TimerWheel:
    """Slots in any writable buffer; official ones have `WHEEL_SIZE_BYTES`. No I/O, no clock.

    Times are milliseconds; a slot holds what is due within `precision_ms` after its time.
    """

    def __init__(self, buffer: bytearray | mmap, precision_ms: int) -> None:
        assert len(buffer) % PAGE_SIZE_BYTES == 0, len(buffer)
        self._buffer = memoryview(buffer)
        self.size_bytes = len(buffer)
        self._slot_count = len(buffer) // SLOT_SIZE
        self.precision_ms = precision_ms
        # Pages that may hold slots; to look through all of them would take a tenth of a second.
        self._used_pages: set[int] = set()
        self._changed_pages: set[int] = set()

    def slot(self, time_ms: int) -> Slot:
        tick = time_ms // self.precision_ms
        stored, first, last, count, _ = SLOT.unpack_from(
            self._buffer, tick % self._slot_count * SLOT_SIZE
        )
        return Slot(first, last, count) if stored == tick else EMPTY

    def put(self, time_ms: int, slot: Slot) -> None:
        tick = time_ms // self.precision_ms
        at = tick % self._slot_count * SLOT_SIZE
        SLOT.pack_into(self._buffer, at, tick, slot.first, slot.last, slot.number, 0)
        page = at // PAGE_SIZE_BYTES
        self._changed_pages.add(page)
        self._used_pages.add(page)

    def add(self, time_ms: int, position: int, count: int = 1) -> None:
        """The unit at a position of the timer log is the slot's newest."""
        first, _, before = self.slot(time_ms)
        first = position if first == NO_POSITION else first
        self.put(time_ms, Slot(first, position, before + count))

    def replay(self, time_ms: int, position: int, count: int = 1) -> None:
        """The same for a unit that may be in its slot already, or whose slot came round again."""
        tick = time_ms // self.precision_ms
        stored, _, last, _, _ = SLOT.unpack_from(self._buffer, tick % self._slot_count * SLOT_SIZE)
        if stored < tick or (stored == tick and last < position):
            self.add(time_ms, position, count)

    def slots_from(self, start_ms: int) -> Iterator[tuple[int, Slot]]:
        """Every slot with units from a time on, in no order, however long ago that is."""
        start = start_ms // self.precision_ms
        for page in self._used_pages:
            for tick, first, last, count, _ in SLOT.iter_unpack(self._page(page)):
                if tick >= start and tick > 0 and last != NO_POSITION:
                    yield tick * self.precision_ms, Slot(first, last, count)

    # Its file

    def take_changes(self) -> list[tuple[int, bytes]]:
        """Positions and bytes that its file does not have since the last call."""
        pages, self._changed_pages = self._changed_pages, set()
        return [(page * PAGE_SIZE_BYTES, bytes(self._page(page))) for page in sorted(pages)]

    def _page(self, page: int) -> memoryview:
        return self._buffer[page * PAGE_SIZE_BYTES : (page + 1) * PAGE_SIZE_BYTES]

    def take_back(self, changes: Iterable[tuple[int, bytes]]) -> None:
        """Those were not written after all."""
        self._changed_pages.update(at // PAGE_SIZE_BYTES for at, _ in changes)

    def fill(self, at: int, content: bytes) -> None:
        """What its file holds."""
        self._buffer[at : at + len(content)] = content
        end = at + len(content)
        self._used_pages.update(range(at // PAGE_SIZE_BYTES, -(-end // PAGE_SIZE_BYTES)))

    def clear(self) -> None:
        """Forget everything; the file will be overwritten where it holds something."""
        for page in self._used_pages:
            self._page(page)[:] = _EMPTY_PAGE
        self._changed_pages |= self._used_pages
        self._used_pages = set()


_EMPTY_PAGE = bytes(PAGE_SIZE_BYTES)
assert WHEEL_SIZE_BYTES % PAGE_SIZE_BYTES == 0
