"""The properties of many records at once: where names and values are, as arrays.

A text is regular if it is `name 01 value 02` over and over, the last 02 being optional, with no
empty name or value, no further 01, no name twice, and all of it UTF-8. What clients and brokers
write is; what is not goes through the reference decoder, row by row.
"""

import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from emberq.spark.decode.bytes_at import Bools, BytesAt, Ints, is_text, scattered, values_of

_NAME_END, _VALUE_END = 1, 2
_PAD = bytes(8)  # behind the last name there must be a whole word to read
_REGULAR = re.compile(rb"(?:[^\x01\x02]+\x01[^\x01\x02]+\x02)*(?:[^\x01\x02]+\x01[^\x01\x02]+)?")
_NAMES = re.compile(rb"([^\x01\x02]+)\x01[^\x01\x02]+")
# Odd numbers that spread names over 64 buckets; the first that separates the names of the first
# row is used, so that rows with the same names need no second look.
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD)
_WORD_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)

Words = npt.NDArray[np.uint64]


class PropertyItems(NamedTuple):
    """All items of all rows one after the other; those of a row begin at its `first_items`."""

    content: BytesAt
    first_items: Ints  # one more than there are rows
    name_starts: Ints
    name_ends: Ints
    value_ends: Ints
    name_sizes: Ints
    name_words: "Words"  # the first eight bytes of each name, or fewer

    def map_array(self) -> Any:
        names = self.content.slices(pa.string(), self.name_starts, self.name_ends)
        values = self.content.slices(pa.string(), self.name_ends + 1, self.value_ends)
        return pa.MapArray.from_arrays(pa.array(self.first_items.astype(np.int32)), names, values)

    def column(self, name: str) -> Any:
        """The values of a property, null in rows without it; names have up to 16 bytes."""
        wanted = name.encode()
        word = np.uint64(int.from_bytes(wanted[:8], "little"))
        items = np.flatnonzero((self.name_words == word) & (self.name_sizes == len(wanted)))
        if len(wanted) > 8:
            last = np.uint64(int.from_bytes(wanted[-8:], "little"))
            items = items[self.content.words(self.name_ends[items] - 8) == last]
        rows = np.searchsorted(self.first_items, items, "right") - 1
        values = self.content.slices(pa.string(), self.name_ends[items] + 1, self.value_ends[items])
        return scattered(values, rows, len(self.first_items) - 1)


def split_properties(texts: Any, *, is_checked: bool = False) -> PropertyItems | None:
    """The items of all rows of a binary array; None if some row is not regular.

    `is_checked`: they are known to be regular.
    """
    content, offsets = values_of(_closed(texts))
    raw = memoryview(content)[int(offsets[0]) : int(offsets[-1])]
    offsets = offsets - offsets[0]
    if not is_checked and not is_text(raw, offsets[:-1]):
        return None
    array = np.frombuffer(raw, np.uint8)
    name_ends = np.flatnonzero(array == _NAME_END)
    value_ends = np.flatnonzero(array == _VALUE_END)
    name_starts = np.empty_like(value_ends)
    name_starts[:1] = 0
    name_starts[1:] = value_ends[:-1] + 1
    if not is_checked and not _alternate(name_starts, name_ends, value_ends):
        return None
    first_items = np.searchsorted(value_ends, offsets)
    padded = BytesAt(b"".join((raw, _PAD)))
    sizes = name_ends - name_starts
    words = padded.words(name_starts) & _WORD_MASKS[np.minimum(sizes, 8)]
    items = PropertyItems(padded, first_items, name_starts, name_ends, value_ends, sizes, words)
    return None if not is_checked and _may_repeat_names(items) else items


def irregular_rows(texts: Any) -> Bools:
    """Which rows are not regular, found row by row."""
    return np.array([_is_irregular(text) for text in texts.to_pylist()], np.bool_)


def _is_irregular(text: bytes) -> bool:
    if _REGULAR.fullmatch(text) is None:
        return True
    names = _NAMES.findall(text)
    if len(set(names)) != len(names):
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return True
    return False


def _closed(texts: Any) -> Any:
    """The texts with a final 02 where there is none."""
    content, offsets = values_of(texts)
    starts, ends = offsets[:-1], offsets[1:]
    array = np.frombuffer(content, np.uint8)
    is_open = ends > starts
    is_open[is_open] = array[ends[is_open] - 1] != _VALUE_END
    if not is_open.any():
        return texts
    ending = pa.scalar(b"\x02", pa.binary())
    return pc.if_else(
        pa.array(is_open), pc.binary_join_element_wise(texts, ending, pa.scalar(b"")), texts
    )


def _alternate(name_starts: Ints, name_ends: Ints, value_ends: Ints) -> bool:
    """Whether each name is followed by its end, a value and its end, neither of them empty."""
    return len(name_ends) == len(value_ends) and bool(
        (name_ends > name_starts).all() and (value_ends > name_ends + 1).all()
    )


def _may_repeat_names(items: PropertyItems) -> bool:
    """Whether two items of a row share a bucket: then their names may be the same."""
    sizes = items.name_sizes
    if len(sizes) == 0:
        return False
    words = items.name_words + sizes.astype(np.uint64)
    long = np.flatnonzero(sizes > 8)
    words[long] ^= items.content.words(items.name_ends[long] - 8) << np.uint64(1)
    filled = np.flatnonzero(np.diff(items.first_items))
    starts = items.first_items[:-1][filled]
    first = words[: items.first_items[filled[0] + 1]]
    with np.errstate(over="ignore"):
        for multiplier in _MULTIPLIERS:
            if len(set((first * np.uint64(multiplier)) >> np.uint64(58))) == len(first):
                break
        bits = np.uint64(1) << ((words * np.uint64(multiplier)) >> np.uint64(58))
        sums = np.add.reduceat(bits, starts)
    return bool((sums != np.bitwise_or.reduceat(bits, starts)).any())
