"""Messages of one slot in the order in which they are due: by millisecond, then as they came.

A slot may hold a million messages, so each is a few bytes, not an object.
"""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappush
from itertools import groupby
from operator import itemgetter
from struct import Struct as Layout
from typing import NamedTuple

# Log offset, size, flags, when it was put into the wheel, hash of its topic.
_ENTRY = Layout(">qiiqi")
_ENTRY_SIZE = _ENTRY.size


class Waiting(NamedTuple):
    """Where a waiting message stands in the log."""

    log_offset: int
    size: int
    flags: int
    written_at_ms: int
    topic_hash: int


class SlotOrder:
    """No clock: the caller says what time it is."""

    def __init__(self) -> None:
        self._due: list[int] = []  # a heap of the times that have messages
        self._waiting: dict[int, bytearray] = {}
        self._taken: dict[int, int] = {}  # bytes of a time's messages that are delivered

    def __bool__(self) -> bool:
        return bool(self._due)

    def __len__(self) -> int:
        size = sum(map(len, self._waiting.values())) - sum(self._taken.values())
        return size // _ENTRY_SIZE

    def add(self, due_ms: int, waiting: Waiting) -> None:
        self._bucket(due_ms).extend(_ENTRY.pack(*waiting))

    def follow_with(self, other: "SlotOrder") -> None:
        """Take all of another order, each behind what is here for the same time."""
        for due_ms, entries in other._waiting.items():
            self._bucket(due_ms).extend(entries[other._taken.get(due_ms, 0) :])

    def _bucket(self, due_ms: int) -> bytearray:
        bucket = self._waiting.get(due_ms)
        if bucket is None:
            bucket = self._waiting[due_ms] = bytearray()
            heappush(self._due, due_ms)
        return bucket

    def next_due_ms(self) -> int | None:
        """When the next message is due; None if there is none."""
        return self._due[0] if self._due else None

    def due(self, now_ms: int, count_max: int) -> list[tuple[int, Waiting]]:
        """Messages that are due, with their times, in order; `done` says which are delivered."""
        found: list[tuple[int, Waiting]] = []
        if self._due and self._due[0] <= now_ms:
            for due_ms in sorted(due for due in self._due if due <= now_ms):
                start = self._taken.get(due_ms, 0)
                stop = start + (count_max - len(found)) * _ENTRY_SIZE
                content = self._waiting[due_ms][start:stop]
                found += [(due_ms, Waiting(*entry)) for entry in _ENTRY.iter_unpack(content)]
                if len(found) >= count_max:
                    break
        return found

    def done(self, delivered: Sequence[tuple[int, Waiting]]) -> None:
        """The first of what `due` returned are delivered; others may have come meanwhile."""
        for due_ms, group in groupby(delivered, itemgetter(0)):
            taken = self._taken.get(due_ms, 0) + sum(1 for _ in group) * _ENTRY_SIZE
            if taken < len(self._waiting[due_ms]):
                self._taken[due_ms] = taken
                continue
            del self._waiting[due_ms]
            self._taken.pop(due_ms, None)
            self._due.remove(due_ms)  # at most one per millisecond of a slot
            heapify(self._due)

    def __iter__(self) -> Iterator[tuple[int, Waiting]]:
        """Times and messages that are not delivered, in order."""
        for due_ms in sorted(self._due):
            content = self._waiting[due_ms][self._taken.get(due_ms, 0) :]
            for entry in _ENTRY.iter_unpack(content):
                yield due_ms, Waiting(*entry)
