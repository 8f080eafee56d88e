"""No room for queues, index or checkpoint: nothing is lost, and the store goes on by itself."""

import errno
import logging
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from emberq.errors import StoreFailed
from emberq.store.message_store import MessageStore
from emberq.store.results import PutStatus
from emberq.testing.disk_history import Operation
from emberq.testing.faulty_disk import Fault, FaultyDisk
from tests.support.stores import (
    SYNC,
    TOPIC,
    bodies_of,
    crash,
    durable,
    new_store,
    opened,
    put,
    put_many,
)

DEADLINE_S = 45.0
NEEDS_ROOM = frozenset({Operation.CREATE, Operation.WRITE})
PLACES = ["consumequeue", "index", "checkpoint"]
HURRIED: dict[str, Any] = {
    "flush_interval_consume_queue": 1,
    "flush_consume_queue_thorough_interval": 1,
}


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def full(within: str, error: int = errno.ENOSPC) -> Fault:
    return Fault(0, error, operations=NEEDS_ROOM, within=within)


def keys_found(store: MessageStore) -> int:
    return len(store.find_by_key(TOPIC, "k", 64, 0, 2**60).records)


@pytest.mark.parametrize("place", PLACES)
def test_messages_are_refused_while_there_is_no_room_and_taken_again_afterwards(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, disk, **HURRIED) as store:
        bodies = put_many(store, 60, keys="k")
        disk.fault = full(place)
        bodies.append(b"while full")
        put(store, b"while full", keys="k")
        until(lambda: bool(store.refusal))

        refused = put(store)
        assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
        assert "no room" in refused.reason
        assert bodies_of(store) == bodies

        disk.fault = None
        until(lambda: not store.refusal)

        bodies.append(b"afterwards")
        assert put(store, b"afterwards", keys="k").status is PutStatus.PUT_OK
    with opened(tmp_path, disk) as store:
        assert bodies_of(store) == bodies
        assert keys_found(store) == 62
    messages = [record.message for record in caplog.records]
    assert sum(text.startswith("no_room ") for text in messages) == 1
    assert messages.count("room_again") == 1


@pytest.mark.parametrize("error", [errno.EDQUOT, errno.EMFILE])
def test_quotas_and_too_many_open_files_are_wants_of_room_too(error: int, tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, disk, **HURRIED) as store:
        disk.fault = full("consumequeue", error)
        put(store)
        until(lambda: bool(store.refusal))
        disk.fault = None
        until(lambda: not store.refusal)

        assert bodies_of(store) == [b"hello"]


def test_what_was_put_becomes_durable_although_there_is_no_room_for_queues(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, disk, **SYNC, **HURRIED) as store:
        disk.fault = full("consumequeue")
        result = put(store)
        until(lambda: bool(store.refusal))

        outcome = durable(store, result.end_offset)
        until(lambda: store.poll() or bool(outcome))

        assert outcome == [PutStatus.PUT_OK]
        disk.fault = None


@pytest.mark.parametrize("place", PLACES)
def test_a_store_closed_or_killed_without_room_is_rebuilt_from_the_log(
    place: str, tmp_path: Path
) -> None:
    disk = FaultyDisk(tmp_path)
    store = new_store(tmp_path, disk, **SYNC, **HURRIED)
    store.open()
    bodies = put_many(store, 60, keys="k")
    disk.fault = full(place)
    result = put(store, b"while full", keys="k")
    outcome = durable(store, result.end_offset)
    until(lambda: store.poll() or bool(outcome))
    assert outcome == [PutStatus.PUT_OK]
    until(lambda: bool(store.refusal))
    killed = disk.copy()
    without_power = disk.after_power_loss(Random(1))

    with pytest.raises(StoreFailed, match="not everything is on disk"):
        store.close()

    disk.fault = None
    for found in (disk, killed, without_power):
        with opened(tmp_path, found) as again:
            assert bodies_of(again) == [*bodies, b"while full"]
            assert keys_found(again) == 61


def test_a_failed_sync_is_not_forgiven(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    store = new_store(tmp_path, disk, **HURRIED)
    store.open()
    syncs = frozenset({Operation.SYNC})
    disk.fault = Fault(0, errno.ENOSPC, False, syncs, "consumequeue")
    put(store)
    until(lambda: store._admission.failure != "")

    assert "the disk failed" in store.refusal
    with pytest.raises(StoreFailed):
        store.close()


def test_a_broken_disk_is_not_taken_for_a_full_one(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    store = new_store(tmp_path, disk, **HURRIED)
    store.open()
    disk.fault = Fault(0, errno.EIO, False, NEEDS_ROOM, "consumequeue")
    put(store)
    until(lambda: store._admission.failure != "")
    crash(store)


def test_without_room_for_a_segment_each_put_is_told_but_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, disk) as store:
        put(store, bytes(10_000))
        until(lambda: disk.exists(tmp_path / "commitlog" / f"{16 * 1024:020d}"))
        put(store, bytes(10_000))
        disk.fault = full("commitlog")
        results = [put(store, bytes(10_000)) for _ in range(50)]

        statuses = {result.status for result in results[1:]}
        assert statuses == {PutStatus.CREATE_MAPPED_FILE_FAILED}
        assert sum("put_refused" in record.message for record in caplog.records) == 1
        disk.fault = None
        until(lambda: put(store, bytes(10_000)).status is PutStatus.PUT_OK)
