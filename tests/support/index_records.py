"""Records for tests of the key index, and what an index of them must answer."""

import itertools
from collections.abc import Iterable
from pathlib import Path

from emberq.record.string_hash import index_hash
from emberq.store.disk import Disk, RealDisk
from emberq.store.dispatch import Dispatched
from emberq.store.key_index import KeyIndex

FIRST_STORED_AT_MS = 1_760_000_000_000
ALL_TIME = (0, 1 << 62)


def indexed_record(
    log_offset: int,
    unique_key: str | None = None,
    *,
    keys: str | None = None,
    tags: str | None = None,
    topic: str = "TopicA",
    stored_at_ms: int = FIRST_STORED_AT_MS,
    size: int = 100,
    is_indexed: bool = True,
) -> Dispatched:
    return Dispatched(
        queue=None,
        queue_offset=0,
        log_offset=log_offset,
        size=size,
        tag_code=0,
        stored_at_ms=stored_at_ms,
        topic=topic,
        unique_key=unique_key,
        keys=keys,
        is_indexed=is_indexed,
        tags=tags,
    )


def index_in(
    folder: Path,
    *,
    disk: Disk | None = None,
    slots: int = 8,
    entries_max: int = 20,
    names: Iterable[str] | None = None,
    is_writable: bool = True,
    is_loaded: bool = True,
) -> KeyIndex:
    """An index; its files are named by numbers unless names are given."""
    given = iter(names if names is not None else (f"{n:017d}" for n in itertools.count(1)))
    index = KeyIndex(
        disk or RealDisk(),
        folder,
        slots=slots,
        entries_max=entries_max,
        new_name=lambda: next(given),
        is_writable=is_writable,
    )
    if is_loaded:
        assert index.load(is_after_crash=False, safe_log_offset=0) == []
    return index


def keys_of(record: Dispatched) -> list[str]:
    """What is indexed of a record, in order."""
    keys = [] if record.unique_key is None else [record.unique_key]
    keys += [word for word in (record.keys or "").split(" ") if word]
    if record.tags:
        keys.append(f"T#{record.tags}")
    return [f"{record.topic}#{key}" for key in keys] if record.is_indexed else []


def expected_answers(records: Iterable[Dispatched]) -> dict[int, list[int]]:
    """Log offsets by key hash, newest first, one per key."""
    answers: dict[int, list[int]] = {}
    for record in records:
        for key in keys_of(record):
            answers.setdefault(index_hash(key), []).insert(0, record.log_offset)
    return answers


def assert_answers(index: KeyIndex, records: list[Dispatched], others: list[Dispatched]) -> None:
    """The index holds exactly these records; keys of the others are asked for as well."""
    expected = expected_answers(records)
    for record in [*records, *others]:
        for text in keys_of(record):
            topic, _, key = text.partition("#")
            found = index.find(topic, key, 10_000, *ALL_TIME)
            assert found == expected.get(index_hash(text), []), text
