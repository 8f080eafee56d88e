"""Ranges of the log that could not be read: what lay there is lost, not misplaced."""

from bisect import bisect_right

from emberq.store.view.walk import Flaw

RANGES_MAX = 100_000  # beyond, lost messages are reported as entries without a record


class DamagedRanges:
    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, flaw: Flaw) -> None:
        if len(self._starts) < RANGES_MAX:
            self._starts.append(flaw.log_offset)
            self._ends.append(flaw.end)

    def hold(self, log_offset: int) -> bool:
        """Whether an offset lies in one of the ranges."""
        index = bisect_right(self._starts, log_offset) - 1
        return index >= 0 and log_offset < self._ends[index]
