"""Values to record bytes: one call per message, for a log that has a single writer.

The layout is docs/formats/record.md.
"""

import struct
from zlib import crc32

from emberq.errors import RecordError
from emberq.record.host import UNKNOWN_HOST, PackedHost
from emberq.record.layout import (
    BLANK_SIZE_MIN,
    BORN_HOST_POSITION,
    IPV4_HOST_SIZE,
    IPV6_HOST_SIZE,
    LENGTH_16,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PREFIX_BY_HOST_SIZES,
    PREFIX_IPV4,
    PROPERTIES_SIZE_MAX,
    QUEUE_AND_LOG_OFFSET,
    QUEUE_OFFSET_POSITION,
    SIZE_AND_MAGIC,
    SYSTEM_FLAG_LOW_BYTE_POSITION,
    TIMESTAMP,
    TOPIC_SIZE_MAX,
    TOPIC_SIZE_MAX_V1,
    BytesLike,
)
from emberq.record.system_flag import BORN_HOST_IPV6, HOSTS_IPV6_MASK, with_host_bits

_PLAIN_SIZE = PREFIX_IPV4.size + LENGTH_16.size
_LENGTH_8 = [bytes((length,)) for length in range(TOPIC_SIZE_MAX_V1 + 1)]


def encode_record(
    topic: str,
    body: BytesLike,
    properties: bytes = b"",
    *,
    queue_id: int = 0,
    flag: int = 0,
    queue_offset: int = 0,
    log_offset: int = 0,
    system_flag: int = 0,
    born_at_ms: int = 0,
    born_host: PackedHost = UNKNOWN_HOST,
    stored_at_ms: int = 0,
    store_host: PackedHost = UNKNOWN_HOST,
    reconsume_times: int = 0,
    prepared_offset: int = 0,
    is_v2: bool = False,
) -> bytes:
    """Return one record.

    A writer that knows its place passes both offsets and the store timestamp here; one that must
    encode earlier fills them in with `place_record`. The IPv6 bits of the system flag are set
    from the hosts, whatever the caller passed. Topics above 127 bytes need and get version 2.

    Raises:
        RecordError: a value does not fit its field.
    """
    topic_bytes = topic.encode("utf-8", "replace")
    topic_size = len(topic_bytes)
    properties_size = len(properties)
    body_size = len(body)
    if is_v2 or topic_size > TOPIC_SIZE_MAX_V1:
        if topic_size > TOPIC_SIZE_MAX:
            raise RecordError(f"topic of {topic_size} bytes, at most {TOPIC_SIZE_MAX}")
        magic = MAGIC_V2
        topic_length = LENGTH_16.pack(topic_size)
    else:
        magic = MAGIC_V1
        topic_length = _LENGTH_8[topic_size]
    if properties_size > PROPERTIES_SIZE_MAX:
        raise RecordError(f"properties of {properties_size} bytes, at most {PROPERTIES_SIZE_MAX}")

    if len(born_host) == IPV4_HOST_SIZE and len(store_host) == IPV4_HOST_SIZE:
        prefix = PREFIX_IPV4
        system_flag &= ~HOSTS_IPV6_MASK
    else:
        try:
            prefix = PREFIX_BY_HOST_SIZES[len(born_host), len(store_host)]
        except KeyError:
            raise RecordError("a host must be packed in 8 or 20 bytes") from None
        system_flag = with_host_bits(system_flag, born_host, store_host)

    try:
        return b"".join(
            (
                prefix.pack(
                    prefix.size
                    + body_size
                    + len(topic_length)
                    + topic_size
                    + LENGTH_16.size
                    + properties_size,
                    magic,
                    crc32(body) & 0x7FFF_FFFF,
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
                ),
                body,
                topic_length,
                topic_bytes,
                LENGTH_16.pack(properties_size),
                properties,
            )
        )
    except struct.error as error:
        raise RecordError(f"a value does not fit its record field: {error}") from error


def topic_part(topic: str) -> bytes | None:
    """A topic as a version 1 record holds it, length first; None if it needs version 2."""
    encoded = topic.encode("utf-8", "replace")
    if len(encoded) > TOPIC_SIZE_MAX_V1:
        return None
    return _LENGTH_8[len(encoded)] + encoded


def encode_common_record(
    topic: bytes,
    body: BytesLike,
    properties: bytes,
    queue_id: int,
    flag: int,
    queue_offset: int,
    log_offset: int,
    system_flag: int,
    born_at_ms: int,
    born_host: PackedHost,
    stored_at_ms: int,
    store_host: PackedHost,
    reconsume_times: int,
    prepared_offset: int,
) -> bytes:
    """`encode_record` for the common case, at half its cost: version 1 with a prepared topic
    part and IPv4 hosts. Arguments are positional because naming them costs more than packing.

    Raises:
        RecordError: a value does not fit its field.
    """
    try:
        return b"".join(
            (
                PREFIX_IPV4.pack(
                    _PLAIN_SIZE + len(body) + len(topic) + len(properties),
                    MAGIC_V1,
                    crc32(body) & 0x7FFF_FFFF,
                    queue_id,
                    flag,
                    queue_offset,
                    log_offset,
                    system_flag & ~HOSTS_IPV6_MASK,
                    born_at_ms,
                    born_host,
                    stored_at_ms,
                    store_host,
                    reconsume_times,
                    prepared_offset,
                    len(body),
                ),
                body,
                topic,
                LENGTH_16.pack(len(properties)),
                properties,
            )
        )
    except struct.error as error:
        raise RecordError(f"a value does not fit its record field: {error}") from error


def place_record(
    log: bytearray | memoryview,
    position: int,
    *,
    queue_offset: int,
    log_offset: int,
    stored_at_ms: int,
) -> None:
    """Fill in what only the writer of the log knows, in the record that starts at `position`."""
    is_born_ipv6 = log[position + SYSTEM_FLAG_LOW_BYTE_POSITION] & BORN_HOST_IPV6
    born_host_size = IPV6_HOST_SIZE if is_born_ipv6 else IPV4_HOST_SIZE
    QUEUE_AND_LOG_OFFSET.pack_into(log, position + QUEUE_OFFSET_POSITION, queue_offset, log_offset)
    TIMESTAMP.pack_into(log, position + BORN_HOST_POSITION + born_host_size, stored_at_ms)


def encode_blank(size_left: int) -> bytes:
    """Return the 8 bytes that say: the `size_left` bytes from here to the segment's end are void.

    Raises:
        RecordError: fewer bytes are left than the blank itself needs.
    """
    if size_left < BLANK_SIZE_MIN:
        raise RecordError(f"no room for a blank record: {size_left} bytes left")
    return SIZE_AND_MAGIC.pack(size_left, MAGIC_BLANK)
