"""Which records of a queue are read from the log together."""

import numpy as np
import pytest

from emberq.spark import local_files
from emberq.spark.local_files import runs


def runs_of(*records: tuple[int, int]) -> list[tuple[int, int]]:
    """Of records given by position and size."""
    starts = np.array([at for at, _ in records], np.int64)
    return list(runs(starts, starts + np.array([size for _, size in records], np.int64)))


def test_neighbours_are_one_piece() -> None:
    assert runs_of((0, 100), (100, 50), (150, 70)) == [(0, 3)]


def test_little_between_records_is_read_along_and_much_is_not() -> None:
    assert runs_of((0, 100), (500, 100)) == [(0, 2)]
    assert runs_of((0, 100), (501, 100)) == [(0, 1), (1, 2)]


def test_records_that_lie_in_another_order_are_apart() -> None:
    assert runs_of((1000, 100), (0, 100), (100, 100)) == [(0, 1), (1, 3)]


def test_a_piece_has_a_largest_size_and_at_least_one_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_files, "PIECE_MAX_BYTES", 250)

    assert runs_of((0, 100), (100, 100), (200, 100), (300, 900), (1200, 10)) == [
        *((0, 2), (2, 3)),
        *((3, 4), (4, 5)),
    ]


def test_no_records_are_no_piece() -> None:
    assert runs_of() == []
