"""Hashes of the keys of records whose properties were parsed when they were put."""

from collections.abc import Sequence
from typing import Protocol

from emberq.kernel.key_collector import Collected
from emberq.kernel.key_hashes import hash_into, tag_index_hash


class KeyedRecord(Protocol):
    """A record, as far as the index goes."""

    @property
    def log_offset(self) -> int: ...
    @property
    def stored_at_ms(self) -> int: ...
    @property
    def topic(self) -> str: ...
    @property
    def unique_key(self) -> str | None: ...
    @property
    def keys(self) -> str | None: ...
    @property
    def is_indexed(self) -> bool: ...
    @property
    def tags(self) -> str | None: ...


def hash_record_keys(records: Sequence[KeyedRecord]) -> Collected:
    """Hashes in the order of the index, with log offset and store time of each one's record."""
    return _alike_record_keys(records) or _record_keys(records)


def _alike_record_keys(records: Sequence[KeyedRecord]) -> Collected | None:
    """Of records that all have a unique key and one tag, and no other keys: most turns' records."""
    if not records:
        return None
    first = records[0]
    topic, tags = first.topic, first.tags
    alike = [
        record
        for record in records
        if record.is_indexed
        and not record.keys
        and record.tags == tags
        and record.topic == topic
        and record.unique_key is not None
    ]
    if not tags or len(alike) != len(records):
        return None
    hashes = [tag_index_hash(topic, tags)] * (2 * len(alike))
    keys = [record.unique_key or "" for record in alike]
    hash_into(hashes, range(0, len(hashes), 2), [topic] * len(keys), keys)
    log_offsets, times_ms = hashes[:], hashes[:]  # of the same length
    log_offsets[0::2] = log_offsets[1::2] = [record.log_offset for record in alike]
    times_ms[0::2] = times_ms[1::2] = [record.stored_at_ms for record in alike]
    return hashes, log_offsets, times_ms


def _record_keys(records: Sequence[KeyedRecord]) -> Collected:
    hashes: list[int] = []
    owners: list[KeyedRecord] = []  # the record of each hash
    keys: list[str] = []
    places: list[int] = []  # where the hash of each key belongs
    for record in records:
        if not record.is_indexed:
            continue
        if (unique_key := record.unique_key) is not None:
            places.append(len(hashes))
            keys.append(unique_key)
            hashes.append(0)
            owners.append(record)
        if text := record.keys:
            words = [word for word in text.split(" ") if word]
            places += range(len(hashes), len(hashes) + len(words))
            keys += words
            hashes += [0] * len(words)
            owners += [record] * len(words)
        if tags := record.tags:
            hashes.append(tag_index_hash(record.topic, tags))
            owners.append(record)
    hash_into(hashes, places, [owners[place].topic for place in places], keys)
    return (
        hashes,
        [record.log_offset for record in owners],
        [record.stored_at_ms for record in owners],
    )
