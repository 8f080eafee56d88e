"""What is written between two syncs, when there are very many queues."""

from pathlib import Path
from typing import Any

import pytest

from emberq.store import durability
from emberq.store.message_store import MessageStore
from tests.support.stores import HOST, TOPIC, bodies_of, crashing, opened

# Nothing is written but what a test writes.
QUIET: dict[str, Any] = {"flush_interval_consume_queue": 3_600_000}


def put_to(store: MessageStore, queue_id: int, count: int = 1) -> None:
    for number in range(count):
        store.put(TOPIC, queue_id, b"%d" % number, born_host=HOST)


def unwritten(store: MessageStore) -> list[int]:
    return sorted(queue.unwritten_count for queue in store.queues)


def test_queues_with_few_entries_wait_when_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durability, "SMALL_WRITES_MIN", 2)
    with opened(tmp_path, **QUIET) as store:
        for queue_id in range(5):
            put_to(store, queue_id)
        put_to(store, 9, durability.FEW_ENTRIES_MAX + 1)
        store.durability.write_side_files(lambda: None)
        assert unwritten(store) == [0, 0, 0, 1, 1, 1]

        store.durability.write_side_files(lambda: None)
        assert unwritten(store) == [0, 0, 0, 0, 0, 1]
        store.durability.write_side_files(lambda: None, is_thorough=True)
        assert unwritten(store) == [0] * 6


def test_the_queue_that_waits_the_longest_is_written_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durability, "SMALL_WRITES_MIN", 1)
    with opened(tmp_path, **QUIET) as store:
        for _ in range(5):
            for queue_id in range(5):
                put_to(store, queue_id)
            store.durability.write_side_files(lambda: None)

        assert unwritten(store) == [0, 1, 2, 3, 4]


def test_a_clean_stop_writes_every_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability, "SMALL_WRITES_MIN", 0)
    with opened(tmp_path, **QUIET) as store:
        put_to(store, 0, 3)
        store.durability.write_side_files(lambda: None)
        assert unwritten(store) == [3]

    with opened(tmp_path, **QUIET) as store:
        assert unwritten(store) == [0]
        assert bodies_of(store) == [b"0", b"1", b"2"]


def test_entries_that_were_never_written_are_found_again_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durability, "SMALL_WRITES_MIN", 0)
    with crashing(tmp_path, **QUIET) as store:
        put_to(store, 0, 3)
        store.durability.write_side_files(lambda: None)
        assert bodies_of(store) == [b"0", b"1", b"2"]

    with opened(tmp_path, **QUIET) as store:
        assert bodies_of(store) == [b"0", b"1", b"2"]
