"""From the body of a batch request to what log, queue and index take, in one call."""

from collections.abc import Iterator
from struct import Struct as Layout
from struct import error as StructError
from zlib import crc32

from emberq.errors import RecordError
from emberq.kernel.key_collector import KeyCollector
from emberq.record.encode import encode_record
from emberq.record.host import PackedHost
from emberq.record.layout import (
    BATCH_ELEMENT_SIZE_MIN,
    BATCH_PREFIX,
    IPV4_HOST_SIZE,
    LENGTH_16,
    MAGIC_V1,
    PREFIX_IPV4,
)
from emberq.record.system_flag import HOSTS_IPV6_MASK

# What differs between the records of a batch, around what does not.
_HEAD = Layout(">iIIiiqq48si")
_SHARED = Layout(">iq8sq8siq")
assert _HEAD.size == PREFIX_IPV4.size
assert _SHARED.size == 48
_QUEUE_ENTRY = Layout(">qiq")
_LENGTH_SIZE = LENGTH_16.size

# Records back to back, the log offset of each, its entries for a queue back to back, and the
# hashes of all keys with the log offset of the record that each belongs to.
Exploded = tuple[bytes, list[int], bytes, list[int], list[int]]


def explode_batch(
    content: bytes,
    topic: str,
    topic_part: bytes,
    queue_id: int,
    queue_offset: int,
    log_offset: int,
    system_flag: int,
    born_at_ms: int,
    born_host: PackedHost,
    stored_at_ms: int,
    store_host: PackedHost,
    reconsume_times: int,
) -> Exploded:
    """Records of version 1 with IPv4 hosts; `topic_part` is the topic as they hold it.

    Official brokers walk by the inner lengths and do not look at the messages' total sizes.

    Raises:
        RecordError: the lengths do not fit the content, or a value does not fit its field.
    """
    assert len(born_host) == len(store_host) == IPV4_HOST_SIZE
    pieces: list[bytes] = []
    log_offsets: list[int] = []
    entries: list[bytes] = []
    keys = KeyCollector()
    fixed_size = _HEAD.size + len(topic_part) + _LENGTH_SIZE
    pack_head, pack_entry, note_keys = _HEAD.pack, _QUEUE_ENTRY.pack, keys.note
    try:
        shared = _SHARED.pack(
            system_flag & ~HOSTS_IPV6_MASK,
            born_at_ms,
            born_host,
            stored_at_ms,
            store_host,
            reconsume_times,
            0,
        )
        for flag, body, stored_properties in _elements(content):
            # The length of the properties stands before them, here as in the batch.
            properties = stored_properties[_LENGTH_SIZE:]
            size = fixed_size + len(body) + len(properties)
            pieces += (
                pack_head(
                    size,
                    MAGIC_V1,
                    crc32(body) & 0x7FFF_FFFF,
                    queue_id,
                    flag,
                    queue_offset,
                    log_offset,
                    shared,
                    len(body),
                ),
                body,
                topic_part,
                stored_properties,
            )
            code = note_keys(topic, properties, 0, len(properties), log_offset, stored_at_ms)
            entries.append(pack_entry(log_offset, size, code))
            log_offsets.append(log_offset)
            queue_offset += 1
            log_offset += size
    except StructError as error:
        raise RecordError(f"a value does not fit its record field: {error}") from error
    hashes, owners, _ = keys.take()
    return b"".join(pieces), log_offsets, b"".join(entries), hashes, owners


def explode_rare_batch(
    content: bytes,
    topic: str,
    queue_id: int,
    queue_offset: int,
    log_offset: int,
    system_flag: int,
    born_at_ms: int,
    born_host: PackedHost,
    stored_at_ms: int,
    store_host: PackedHost,
    reconsume_times: int,
) -> Exploded:
    """The same for long topics and IPv6 hosts."""
    records: list[bytes] = []
    log_offsets: list[int] = []
    entries: list[bytes] = []
    keys = KeyCollector()
    for flag, body, stored_properties in _elements(content):
        properties = stored_properties[_LENGTH_SIZE:]
        record = encode_record(
            topic,
            body,
            properties,
            queue_id=queue_id,
            flag=flag,
            queue_offset=queue_offset,
            log_offset=log_offset,
            system_flag=system_flag,
            born_at_ms=born_at_ms,
            born_host=born_host,
            stored_at_ms=stored_at_ms,
            store_host=store_host,
            reconsume_times=reconsume_times,
        )
        code = keys.note(topic, properties, 0, len(properties), log_offset, stored_at_ms)
        entries.append(_QUEUE_ENTRY.pack(log_offset, len(record), code))
        records.append(record)
        log_offsets.append(log_offset)
        queue_offset += 1
        log_offset += len(record)
    hashes, owners, _ = keys.take()
    return b"".join(records), log_offsets, b"".join(entries), hashes, owners


def _elements(content: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Flag, body, and properties with their length before them."""
    position, content_size = 0, len(content)
    while position < content_size:
        body_at = position + BATCH_PREFIX.size
        if position + BATCH_ELEMENT_SIZE_MIN > content_size:
            raise RecordError(f"the batch message at {position} is cut off")
        _, _, _, flag, body_size = BATCH_PREFIX.unpack_from(content, position)
        body_end = body_at + body_size
        if body_size < 0 or body_end + _LENGTH_SIZE > content_size:
            raise RecordError(f"the batch message at {position} has a body of {body_size} bytes")
        properties_size = LENGTH_16.unpack_from(content, body_end)[0]
        end = body_end + _LENGTH_SIZE + properties_size
        if properties_size < 0 or end > content_size:
            raise RecordError(
                f"the batch message at {position} has properties of {properties_size} bytes"
            )
        yield flag, content[body_at:body_end], content[body_end:end]
        position = end
