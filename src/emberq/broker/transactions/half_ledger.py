"""What has become of each half message, by its place in the half queue. No I/O, no clock.

One byte per half message from the oldest open one to the newest, and for some before it, so that
an end that comes twice is known for what it is. Which of them were ended stands in the operation
queue; this is its sum, so that no round of checks has to read that queue again.
"""

from enum import IntEnum
from itertools import islice

# Half messages behind the oldest open one. Beyond that new ones are refused: a byte each would
# become a lot of memory, and an operator has to look at producers that end nothing.
WINDOW_MAX = 16 * 1024 * 1024
# Settled ones before the oldest open one whose end is still known.
REMEMBERED_MAX = 1024 * 1024
# Copies whose original is known, so that an answer about the one counts for the other.
COPIES_MAX = 100_000


class HalfState(IntEnum):
    """A byte of the ledger."""

    OPEN = 0
    ENDED = 1  # committed or rolled back
    COPIED = 2  # a copy further back in the queue stands for it
    PARKED = 3  # given up: in the topic of those that were asked about too often


_OPEN = bytes([HalfState.OPEN])


class HalfLedger:
    """Every half message before `base` is settled; of those from there on each has its state."""

    def __init__(self, base: int) -> None:
        self.base = base
        self._first = base  # the offset of the first byte
        self._states = bytearray()
        self._copies: dict[int, int] = {}

    @property
    def end(self) -> int:
        """The offset behind the newest half message that was heard of."""
        return self._first + len(self._states)

    @property
    def is_full(self) -> bool:
        return self.end - self.base >= WINDOW_MAX

    def stored(self, offset: int) -> None:
        """A half message was stored."""
        missing = offset + 1 - self.end
        if missing > 0:
            self._states += bytes(missing)

    def state(self, offset: int) -> HalfState | None:
        """None: it was settled too long ago to be remembered."""
        if offset < self._first:
            return None
        place = offset - self._first
        return HalfState(self._states[place]) if place < len(self._states) else HalfState.OPEN

    def newest_copy(self, offset: int) -> int:
        """The half message that stands for this one now: itself, or a copy of it."""
        copies = self._copies
        while (copy := copies.get(offset)) is not None:
            offset = copy
        return offset

    def settle(self, offset: int, state: HalfState) -> None:
        """Note what became of a half message, if it is not too long ago."""
        if offset >= self._first:
            self.stored(offset)
            self._states[offset - self._first] = state

    def copied(self, offset: int, copy_offset: int) -> None:
        """A copy was put behind it; the copy stands for it from now on."""
        assert copy_offset > offset, (offset, copy_offset)
        self.settle(offset, HalfState.COPIED)
        self.stored(copy_offset)
        self._copies[offset] = copy_offset
        if len(self._copies) > COPIES_MAX:
            for oldest in list(islice(self._copies, len(self._copies) - COPIES_MAX)):
                del self._copies[oldest]

    def next_open(self, offset: int) -> int:
        """The first open half message from an offset on; `end` if there is none."""
        place = self._states.find(_OPEN, max(offset, self.base) - self._first)
        return self.end if place < 0 else self._first + place

    def lost_before(self, offset: int) -> int:
        """The queue begins later than believed; returns how many open ones are lost with it."""
        if offset <= self.base:
            return 0
        self.stored(offset - 1)
        begin, end = self.base - self._first, offset - self._first
        count = self._states.count(_OPEN, begin, end)
        self._states[begin:end] = bytes([HalfState.PARKED]) * (end - begin)
        return count

    def advance(self) -> int:
        """Move `base` to the first open one; returns it."""
        self.base = self.next_open(self.base)
        superfluous = self.base - self._first - REMEMBERED_MAX
        if superfluous > REMEMBERED_MAX:  # seldom: what is left has to be moved
            del self._states[:superfluous]
            self._first += superfluous
        return self.base
