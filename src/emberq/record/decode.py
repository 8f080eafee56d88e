"""Record bytes to values: a whole record, its head only, or all records of a pull answer.

Whatever the bytes, the result is a valid value or a RecordError that names the position. The
layout is docs/formats/record.md.
"""

import struct
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from msgspec.structs import replace

from emberq.errors import RecordError
from emberq.record.compression import DECOMPRESSED_SIZE_MAX, decompress
from emberq.record.layout import (
    IPV4_HOST_SIZE,
    IPV6_HOST_SIZE,
    LENGTH_16,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PREFIX_BY_HOST_SIZES,
    PREFIX_IPV4,
    SIZE_AND_MAGIC,
    SYSTEM_FLAG_LOW_BYTE_POSITION,
)
from emberq.record.record import Record
from emberq.record.system_flag import (
    BORN_HOST_IPV6,
    HOSTS_IPV6_MASK,
    STORE_HOST_IPV6,
    compression_type,
    without_compression,
)

_RECORD_MAGICS = frozenset((MAGIC_V1, MAGIC_V2))
_MAGIC_LOW_BYTE_POSITION = 7
_BODY_SIZE_POSITION = PREFIX_IPV4.size - 4


def decode_record(
    content: bytes | memoryview,
    position: int = 0,
    *,
    is_body_read: bool = True,
    is_crc_checked: bool = True,
) -> Record:
    """Read the record that starts at `position`; bytes after it are left alone.

    From a memoryview the body is a view, not a copy: it holds the underlying buffer alive. With
    `is_body_read=False` the body is left empty and its pages are not touched.

    Raises:
        RecordError: these bytes are no complete record, or the body does not match its checksum.
    """
    try:
        head = PREFIX_IPV4.unpack_from(content, position)
    except struct.error:
        raise _cut_off(content, position) from None
    body_start = position + PREFIX_IPV4.size
    if head[7] & HOSTS_IPV6_MASK:
        head, body_start = _unpack_long_head(content, position, head[7])
    (
        size,
        magic,
        body_crc,
        queue_id,
        flag,
        queue_offset,
        log_offset,
        system_flag,
        born_at_ms,
        born_host,
        stored_at_ms,
        store_host,
        reconsume_times,
        prepared_offset,
        body_size,
    ) = head
    if magic not in _RECORD_MAGICS:
        raise RecordError(f"no record at {position}: unknown magic {magic:#010x}")
    end = position + size
    body_end = body_start + body_size
    topic_start = body_end + (1 if magic == MAGIC_V1 else 2)
    # Each length is read only where the announced size leaves room for it: no index can fail.
    if end > len(content) or body_size < 0 or topic_start + 2 > end:
        raise _lengths_disagree(position, size)
    topic_size = int.from_bytes(content[body_end:topic_start], "big", signed=True)
    topic_end = topic_start + topic_size
    properties_start = topic_end + 2
    if topic_size < 0 or properties_start > end:
        raise _lengths_disagree(position, size)
    if LENGTH_16.unpack_from(content, topic_end)[0] != end - properties_start:
        raise _lengths_disagree(position, size)

    body = content[body_start:body_end] if is_body_read else b""
    if is_crc_checked and is_body_read and crc32(body) & 0x7FFF_FFFF != body_crc:
        raise RecordError(f"the body of the record at {position} does not match its checksum")
    try:
        topic = str(content[topic_start:topic_end], "utf-8")
    except UnicodeDecodeError:
        raise RecordError(f"the topic of the record at {position} is not UTF-8") from None
    return Record(
        size,
        magic,
        body_crc,
        queue_id,
        flag,
        queue_offset,
        log_offset,
        system_flag,
        born_at_ms,
        born_host,
        stored_at_ms,
        store_host,
        reconsume_times,
        prepared_offset,
        body,
        topic,
        bytes(content[properties_start:end]),
    )


