"""Rows at a steady pace, for sending no faster than others can bear."""

import time
from collections.abc import Callable, Iterator
from typing import Any

# Rows are let through in pieces, so many a second: neither one by one nor all at once.
PIECES_PER_S = 10


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
