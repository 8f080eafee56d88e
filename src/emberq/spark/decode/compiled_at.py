"""What `bytes_at`, `frames` and `property_items` find, found by compiled loops.

The compiled decoder is `vector` on these: its columns, its slow lane for irregular rows. Only
where `compiled` was built; without it numpy does the same.
"""

import logging
import os
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from emberq.spark import columns as names
from emberq.spark.decode.bytes_at import Bools, BytesAt, Ints
from emberq.spark.decode.frames import Frames
from emberq.spark.decode.shape import ARROW_TYPES

log = logging.getLogger(__name__)

# Raised with every change of a signature: loops that were compiled before it are not used.
INTERFACE = 2
_PARTS = len(Frames._fields) - 1


def compiled_loops() -> ModuleType | None:
    if os.environ.get("EMBERQ_PURE", "") not in ("", "0"):
        return None
    try:
        from emberq.spark.decode import compiled  # noqa: PLC0415 - may not be compiled
    except ImportError:
        return None
    if compiled.INTERFACE != INTERFACE:
        log.warning("decoder_outdated path=%s: install emberq again", compiled.__file__)
        return None
    return compiled


class CompiledBytes(BytesAt):
    """A buffer that compiled loops look at."""

    def __init__(self, content: bytes, loops: Any) -> None:
        super().__init__(content)
        self._raw = content
        self._loops = loops

    def number_column(self, layout: str, positions: Ints, kind: Any) -> Any:
        found = self._loops.numbers(self._raw, positions, np.dtype(layout).itemsize)
        return pa.Array.from_buffers(kind, len(positions), [None, pa.py_buffer(found)])

    def time_column(self, positions: Ints) -> Any:
        found, validity = self._loops.times(self._raw, positions)
        return pa.Array.from_buffers(
            ARROW_TYPES[names.TIMESTAMP],
            len(positions),
            [buffer_or_none(validity), pa.py_buffer(found)],
        )

    def slices(self, kind: Any, starts: Ints, ends: Ints) -> Any:
        offsets, texts = self._loops.slices(self._raw, starts, ends)
        return texts_array(kind, None, offsets, texts)

    def items(self, starts: Ints, ends: Ints) -> "tuple[CompiledItems, Bools]":
        """The properties of all regular rows, and which rows are not."""
        firsts, places, room, count, is_odd = self._loops.split_items(self._raw, starts, ends)
        rows = np.frombuffer(places, np.int64).reshape(3, room)[:, :count]
        return (
            CompiledItems(self, np.frombuffer(firsts, np.int32), rows[0], rows[1], rows[2]),
            np.frombuffer(is_odd, np.bool_),
        )


class CompiledItems(NamedTuple):
    """As `PropertyItems`, but positions are those in the records."""

    content: CompiledBytes
    first_items: Any
    name_starts: Ints
    name_ends: Ints
    value_ends: Ints

    def map_array(self) -> Any:
        names = self.content.slices(pa.string(), self.name_starts, self.name_ends)
        values = self.content.slices(pa.string(), self.name_ends + 1, self.value_ends)
        return pa.MapArray.from_arrays(pa.array(self.first_items), names, values)

    def column(self, name: str) -> Any:
        content = self.content
        return texts_array(
            pa.string(), *content._loops.find_values(content._raw, *self[1:], name.encode())
        )


def find_compiled_frames(content: bytes, loops: Any) -> Frames | None:
    """None: these bytes are not plainly records one after the other."""
    found = loops.find_parts(content)
    if found is None:
        return None
    count, parts = found
    rows = np.frombuffer(parts, np.int64).reshape(_PARTS, count)
    return Frames(CompiledBytes(content, loops), *rows)


def texts_array(kind: Any, validity: bytearray | None, offsets: bytearray, texts: Any) -> Any:
    count = len(offsets) // 4 - 1
    return pa.Array.from_buffers(
        kind, count, [buffer_or_none(validity), pa.py_buffer(offsets), pa.py_buffer(texts)]
    )


def buffer_or_none(content: bytearray | None) -> Any:
    return None if content is None else pa.py_buffer(content)
