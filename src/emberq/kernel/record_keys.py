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
