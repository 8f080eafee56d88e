"""A store through several lives, each of which ends by closing, by a kill or by a power failure."""

from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from emberq.store.message_store import MessageStore
from emberq.store.results import PutStatus
from emberq.testing.faulty_disk import FaultyDisk
from tests.support.stores import (
    TOPIC,
    Clock,
    crash,
    durable,
    new_store,
    put,
    put_batch,
    read_all,
)

QUEUES = 3
# Smaller than a queue's entries of one life, larger than what the checkpoint holds.
PAGE_SIZE = 64
SEGMENT_SIZE = 4096
# Checkpoints are as frequent as the flusher can make them.
HURRIED: dict[str, Any] = {
    "flush_interval_commit_log": 2,
    "flush_interval_consume_queue": 1,
    "flush_consume_queue_thorough_interval": 1,
    "delete_commit_log_files_interval": 0,
}
# Few sizes, so that records of one life begin and end where those of another did.
BODY_SIZES = (0, 20, 20, 20, 300, 300, 700, 2_000)
PUTS_PER_LIFE_MAX = 25
DELETED_TOPIC = "Deleted"
YOUNG_BUT_FORCED = 0.88  # used share of the disk at which segments go whatever their age


class Message(NamedTuple):
    log_offset: int
    queue_id: int
    queue_offset: int
    body: bytes


class StoreLives:
    """One disk, and what was put and acknowledged on it; every life checks what it finds."""

    def __init__(self, root: Path, random: Random, **changes: Any) -> None:
        self._random = random
        self._is_cleaned = random.random() < 0.5
        self._changes = HURRIED | changes | {"mapped_file_size_commit_log": SEGMENT_SIZE}
        self._clock = Clock()
        self._disk = FaultyDisk(root, page_size=PAGE_SIZE)
        self._put_so_far: list[Message] = []
        self._acknowledged: set[Message] = set()  # before power failed last
        self._has_lost_power = False

    def live(self) -> None:
        """Open, compare with what must be there, put messages, end in some way."""
        store = new_store(self._disk.root, self._disk, self._clock, **self._changes)
        store.open()
        self._check(store)
        for _ in range(self._random.randrange(PUTS_PER_LIFE_MAX)):
            self._clock.now_ms += self._random.choice((0, 1, 2_000, 5_000))
            self._put(store, self._random.choice(BODY_SIZES))
            if self._is_cleaned and self._random.random() < 0.1:
                self._clean(store)
        self._random.choice((self._close, self._kill, self._lose_power, self._lose_power))(store)

    def _check(self, store: MessageStore) -> None:
        log_min = store.log.min_offset
        deleted = [message for message in self._put_so_far if message.log_offset < log_min]
        there = deleted + messages_in(store)
        assert there == self._put_so_far[: len(there)]
        assert self._acknowledged <= set(there)
        assert self._has_lost_power or there == self._put_so_far
        assert {bytes(record.body) for record in read_all(store, DELETED_TOPIC)} <= {b"hello"}
        for queue_id in range(QUEUES):  # also of queues of which nothing is left
            count = sum(message.queue_id == queue_id for message in there)
            assert store.max_offset(TOPIC, queue_id) == count
        self._put_so_far = there

    def _put(self, store: MessageStore, size: int) -> None:
        random = self._random
        queue_id = random.randrange(QUEUES)
        bodies = [random.randbytes(size)]
        if random.random() < 0.2:
            bodies = [bodies[0][: size // 3]] * 3
            queue_id = 0
            result = put_batch(store, bodies)
        else:
            result = put(store, bodies[0], queue_id=queue_id, keys=f"key{len(self._put_so_far)}")
        assert result.status is PutStatus.PUT_OK
        log_offsets = result.log_offsets or (result.log_offset,)
        messages = [
            Message(log_offset, queue_id, result.queue_offset + number, body)
            for number, (log_offset, body) in enumerate(zip(log_offsets, bodies, strict=True))
        ]
        self._put_so_far += messages
        if random.random() < 0.3:
            outcome = durable(store, result.end_offset)
            while not outcome:
                store.poll()
            assert outcome == [PutStatus.PUT_OK]
            for message in messages:
                self._disk.note(message)
        if random.random() < 0.1:
            self._await_checkpoint()

    def _clean(self, store: MessageStore) -> None:
        """Delete a topic, then all segments that may go."""
        for _ in range(self._random.randrange(4)):
            put(store, topic=DELETED_TOPIC)
        if self._random.random() < 0.5:
            store.delete_topics([DELETED_TOPIC])
        self._disk.used = YOUNG_BUT_FORCED
        store.delete_expired_segments()
        self._disk.used = 0.0

    def _await_checkpoint(self) -> None:
        """Until one has begun and ended: the flusher writes one after the other."""
        at = len(self._disk.history)
        seen = 0
        while seen < 2:
            written = self._disk.history[at:]
            seen = sum(step.path.name == "checkpoint" and step.size == 0 for step in written)

    def _close(self, store: MessageStore) -> None:
        store.close()
        self._has_lost_power = False

    def _kill(self, store: MessageStore) -> None:
        """The system lives on, and with it everything that was written."""
        crash(store)
        self._has_lost_power = False

    def _lose_power(self, store: MessageStore) -> None:
        """Behind any step since power failed last, also in the midst of an earlier recovery."""
        crash(store)
        disk = self._disk
        steps = self._random.randint(disk.steps_before, len(disk.history))
        notes = (step.note for step in disk.history[:steps])
        self._acknowledged |= {note for note in notes if isinstance(note, Message)}
        self._disk = disk.after_power_loss(self._random, steps)
        self._has_lost_power = True


def messages_in(store: MessageStore) -> list[Message]:
    """What consumers see, in the order of the log."""
    found: list[Message] = []
    for queue_id in range(QUEUES):
        records = read_all(store, queue_id=queue_id)
        end = store.max_offset(TOPIC, queue_id)
        offsets = [record.queue_offset for record in records]
        assert offsets == list(range(end - len(records), end))
        found += (
            Message(record.log_offset, record.queue_id, record.queue_offset, bytes(record.body))
            for record in records
        )
    return sorted(found)
