"""A producer on a store whose disk fails at a chosen operation, and what must hold afterwards."""

import errno
from pathlib import Path
from random import Random
from typing import Any

from emberq.errors import StoreFailed
from emberq.store.message_store import MessageStore
from emberq.store.results import PutStatus
from emberq.testing.disk_history import Operation
from emberq.testing.faulty_disk import Fault, FaultyDisk
from tests.support.stores import SYNC, bodies_of, durable, new_store, opened, put

PUTS = 12
HURRIED: dict[str, Any] = {
    "mapped_file_size_commit_log": 4096,
    "flush_interval_consume_queue": 1,
    "flush_consume_queue_thorough_interval": 1,
}
# A full disk refuses what needs room; a broken one refuses anything.
FAULTS = {
    "full": Fault(0, errno.ENOSPC, operations=frozenset({Operation.CREATE, Operation.WRITE})),
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
    disk = FaultyDisk(root, fault=Fault(number, fault.error, fault.is_lasting, fault.operations))
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
