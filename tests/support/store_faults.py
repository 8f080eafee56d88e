"""A producer on a store whose disk fails at a chosen operation, and what must hold afterwards."""

import errno
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from msgspec.structs import replace

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
)

PUTS = 12
HURRIED: dict[str, Any] = {
    "mapped_file_size_commit_log": 4096,
    "flush_interval_consume_queue": 1,
    "flush_consume_queue_thorough_interval": 1,
}
# A full disk refuses what needs room; a broken one refuses anything.
FAULTS = {
    "full": Fault(0, errno.ENOSPC, operations=frozenset({Operation.CREATE, Operation.WRITE})),
    "full once": Fault(
        0, errno.ENOSPC, False, operations=frozenset({Operation.CREATE, Operation.WRITE})
    ),
    "broken": Fault(0, errno.EIO),
    "broken once": Fault(0, errno.EIO, is_lasting=False),
}


class Outcome:
    """What a producer was told, message by message."""

    def __init__(self) -> None:
        self.acknowledged: list[bytes] = []
        self.refused: list[bytes] = []
        self.reasons: set[str] = set()


def operations_of_a_run(root: Path) -> int:
    """How many calls can fail; threads make it vary a little."""
    disk = FaultyDisk(root)
    assert _produce_on(disk).refused == []
    return disk.fallible_count


def check_fault(fault: Fault, number: int, root: Path) -> None:
    """Let the `number`th call fail; nothing may be acknowledged that is not found later."""
    disk = FaultyDisk(root, fault=replace(fault, number=number))
    outcome = _produce_on(disk)
    assert all(outcome.reasons)
    if fault.is_lasting and outcome.refused:
        assert len(outcome.acknowledged) + len(outcome.refused) == PUTS
        assert max(outcome.acknowledged, default=b"") < min(outcome.refused)
    for found in (disk.copy(), disk.after_power_loss(Random(number))):
        with opened(root, found, **HURRIED) as store:
            bodies = bodies_of(store)
            known = [body for body in bodies if body in outcome.acknowledged]
            assert known == outcome.acknowledged
            assert put(store, b"goes on").status is PutStatus.PUT_OK
        with opened(root, found, **HURRIED) as store:
            assert bodies_of(store) == [*bodies, b"goes on"]


def _produce_on(disk: FaultyDisk) -> Outcome:
    outcome = Outcome()
    store = new_store(disk.root, disk, **SYNC, **HURRIED)
    try:
        store.open()
    except OSError:
        return outcome
    _produce(store, outcome)
    try:
        store.close()
    except StoreFailed:
        assert disk.failures
    return outcome


def _produce(store: MessageStore, outcome: Outcome) -> None:
    """Put messages one after the other, each waited for as under SYNC_FLUSH."""
    for number in range(PUTS):
        body = b"%02d " % number * 200
        result = put(store, body, keys=f"key{number}")
        status = result.status
        if status.is_stored:
            waited = durable(store, result.end_offset)
            while not waited:
                store.poll()
            status = waited[0]
        if status is PutStatus.PUT_OK:
            outcome.acknowledged.append(body)
        else:
            assert not status.is_stored
            outcome.refused.append(body)
            outcome.reasons.add(result.reason or store.refusal)


# Cleaning

DELETED = "Deleted"
CLEANED: dict[str, Any] = {
    "mapped_file_size_commit_log": 4096,
    "max_index_num": 5,
    "delete_commit_log_files_interval": 0,
}
YOUNG_BUT_FORCED = 0.88  # used share of the disk


def operations_of_cleaning(root: Path) -> int:
    """How many calls of a round of cleaning can fail."""
    disk = FaultyDisk(root)
    store, _ = _with_much_to_clean(disk)
    before = disk.fallible_count
    _clean(store, disk)
    count = disk.fallible_count - before
    crash(store)
    return count


def check_cleaning_fault(fault: Fault, number: int, root: Path) -> None:
    """Let the `number`th call of a round of cleaning fail; what is left must be whole."""
    disk = FaultyDisk(root)
    store, bodies = _with_much_to_clean(disk)
    disk.fault = replace(fault, number=disk.fallible_count + number)
    _clean(store, disk)
    crash(store)
    for found in (disk.copy(), disk.after_power_loss(Random(number))):
        with opened(root, found, **HURRIED) as again:
            left = bodies_of(again)
            assert left
            assert left == bodies[-len(left) :]
            assert again.max_offset(TOPIC, 0) == len(bodies)
            assert set(bodies_of(again, DELETED)) <= {b"deleted"}
            assert put(again, b"goes on").queue_offset == len(bodies)
        with opened(root, found, **HURRIED) as again:
            assert bodies_of(again) == [*left, b"goes on"]


def _with_much_to_clean(disk: FaultyDisk) -> tuple[MessageStore, list[bytes]]:
    store = new_store(disk.root, disk, **SYNC, **CLEANED)
    store.open()
    bodies = [b"%02d " % number * 200 for number in range(4 * PUTS)]
    for number, body in enumerate(bodies):
        put(store, body, keys=f"key{number}")
        put(store, b"deleted", topic=DELETED)
    flusher = store.durability._flusher
    assert flusher is not None
    store.durability.sync_side_files(flusher._sync_whole_log, lambda: None)
    return store, bodies


def _clean(store: MessageStore, disk: FaultyDisk) -> None:
    """Everything that deletes; each may fail by itself."""
    disk.used = YOUNG_BUT_FORCED
    for clean in (
        store.delete_expired_segments,
        lambda: store.delete_topics([DELETED]),
        store.clean_expired_queues,
        store.delete_expired_segments,
    ):
        with suppress(OSError):
            clean()
    flusher = store.durability._flusher
    assert flusher is not None
    with suppress(OSError):
        store.durability.sync_side_files(flusher._sync_whole_log, lambda: None)
