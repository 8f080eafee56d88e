"""How far each delay level is delivered, and how much of that may be written down.

A delivered message is a copy behind the one that waited. The file must not say "delivered" before
that copy is durable: a crash of the machine in between would lose the message.
"""

from collections import deque
from collections.abc import Mapping

from emberq.model.data_version import DataVersion
from emberq.protocol.bodies.offsets import DelayOffsetTable

# Deliveries per level whose durability is told apart; beyond that the newest are taken together.
UNSETTLED_MAX = 1024


class DelayOffsets:
    """Next queue offset by level, counted from 1. No I/O."""

    def __init__(self, stored: DelayOffsetTable | None = None, now_ms: int = 0) -> None:
        stored = stored or DelayOffsetTable()
        self._version = stored.data_version or DataVersion(timestamp_ms=now_ms)
        self._next = dict(stored.offsets)
        self._durable = dict(stored.offsets)
        self._unsettled: dict[int, deque[tuple[int, int]]] = {}

    def next(self, level: int) -> int:
        """The queue offset to deliver next."""
        return self._next.get(level, 0)

    def levels(self) -> Mapping[int, int]:
        return self._next

    def current(self) -> DelayOffsetTable:
        """How far delivery is, durable or not: what slaves copy."""
        return DelayOffsetTable(data_version=self._version, offsets=dict(self._next))

    def reset(self, level: int, offset: int) -> None:
        """The queue does not begin or end where the file believed."""
        self._next[level] = self._durable[level] = offset
        self._unsettled.pop(level, None)

    def advance(self, level: int, offset: int, log_end: int) -> None:
        """Everything before `offset` is delivered, by copies that end before `log_end`."""
        self._next[level] = offset
        unsettled = self._unsettled.setdefault(level, deque())
        if len(unsettled) >= UNSETTLED_MAX:
            unsettled.pop()
        unsettled.append((offset, log_end))

    @property
    def is_settled(self) -> bool:
        """Whether the last table said all there is to say."""
        return not any(self._unsettled.values())

    def table(self, flushed_offset: int, now_ms: int) -> DelayOffsetTable:
        """What may be stored when the log is durable up to an offset."""
        for level, unsettled in self._unsettled.items():
            while unsettled and unsettled[0][1] <= flushed_offset:
                self._durable[level] = unsettled.popleft()[0]
        self._version = self._version.next(now_ms)
        return DelayOffsetTable(data_version=self._version, offsets=dict(self._durable))
