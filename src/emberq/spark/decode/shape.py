"""What a decoder is told about the rows to make, and the Arrow types of columns."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from emberq.spark import columns as names
from emberq.spark.columns import Column
from emberq.spark.options import DecodeOptions

ARROW_TYPES: dict[str, Any] = {
    names.STRING: pa.string(),
    names.BINARY: pa.binary(),
    names.INT: pa.int32(),
    names.LONG: pa.int64(),
    names.TIMESTAMP: pa.timestamp("us", "UTC"),
    names.MAP: pa.map_(pa.string(), pa.string()),
}
# Where numbers stand in every record, and how they are stored.
HEAD_NUMBERS = {
    "queueId": (">i4", 12),
    "flag": (">i4", 16),
    "sysFlag": (">i4", 36),
    "bodyCrc": (">i4", 8),
    "size": (">i4", 0),
    "commitLogOffset": (">i8", 28),
    "queueOffset": (">i8", 20),
}
# The last millisecond of the year 9999; times beyond it, or before 1970, are no times.
TIME_MAX_MS = 253_402_300_799_999
_TIME_DIGITS_MAX = 15  # Python refuses to read numbers of thousands


class UnfoldsTooFar(Exception):
    """Bodies that are unpacked together take more memory than they may: decode fewer records at
    once. Never leaves `emberq.spark.rows`."""


class RowShape(NamedTuple):
    """Constant for one range of one queue."""

    columns: tuple[Column, ...]
    topic: str
    broker_name: str
    first: int
    stop: int
    options: DecodeOptions
    # Bytes of bodies that are unpacked together; None: as many as they are, of a single record.
    unfolded_max_bytes: int | None = None

    def check_unfolded(self, size_bytes: int) -> None:
        """Raises UnfoldsTooFar."""
        if self.unfolded_max_bytes is not None and size_bytes > self.unfolded_max_bytes:
            raise UnfoldsTooFar(f"bodies of more than {self.unfolded_max_bytes} bytes")

    @property
    def schema(self) -> Any:
        return _kept_schema(self.columns)

    def wants(self, *wanted: str) -> bool:
        return any(column.name in wanted for column in self.columns)


def time_in_text(text: str | None) -> int:
    """Milliseconds; -1: it is no time."""
    if not text or len(text) > _TIME_DIGITS_MAX or not (text.isascii() and text.isdigit()):
        return -1
    return int(text)


@functools.lru_cache(maxsize=16)
def _kept_schema(columns: tuple[Column, ...]) -> Any:
    return arrow_schema(columns)


def arrow_schema(columns: Sequence[Column]) -> Any:
    return pa.schema([(column.name, ARROW_TYPES[column.type]) for column in columns])
