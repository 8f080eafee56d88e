"""Counters of many keys, and their values over the last minute, hour and day.

A cell is a plain list of numbers that only grow; whoever counts adds to it in place. The past is
kept as copies of all cells, taken at fixed times: the figures of a stretch of time are the last
copy minus the first. A copy of rows that have not changed is shared with the one before it.
"""

from array import array
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

# Rows copied in one step; between two steps the loop serves others.
ROWS_PER_STEP = 512


class Window(Enum):
    """A stretch of time that is looked back on: how often it is sampled, how much is kept."""

    MINUTE = (10_000, 7)
    HOUR = (600_000, 7)
    DAY = (3_600_000, 25)

    def __init__(self, period_ms: int, samples_max: int) -> None:
        self.period_ms = period_ms
        self.samples_max = samples_max


class Place(NamedTuple):
    """Where a key's numbers are. Samples up to `born` belong to whoever had the row before."""

    row: int
    born: int


class Sample:
    """A copy of all cells."""

    __slots__ = ("blocks", "sequence", "taken_at_ms")

    def __init__(self, taken_at_ms: int, sequence: int) -> None:
        self.taken_at_ms = taken_at_ms
        self.sequence = sequence
        self.blocks: list[array[int]] = []


class Figures(NamedTuple):
    """A counter over a stretch of time."""

    sum: int = 0
    per_second: float = 0.0
    average_per_call: float = 0.0


class CellTable(Generic[K]):
    """Cells by key. `cells` is there to be read by those who count many times per second."""

    def __init__(self, width: int) -> None:
        self.cells: dict[K, list[int]] = {}
        self._width = width
        self._rows: list[list[int]] = []
        self.places: dict[K, Place] = {}
        self._free_rows: list[int] = []
        self._sequence = 0
        self._samples: dict[Window, deque[Sample]] = {
            window: deque(maxlen=window.samples_max) for window in Window
        }

    def new(self, key: K) -> list[int]:
        """The cell of a key that has none yet."""
        cell = [0] * self._width
        if self._free_rows:
            row = self._free_rows.pop()
            self._rows[row] = cell
        else:
            row = len(self._rows)
            self._rows.append(cell)
        self.places[key] = Place(row, self._sequence)
        self.cells[key] = cell
        return cell

    def remove(self, keys: Iterable[K]) -> None:
        for key in keys:
            del self.cells[key]
            row = self.places.pop(key).row
            self._rows[row] = [0] * self._width
            self._free_rows.append(row)

    def total(self, column: int) -> int:
        """The sum of a column over all keys that are there."""
        return sum(cell[column] for cell in self._rows)

    def sampling(self, window: Window, now_ms: int) -> Iterator[None]:
        """Take a sample, a step per item; it counts once the iterator is exhausted."""
        sample = Sample(now_ms, self._sequence)
        self._sequence += 1  # keys that come while this runs are not in it
        samples = self._samples[window]
        before = samples[-1].blocks if samples else []
        for number, start in enumerate(range(0, len(self._rows), ROWS_PER_STEP)):
            rows = self._rows[start : start + ROWS_PER_STEP]
            block = array("q", chain.from_iterable(rows))
            if number < len(before) and before[number] == block:
                block = before[number]
            sample.blocks.append(block)
            yield
        samples.append(sample)

    def figures(
        self, window: Window, places: Sequence[Place], column: int, calls_column: int | None = None
    ) -> Figures:
        """What several cells together counted; official rules for the first samples of a key.

        A key's history begins with zero, one period before its first sample.
        """
        born = min(place.born for place in places)
        samples = [sample for sample in self._samples[window] if sample.sequence >= born]
        if not samples:
            return Figures()
        last = samples[-1]
        is_whole = len(samples) == window.samples_max
        first = samples[0] if is_whole else None
        begun_at_ms = samples[0].taken_at_ms - (0 if is_whole else window.period_ms)
        span_ms = last.taken_at_ms - begun_at_ms
        total = self._difference(first, last, places, column)
        calls = 0
        if calls_column is not None:
            calls = self._difference(first, last, places, calls_column)
        return Figures(
            total,
            total * 1000.0 / span_ms if span_ms > 0 else 0.0,
            total / calls if calls > 0 else 0.0,
        )

    def _difference(
        self, first: Sample | None, last: Sample, places: Sequence[Place], column: int
    ) -> int:
        difference = sum(self._value(last, place, column) for place in places)
        if first is not None:
            difference -= sum(self._value(first, place, column) for place in places)
        return difference

    def _value(self, sample: Sample, place: Place, column: int) -> int:
        if sample.sequence < place.born:
            return 0
        number, row = divmod(place.row, ROWS_PER_STEP)
        return sample.blocks[number][row * self._width + column]
