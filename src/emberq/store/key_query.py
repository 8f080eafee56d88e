"""Messages by key: what the index finds, compared with the messages themselves.

The index knows hashes only. Official brokers answer whatever has the hash; here a message of
another topic or with another key is left out.
"""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from emberq.errors import RecordError
from emberq.kernel.stored_properties import find_keys, find_tags, find_unique_key
from emberq.record.decode import decode_record
from emberq.record.record import Record
from emberq.store.key_index import KeyIndex

# Records looked at for one query, whatever the hash collisions.
CANDIDATES_MAX = 4_096
_CANDIDATES_GROWTH = 4
# Entries of the index have whole seconds: one may seem to be this much older than its message.
_INDEX_INACCURACY_MS = 999

IndexType = Literal["K", "U", "T"]  # key, unique key, tag
ReadRecord = Callable[[int], bytes | None]


class KeyQuery(Struct, frozen=True):
    """Records in the order of the log, and how far the index reached when they were found."""

    records: list[bytes]
    last_update_timestamp_ms: int = 0
    last_update_log_offset: int = 0


def find_by_key(
    index: KeyIndex,
    read_record: ReadRecord,
    topic: str,
    key: str,
    count_max: int,
    begin_ms: int,
    end_ms: int,
    index_type: IndexType | None = None,
) -> KeyQuery:
    """The newest messages with a key (or tag), stored within a time range. May wait."""
    timestamp_ms, log_offset = index.last_indexed
    find = index.find_tag if index_type == "T" else index.find
    has_key = _has_tag if index_type == "T" else _has_key
    seen: set[int] = set()
    found: list[tuple[int, bytes]] = []
    asked = count_max
    while len(found) < count_max:
        offsets = find(topic, key, asked, begin_ms - _INDEX_INACCURACY_MS, end_ms)
        for offset in offsets:
            if offset in seen:  # of an earlier try, or a message that has its key twice
                continue
            seen.add(offset)
            content = read_record(offset)
            if content is not None and _is_match(content, topic, key, begin_ms, has_key):
                found.append((offset, content))
                if len(found) == count_max:
                    break
        if len(offsets) < asked or asked >= CANDIDATES_MAX:
            break
        asked = min(asked * _CANDIDATES_GROWTH, CANDIDATES_MAX)
    return KeyQuery([content for _, content in sorted(found)], timestamp_ms, log_offset)


def _is_match(
    content: bytes, topic: str, key: str, begin_ms: int, has_key: Callable[[Record, str], bool]
) -> bool:
    try:
        record = decode_record(content, is_body_read=False, is_crc_checked=False)
    except RecordError:
        return False
    return record.topic == topic and record.stored_at_ms >= begin_ms and has_key(record, key)


def _has_key(record: Record, key: str) -> bool:
    """Official brokers look for unique keys and for keys in the same way."""
    if find_unique_key(record.properties) == key:
        return True
    keys = find_keys(record.properties)
    return keys is not None and key in keys.split(" ")


def _has_tag(record: Record, tag: str) -> bool:
    return find_tags(record.properties) == tag
