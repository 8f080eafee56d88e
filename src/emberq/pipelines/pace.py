"""Rows at a steady pace, for sending no faster than others can bear."""

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

# Rows are let through in pieces, so many a second: neither one by one nor all at once.
PIECES_PER_S = 10


@runtime_checkable
class Awaiting(Protocol):
    """Who is told what a job says, and shows how long the rest takes."""

    def expect(self, seconds: float) -> None:
        """What begins now takes so long, whatever tasks say."""


def expect(say: object, seconds: float) -> None:
    """Tell who listens how long it takes from now on, if they want to know."""
    if isinstance(say, Awaiting):
        say.expect(seconds)


def paced(rate: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For Spark's `mapInArrow`: at most so many rows a second, counted from the first."""

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        piece = max(1, rate // PIECES_PER_S)
        began, passed = time.monotonic(), 0
        for batch in batches:
            for first in range(0, batch.num_rows, piece):
                rows = batch.slice(first, piece)
                time.sleep(max(0.0, began + passed / rate - time.monotonic()))
                yield rows
                passed += rows.num_rows

    return pass_on
