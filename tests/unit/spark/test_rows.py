"""Batches on their way to Spark."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from emberq.spark.options import BATCH_BYTES, DecodeOptions
from emberq.spark.rows import DECODED_TOGETHER_BYTES, gathered

ROWS_MAX = 100
LIMITS = DecodeOptions(batch_rows=ROWS_MAX)


def batch_of(numbers: list[int]) -> Any:
    maps = [[(f"k{number}", "v")] for number in numbers]
    columns = [pa.array(numbers, pa.int64()), pa.array(maps, pa.map_(pa.string(), pa.string()))]
    return pa.RecordBatch.from_arrays(columns, ["number", "properties"])


@given(st.lists(st.integers(1, ROWS_MAX), max_size=12))
def test_small_batches_are_put_together_with_all_rows_in_their_order(counts: list[int]) -> None:
    edges = [sum(counts[:number]) for number in range(len(counts) + 1)]
    batches = [batch_of(list(range(low, low + n))) for low, n in zip(edges, counts, strict=False)]

    made = list(gathered(batches, LIMITS))

    assert [row for batch in made for row in batch.to_pylist()] == [
        row for batch in batches for row in batch.to_pylist()
    ]
    assert all(batch.num_rows <= ROWS_MAX for batch in made)
    pairs = pairwise(made)
    assert all(left.num_rows + right.num_rows > ROWS_MAX for left, right in pairs)


def test_large_batches_go_on_as_they_are() -> None:
    large = pa.RecordBatch.from_arrays([pa.array([bytes(DECODED_TOGETHER_BYTES)])], ["body"])

    made = list(gathered([large, large], LIMITS))

    assert [each is large for each in made] == [True, True]


@given(
    st.lists(st.lists(st.integers(0, 400), min_size=1, max_size=30), max_size=6),
    st.integers(1, 2_000),
)
def test_no_batch_has_more_bytes_than_it_may_but_a_single_row(
    sizes: list[list[int]], bytes_max: int
) -> None:
    batches = [
        pa.RecordBatch.from_arrays([pa.array([bytes(size) for size in own])], ["body"])
        for own in sizes
    ]

    made = list(gathered(batches, DecodeOptions(batch_rows=ROWS_MAX, batch_bytes=bytes_max)))

    assert all(batch.nbytes <= bytes_max or batch.num_rows == 1 for batch in made)
    bodies = [len(body.as_py()) for batch in made for body in batch.column(0)]
    assert bodies == [size for own in sizes for size in own]


def test_what_is_usually_decoded_together_goes_on_uncut() -> None:
    assert BATCH_BYTES // 2 == DECODED_TOGETHER_BYTES
