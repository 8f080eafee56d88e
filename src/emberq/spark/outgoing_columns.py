"""Columns of Arrow as values of rows, of which each that cannot be read is told. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from emberq.errors import MessageRefused
from emberq.spark.outgoing_rows import BODIES

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Moments that Python has: of the years 1 to 9999.
_MOMENT_MIN_US = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_MOMENT_MAX_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def rows_by_topic(batches: Iterable[Any], default: str | None) -> "Counter[str]":
    """How many rows of Arrow batches go to each topic, of which none is sent."""
    rows: Counter[str] = Counter()
    first_row = 0
    for batch in batches:
        topics: Sequence[str | None] = (None,) * batch.num_rows
        if "topic" in batch.schema.names:
            topics = values_of("topic", batch.column("topic"), first_row)
        rows.update(topic or default or "" for topic in topics)
        first_row += batch.num_rows
    return rows


def without_columns(batches: Iterable[Any], left_out: Sequence[str]) -> Iterator[Any]:
    """Arrow batches without columns that have no value.

    Raises:
        MessageRefused: one of them has a value.
    """
    first_row = 0
    for batch in batches:
        for name in left_out:
            column = batch.column(name)
            if column.null_count < len(column):
                row = first_row + column.is_valid().index(True).as_py()
                raise MessageRefused(
                    f"row {row} has a value in the column {name}, which is read only: leave it out"
                )
        yield batch.drop_columns(list(left_out))
        first_row += batch.num_rows


def values_of(name: str, column: Any, first_row: int) -> list[Any]:
    """Values of a column of Arrow; bodies as bytes, so that each goes as it is.

    Raises:
        MessageRefused: a text is not UTF-8, which Spark promises of none of its strings; or a
            moment lies where Python has none.
    """
    if name in BODIES:
        column = column.cast("binary")
    elif pa.types.is_timestamp(column.type):
        # Spark knows time zones by names that Python does not.
        column = column.cast(pa.timestamp("us", "UTC"))
        _check_moments(name, column, first_row)
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        row = next(row for row, value in enumerate(column) if not _is_readable(value))
        raise MessageRefused(
            f"row {first_row + row} has no UTF-8 text in its column {name}"
        ) from None
    return values


def _check_moments(name: str, column: Any, first_row: int) -> None:
    moments = column.cast(pa.int64()).fill_null(0).to_numpy()
    outside = np.flatnonzero((moments < _MOMENT_MIN_US) | (moments > _MOMENT_MAX_US))
    if len(outside):
        row = first_row + int(outside[0])
        raise MessageRefused(f"row {row} has no year from 1 to 9999 in its column {name}")


def _is_readable(value: Any) -> bool:
    try:
        value.as_py()
    except UnicodeDecodeError:
        return False
    return True