def read_properties(content: bytes | bytearray | memoryview) -> bytes:
    """Return the properties of the record at the start of `content`, looking at nothing else.

    Raises:
        RecordError: the lengths lead out of the bytes.
    """
    try:
        at = _BODY_SIZE_POSITION
        system_flag = content[SYSTEM_FLAG_LOW_BYTE_POSITION]
        if system_flag & HOSTS_IPV6_MASK:
            more = IPV6_HOST_SIZE - IPV4_HOST_SIZE
            at += more * (bool(system_flag & BORN_HOST_IPV6) + bool(system_flag & STORE_HOST_IPV6))
        topic_at = at + 4 + int.from_bytes(content[at : at + 4], "big")
        if content[_MAGIC_LOW_BYTE_POSITION] == MAGIC_V1 & 0xFF:
            start = topic_at + 1 + content[topic_at]
        else:
            start = topic_at + 2 + LENGTH_16.unpack_from(content, topic_at)[0]
        size = LENGTH_16.unpack_from(content, start)[0]
    except (IndexError, struct.error):
        raise RecordError("the lengths of a record lead out of its bytes") from None
    stored = bytes(content[start + 2 : start + 2 + size])
    if size < 0 or len(stored) != size:
        raise RecordError("the properties of a record are cut off")
    return stored


def iter_records(content: bytes | memoryview, *, is_crc_checked: bool = True) -> Iterator[Record]:
    """Yield the records that lie one after the other in the body of a pull answer.

    Raises:
        RecordError: at the first bytes that are no record; those before it were yielded.
    """
    position = 0
    while position < len(content):
        record = decode_record(content, position, is_crc_checked=is_crc_checked)
        yield record
        position += record.size_bytes


def read_size_and_magic(content: bytes | memoryview, position: int = 0) -> tuple[int, int]:
    """Return what the first 8 bytes say; for a blank record the size is all that is left.

    A scan that meets a damaged record can use the size to step over it.

    Raises:
        RecordError: fewer than 8 bytes are left.
    """
    try:
        size, magic = SIZE_AND_MAGIC.unpack_from(content, position)
    except struct.error:
        raise RecordError(f"record head at {position} is cut off") from None
    return size, magic


def is_blank(content: bytes | memoryview, position: int = 0) -> bool:
    """Whether a blank record at `position` closes the log segment."""
    return content[position + 4 : position + 8] == MAGIC_BLANK.to_bytes(4, "big")


def with_plain_body(record: Record, size_max: int = DECOMPRESSED_SIZE_MAX) -> Record:
    """Return the record with its body decompressed; one that was never compressed comes back as is.

    Raises:
        RecordError: the body is damaged, larger than `size_max`, or needs a missing codec.
    """
    kind = compression_type(record.system_flag)
    if kind is None:
        return record
    return replace(
        record,
        body=decompress(record.body, kind, size_max),
        system_flag=without_compression(record.system_flag),
    )


def _unpack_long_head(
    content: bytes | memoryview, position: int, system_flag: int
) -> tuple[tuple[Any, ...], int]:
    """The fields before the body where a host has an IPv6 address, and where the body starts."""
    layout = PREFIX_BY_HOST_SIZES[
        IPV6_HOST_SIZE if system_flag & BORN_HOST_IPV6 else IPV4_HOST_SIZE,
        IPV6_HOST_SIZE if system_flag & STORE_HOST_IPV6 else IPV4_HOST_SIZE,
    ]
    try:
        return layout.unpack_from(content, position), position + layout.size
    except struct.error:
        raise _cut_off(content, position) from None


def _cut_off(content: bytes | memoryview, position: int) -> RecordError:
    return RecordError(
        f"the record head at {position} is cut off: {len(content) - position} bytes left"
    )


def _lengths_disagree(position: int, size: int) -> RecordError:
    return RecordError(
        f"the record at {position} announces {size} bytes, which its lengths or the end of the "
        "bytes contradict"
    )
