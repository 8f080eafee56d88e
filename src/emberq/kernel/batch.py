"""From the body of a batch request to what log, queue and index take, in one call."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, repeat
from struct import Struct as Layout
from struct import error as StructError
from zlib import crc32

from emberq.errors import RecordError
from emberq.kernel.key_collector import KeyCollector, likeness_of
from emberq.kernel.key_hashes import KEYS_AT_ONCE_MAX, differing_width, index_hashes_behind
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
_FLAG_AND_BODY_SIZE = Layout(">12xii")
assert _FLAG_AND_BODY_SIZE.size == BATCH_PREFIX.size
_BODY_SIZE_AT = range(16, 20)
ELEMENT_LAYOUTS_CACHED_MAX = 128

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
    if not content:
        return b"", [], b"", [], []
    # Column by column: what C does for a whole column costs little per message. Properties have
    # their length before them, here as in the batch.
    flags, bodies, stored = _columns(content)
    count = len(bodies)
    fixed_size = _HEAD.size + len(topic_part)
    body_sizes = [len(body) for body in bodies]
    sizes = [
        fixed_size + body_size + len(properties)
        for body_size, properties in zip(body_sizes, stored, strict=True)
    ]
    *log_offsets, _ = accumulate(sizes, initial=log_offset)
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
        pieces = [topic_part] * (4 * count)
        pieces[0::4] = map(
            _HEAD.pack,
            sizes,
            repeat(MAGIC_V1),
            [crc32(body) & 0x7FFF_FFFF for body in bodies],
            repeat(queue_id),
            flags,
            range(queue_offset, queue_offset + count),
            log_offsets,
            repeat(shared),
            body_sizes,
        )
        pieces[1::4] = bodies
        pieces[3::4] = stored
        codes, hashes, owners = _keys_of(topic, stored, log_offsets)
        entries = _packed_entries(log_offsets, sizes, codes)
    except StructError as error:
        raise RecordError(f"a value does not fit its record field: {error}") from error
    return b"".join(pieces), log_offsets, entries, hashes, owners


def _columns(content: bytes) -> tuple[Sequence[int], Sequence[bytes], Sequence[bytes]]:
    """Flags, bodies, and properties with their length before them, of all messages."""
    _, body, properties = next(_elements(content))
    size = BATCH_PREFIX.size + len(body) + len(properties)
    elements: Iterator[tuple[int, bytes, bytes]]
    if _are_sizes_equal(content, size, len(body)):
        elements = _element_layout(len(body), len(properties)).iter_unpack(content)
    else:
        elements = _elements(content)
    flags, bodies, stored = zip(*elements, strict=True)
    return flags, bodies, stored


def _are_sizes_equal(content: bytes, size: int, body_size: int) -> bool:
    """Whether all messages have the sizes of the first: body and properties of equal lengths."""
    count, rest = divmod(len(content), size)
    lengths_at = (*_BODY_SIZE_AT, BATCH_PREFIX.size + body_size, BATCH_PREFIX.size + body_size + 1)
    return not rest and all(content[at::size].count(content[at]) == count for at in lengths_at)


@lru_cache(maxsize=ELEMENT_LAYOUTS_CACHED_MAX)
def _element_layout(body_size: int, properties_size: int) -> Layout:
    return Layout(f">12xi4x{body_size}s{properties_size}s")


def _keys_of(
    topic: str, stored: Sequence[bytes], log_offsets: list[int]
) -> tuple[list[int], list[int], list[int]]:
    """Codes of the tags of all messages, hashes of their keys, and the record of each hash."""
    count = len(stored)
    alike = likeness_of(topic, stored[0], _LENGTH_SIZE)
    key_hashes = None if alike is None else _alike_hashes(topic, stored, *alike[:2])
    if alike is not None and key_hashes is not None:
        code, tag_hash = alike[2:]
        if tag_hash < 0:
            return [code] * count, key_hashes, log_offsets[:]
        hashes, owners = [tag_hash] * (2 * count), [0] * (2 * count)
        hashes[0::2] = key_hashes
        owners[0::2] = owners[1::2] = log_offsets
        return [code] * count, hashes, owners
    collector = KeyCollector()
    codes = [
        collector.note(topic, properties, _LENGTH_SIZE, len(properties), log_offset, 0)
        for properties, log_offset in zip(stored, log_offsets, strict=True)
    ]
    hashes, owners, _ = collector.take()
    return codes, hashes, owners


def _alike_hashes(
    topic: str, stored: Sequence[bytes], before: bytes, behind: bytes
) -> list[int] | None:
    """Hashes of the unique keys if messages differ in these only, and only in their last bytes.

    What is before the keys begins with the length of the properties: where that is equal, the key
    lies at the same place.
    """
    first, last = stored[0], stored[-1]
    start, stop = len(before), len(first) - len(behind)
    width = differing_width(first[start:stop], last[start:stop].ljust(stop - start, b"\0"))
    at = stop - width
    if at < start or not width:
        return None
    shared = first[:at]
    ends = [
        properties[at:stop]
        for properties in stored
        if properties.startswith(shared) and properties.endswith(behind)
    ]
    return index_hashes_behind(topic, shared[start:], ends) if len(ends) == len(stored) else None


def _packed_entries(log_offsets: list[int], sizes: list[int], codes: list[int]) -> bytes:
    """Entries of a queue, back to back."""
    count = len(sizes)
    if count > KEYS_AT_ONCE_MAX:
        return b"".join(map(_QUEUE_ENTRY.pack, log_offsets, sizes, codes))
    fields = [0] * (3 * count)
    fields[0::3] = log_offsets
    fields[1::3] = sizes
    fields[2::3] = codes
    return _entry_packer(count)(*fields)


@lru_cache(maxsize=KEYS_AT_ONCE_MAX)
def _entry_packer(count: int) -> Callable[..., bytes]:
    return Layout(">" + "qiq" * count).pack


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
    last_element, last_body_end = content_size - BATCH_ELEMENT_SIZE_MIN, content_size - _LENGTH_SIZE
    unpack_prefix, unpack_length = _FLAG_AND_BODY_SIZE.unpack_from, LENGTH_16.unpack_from
    while position < content_size:
        if position > last_element:
            raise RecordError(f"the batch message at {position} is cut off")
        flag, body_size = unpack_prefix(content, position)
        body_at = position + BATCH_PREFIX.size
        body_end = body_at + body_size
        if body_size < 0 or body_end > last_body_end:
            raise RecordError(f"the batch message at {position} has a body of {body_size} bytes")
        (properties_size,) = unpack_length(content, body_end)
        end = body_end + _LENGTH_SIZE + properties_size
        if properties_size < 0 or end > content_size:
            raise RecordError(
                f"the batch message at {position} has properties of {properties_size} bytes"
            )
        yield flag, content[body_at:body_end], content[body_end:end]
        position = end
