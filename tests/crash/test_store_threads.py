"""The loop appends, the flusher writes, threads read: nobody sees anything half done."""

import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest

from emberq.store.message_store import MessageStore
from emberq.store.reader import ReadLimits
from emberq.store.results import ReadStatus
from tests.support.stores import TOPIC, opened, put, read_all, records_of

pytestmark = pytest.mark.crash

MESSAGES = 8_000
QUEUES = 3
READERS = 2
HURRIED: dict[str, Any] = {
    "mapped_file_size_commit_log": 256 * 1024,
    "mapped_file_size_consume_queue": 700 * 20,
    "max_index_num": 100_000,
    "flush_interval_commit_log": 1,
    "flush_commit_log_least_pages": 1,
    "flush_interval_consume_queue": 1,
    "flush_consume_queue_thorough_interval": 3,
}


def body(queue_id: int, queue_offset: int) -> bytes:
    return b"%d/%d" % (queue_id, queue_offset)


class Reader(threading.Thread):
    """Reads anywhere in any queue until told to stop, and compares."""

    def __init__(self, store: MessageStore, seed: int) -> None:
        super().__init__()
        self._store = store
        self._random = Random(seed)
        self.is_done = threading.Event()
        self.read = 0
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.is_done.is_set():
                self._read_somewhere()
        except BaseException as error:
            self.problem = error
            raise

    def _read_somewhere(self) -> None:
        queue_id = self._random.randrange(QUEUES)
        queue = self._store.queues.get(TOPIC, queue_id)
        if queue is None or queue.end_offset == 0:
            return
        offset = self._random.randrange(queue.end_offset)
        result = self._store.read_waiting(TOPIC, queue_id, offset, ReadLimits(count_max=50))
        assert result.status is ReadStatus.FOUND
        for number, record in enumerate(records_of(result)):
            assert record.queue_offset == offset + number
            assert bytes(record.body) == body(queue_id, offset + number)
            self.read += 1


@pytest.mark.parametrize("hot_window", [4 * 1024, 2**30])
def test_threads_read_what_was_put_while_it_moves_to_disk(tmp_path: Path, hot_window: int) -> None:
    random = Random(3)
    with opened(tmp_path, **HURRIED) as store:
        store.reader._hot_window = hot_window
        readers = [Reader(store, seed) for seed in range(READERS)]
        for reader in readers:
            reader.start()
        counts = [0] * QUEUES
        for _ in range(MESSAGES):
            queue_id = random.randrange(QUEUES)
            put(store, body(queue_id, counts[queue_id]), queue_id=queue_id)
            counts[queue_id] += 1
        for reader in readers:
            reader.is_done.set()
            reader.join()
            assert reader.problem is None
            assert reader.read > 0
        assert [len(read_all(store, queue_id=queue_id)) for queue_id in range(QUEUES)] == counts

    with opened(tmp_path, **HURRIED) as store:
        assert [len(read_all(store, queue_id=queue_id)) for queue_id in range(QUEUES)] == counts
