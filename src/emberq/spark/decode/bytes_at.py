"""Numbers and texts at many positions of one buffer at once."""

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from emberq.spark import columns as names
from emberq.spark.decode.shape import ARROW_TYPES, TIME_MAX_MS

# So many rows of a text that is the same in all of them are kept for the next batch.
REPEATED_ROWS = 16_384

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class BytesAt:
    """A buffer whose bytes are looked at in many places by one call.

    Positions are not checked here: whoever asks has made sure that they lie inside.
    """

    def __init__(self, content: Any) -> None:
        self.bytes = np.frombuffer(content, np.uint8)
        self._buffer = pa.py_buffer(content)
        self._content = content
        self.view = memoryview(content)

    def numbers(self, kind: str, positions: Ints) -> Ints:
        """Big-endian numbers of a numpy kind such as `>i4`, as 64-bit ones.

        One array over all positions of the buffer, overlapping itself, turns the look-up into a
        single copy of items.
        """
        item = np.dtype(kind)
        count = len(self.bytes) - item.itemsize + 1
        if count <= 0:
            return np.zeros(len(positions), np.int64)
        windows = np.ndarray((count,), item, self._content, strides=(1,))
        return windows[positions].astype(np.int64)

    def number_column(self, layout: str, positions: Ints, kind: Any) -> Any:
        return pa.array(self.numbers(layout, positions), kind, safe=False)

    def time_column(self, positions: Ints) -> Any:
        return time_array(self.numbers(">i8", positions))

    def words(self, positions: Ints) -> "npt.NDArray[np.uint64]":
        """Eight bytes at each position as a little-endian number."""
        count = len(self.bytes) - 7
        if count <= 0:
            return np.zeros(len(positions), np.uint64)
        words = np.ndarray((count,), np.dtype("<u8"), self._content, strides=(1,))[positions]
        return words.astype(np.uint64)

    def slices(self, kind: Any, starts: Ints, ends: Ints) -> Any:
        """An Arrow array of the bytes between starts and ends, which follow one another.

        An array laid over the whole buffer has the slices as its even elements and what lies
        between as its odd ones: taking the even ones is one copy in C++.
        """
        count = len(starts)
        if count == 0:
            return pa.array([], kind)
        offsets = np.empty(2 * count, np.int32)
        offsets[0::2] = starts
        offsets[1::2] = ends
        over_all = pa.Array.from_buffers(
            kind, 2 * count - 1, [None, pa.py_buffer(offsets), self._buffer]
        )
        return over_all.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


def values_of(array: Any) -> tuple[Any, Ints]:
    """The bytes of a binary array in one piece, and the offsets of its elements in them."""
    _, offset_buffer, content = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(array) + 1).astype(np.int64)
    return (content if content is not None else b""), offsets


def repeated(text: str, count: int) -> Any:
    """A column of so many rows with the same text."""
    if count > REPEATED_ROWS:
        return pa.repeat(pa.scalar(text, pa.string()), count)
    return _repeated(text).slice(0, count)


@functools.lru_cache(maxsize=16)
def _repeated(text: str) -> Any:
    return pa.repeat(pa.scalar(text, pa.string()), REPEATED_ROWS)


def is_text(content: Any, starts: Ints) -> bool:
    """Whether every piece of the content that begins at one of the starts is UTF-8.

    If the whole is, and no piece begins in the midst of a character, then each piece is.
    """
    whole = memoryview(content).tobytes()
    if whole.isascii():
        return True
    try:
        whole.decode()
    except UnicodeDecodeError:
        return False
    array = np.frombuffer(whole, np.uint8)
    inside = starts[starts < len(array)]
    return not bool(((array[inside] & 0xC0) == 0x80).any())


def time_array(times_ms: Ints) -> Any:
    """Null where a number is no time."""
    is_none = (times_ms < 0) | (times_ms > TIME_MAX_MS)
    times = np.where(is_none, 0, times_ms) * 1000
    array = pa.array(times, mask=is_none) if is_none.any() else pa.array(times)
    return array.view(ARROW_TYPES[names.TIMESTAMP])


def scattered(found: Any, rows: Ints, count: int) -> Any:
    """An array of `count` elements: those found in their rows, null elsewhere."""
    if len(rows) == count:
        return found
    places = np.full(count, -1, np.int64)
    places[rows] = np.arange(len(rows))
    return found.take(pa.array(places, mask=places < 0))
