"""Where the parts of many records lie, as arrays; None as soon as anything is doubtful."""

from struct import Struct as Layout
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from emberq.record.layout import (
    BORN_HOST_POSITION,
    IPV4_HOST_SIZE,
    IPV6_HOST_SIZE,
    LOG_OFFSET_POSITION,
    MAGIC_V1,
    MAGIC_V2,
    PREFIX_IPV4,
    QUEUE_OFFSET_POSITION,
    SYSTEM_FLAG_POSITION,
)
from emberq.record.system_flag import BORN_HOST_IPV6, STORE_HOST_IPV6
from emberq.spark.decode.bytes_at import Bools, BytesAt, Ints, is_text, values_of

_RECORD_SIZE_MIN = PREFIX_IPV4.size + 3
_SIZE = Layout(">i")
_HOST_DIFFERENCE = IPV6_HOST_SIZE - IPV4_HOST_SIZE
BORN_TIME_POSITION = 40


class Frames(NamedTuple):
    """Positions in the content, one element per record."""

    content: BytesAt
    starts: Ints
    sizes: Ints
    system_flags: Ints
    queue_offsets: Ints
    store_time_at: Ints
    store_host_at: Ints
    body_at: Ints
    body_end: Ints
    properties_at: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def only(self, rows: Any) -> "Frames":
        """Those of a mask or of numbers."""
        return Frames(self.content, *(part[rows] for part in self[1:]))

    @property
    def ends(self) -> Ints:
        return self.starts + self.sizes

    def head(self, kind: str, position: int) -> Ints:
        """A number at the same position of every record."""
        return self.content.numbers(kind, self.starts + position)

    @property
    def log_offsets(self) -> Ints:
        return self.head(">i8", LOG_OFFSET_POSITION)


class _Doubtful(Exception):
    """Something is not as plain records have it."""


def find_frames(content: bytes) -> Frames | None:
    """None: these bytes are not plainly records one after the other."""
    try:
        return _frames(content)
    except _Doubtful:
        return None


def _frames(content: bytes) -> Frames:
    starts, sizes = _walk(content)
    at = BytesAt(content)
    ends = starts + sizes
    magic = at.numbers(">u4", starts + 4)
    flags = at.numbers(">i4", starts + SYSTEM_FLAG_POSITION)
    born_host_end = BORN_HOST_POSITION + IPV4_HOST_SIZE
    store_time_at = starts + born_host_end + _more_if(flags, BORN_HOST_IPV6)
    store_host_at = store_time_at + 8
    # Behind the store host: reconsume times, prepared offset, body length.
    body_at = store_host_at + IPV4_HOST_SIZE + _more_if(flags, STORE_HOST_IPV6) + 16
    is_first = magic == MAGIC_V1
    _demand(is_first | (magic == MAGIC_V2))
    _demand(body_at + 3 <= ends)
    body_sizes = at.numbers(">i4", body_at - 4)
    body_end = body_at + body_sizes
    topic_at = body_end + np.where(is_first, 1, 2)
    _demand((body_sizes >= 0) & (topic_at + 2 <= ends))
    topic_sizes = np.where(is_first, at.numbers("i1", body_end), at.numbers(">i2", body_end))
    properties_at = topic_at + topic_sizes + 2
    _demand((topic_sizes >= 0) & (properties_at <= ends))
    _demand(at.numbers(">i2", properties_at - 2) == ends - properties_at)
    topics, offsets = values_of(at.slices(pa.binary(), topic_at, properties_at - 2))
    if not is_text(topics, offsets[:-1]):
        raise _Doubtful
    return Frames(
        at,
        starts,
        sizes,
        flags,
        at.numbers(">i8", starts + QUEUE_OFFSET_POSITION),
        store_time_at,
        store_host_at,
        body_at,
        body_end,
        properties_at,
    )


def _demand(facts: Bools) -> None:
    if not facts.all():
        raise _Doubtful


def _more_if(flags: Ints, bit: int) -> Ints:
    """How much longer a host is where a flag is set."""
    more: Ints = _HOST_DIFFERENCE * ((flags & bit) != 0)
    return more


def _walk(content: bytes) -> tuple[Ints, Ints]:
    starts: list[int] = []
    sizes: list[int] = []
    position, end = 0, len(content)
    unpack, add_start, add_size = _SIZE.unpack_from, starts.append, sizes.append
    while position < end:
        if end - position < _RECORD_SIZE_MIN:
            raise _Doubtful
        (size,) = unpack(content, position)
        if size < _RECORD_SIZE_MIN:
            raise _Doubtful
        add_start(position)
        add_size(size)
        position += size
    if position != end:
        raise _Doubtful
    return np.array(starts, np.int64), np.array(sizes, np.int64)
