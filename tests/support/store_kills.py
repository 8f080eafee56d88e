"""Rounds of killing a process that puts messages, and of looking for what it acknowledged."""

import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import NamedTuple

from emberq.record.record import Record
from emberq.store.message_store import MessageStore
from tests.support.store_child import DELETED_TOPIC, OPENING, PACE, QUEUES
from tests.support.stores import TOPIC, opened, read_all

ACKNOWLEDGED_MAX = 300
KILLED_WHILE_OPENING = 0.1  # share of the rounds
_YEAR_MS = 365 * 24 * 3600 * 1000
_ROOT = Path(__file__).resolve().parents[2]


class Acknowledged(NamedTuple):
    log_offset: int
    queue_id: int
    queue_offset: int
    key: str
    body_size: int


class KillRounds:
    """One store directory, used by one process after the other."""

    def __init__(self, root: Path, kind: str, random: Random) -> None:
        self._root = root
        self._kind = kind
        self._random = random
        self.acknowledged: list[Acknowledged] = []

    def run(self) -> None:
        """Kill a process at a random moment, then open the store and compare."""
        self.acknowledged += self._killed()
        with opened(self._root, flush_disk_type=self._kind, **PACE) as store:
            found = {queue_id: read_all(store, queue_id=queue_id) for queue_id in range(QUEUES)}
            for records in found.values():
                self._check_order(records)
            by_log_offset = {
                record.log_offset: record for records in found.values() for record in records
            }
            bodies = [bytes(record.body) for record in by_log_offset.values()]
            assert len(set(bodies)) == len(bodies)  # each carries a key of its own
            for message in self.acknowledged:
                assert store.max_offset(TOPIC, message.queue_id) > message.queue_offset
                if message.log_offset >= store.log.min_offset:  # else it was too old
                    self._check_found(message, by_log_offset, store)
            for queue_id in range(QUEUES):
                assert {record.topic for record in read_all(store, DELETED_TOPIC, queue_id)} <= {
                    DELETED_TOPIC
                }

    def _killed(self) -> list[Acknowledged]:
        """Start a process and kill it at a random moment; what it told before it died."""
        is_killed_while_opening = self._random.random() < KILLED_WHILE_OPENING
        told_max = self._random.randint(1, ACKNOWLEDGED_MAX)
        seed = str(self._random.randrange(2**32))
        lines: list[str] = []
        with subprocess.Popen(
            [sys.executable, "-m", "tests.support.store_child", str(self._root), seed, self._kind],
            stdout=subprocess.PIPE,
            cwd=_ROOT,
            text=True,
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == f"{OPENING}\n"
            if is_killed_while_opening:
                child.kill()
            for line in child.stdout:  # also what was told while it was being killed
                lines.append(line)
                if len(lines) == told_max:
                    child.kill()
        assert child.returncode == -signal.SIGKILL, "the process ended by itself"
        return [_parsed(line) for line in lines if line.endswith("\n")]

    def _check_order(self, records: list[Record]) -> None:
        first = records[0].queue_offset if records else 0
        offsets = [record.queue_offset for record in records]
        assert offsets == list(range(first, first + len(records)))
        log_offsets = [record.log_offset for record in records]
        assert log_offsets == sorted(set(log_offsets))

    def _check_found(
        self, message: Acknowledged, by_log_offset: dict[int, Record], store: MessageStore
    ) -> None:
        record = by_log_offset[message.log_offset]
        body = bytes(record.body)
        assert record.queue_offset == message.queue_offset
        assert body.rstrip(b".") == message.key.encode()
        assert len(body) == message.body_size
        assert store.index is not None
        stored_at_ms = record.stored_at_ms
        found = store.index.find(
            TOPIC, message.key, 64, stored_at_ms - _YEAR_MS, stored_at_ms + _YEAR_MS
        )
        assert message.log_offset in found


def _parsed(line: str) -> Acknowledged:
    log_offset, queue_id, queue_offset, key, body_size = line.split()
    return Acknowledged(int(log_offset), int(queue_id), int(queue_offset), key, int(body_size))
