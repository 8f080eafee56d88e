"""From the log to queues and index: what each record needs, done for many records at once."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from emberq.store.consume_queue import ConsumeQueue


class Dispatched(Struct, frozen=True, gc=False):
    """One record of the log, as queues and index see it."""

    queue: ConsumeQueue | None  # None: prepared and rolled-back halves are in no queue
    queue_offset: int
    log_offset: int
    size: int
    tag_code: int
    stored_at_ms: int
    topic: str
    unique_key: str | None
    keys: str | None
    is_indexed: bool
    tags: str | None = None


class DispatchedBatch(Struct, frozen=True, gc=False):
    """Records of one queue that lie back to back, made ready when they were put."""

    queue: ConsumeQueue
    queue_offset: int
    log_end: int
    entries: bytes  # of the queue
    hashes: list[int]  # of keys, in the order of the index
    owners: list[int]  # log offset of the record of each hash
    stored_at_ms: int


class Indexer(Protocol):
    """Where keys go."""

    def add(self, records: list[Dispatched]) -> None: ...

    def add_hashed(
        self,
        hashes: list[int],
        log_offsets: list[int],
        times_ms: list[int],
        end_log_offset: int,
    ) -> None: ...


QueueListener = Callable[[ConsumeQueue, int], None]


class Dispatcher:
    """Applies records in log order, once each; tells listeners which queues grew."""

    def __init__(self, index: Indexer | None) -> None:
        self._index = index
        self._queue_listeners: list[QueueListener] = []
        self._end_listeners: list[Callable[[], None]] = []
        # Queues with entries that their files lack. Only grows here, and only by whole calls into
        # C: the flusher's thread takes out of it at the same time.
        self.dirty_queues: set[ConsumeQueue] = set()
        self._grown: set[ConsumeQueue] = set()
        # Log offset behind the last dispatched record and its store time: one pair, so that no
        # thread sees one without the other.
        self.reached = (0, 0)

    @property
    def dispatched_offset(self) -> int:
        return self.reached[0]

    @property
    def last_stored_at_ms(self) -> int:
        return self.reached[1]

    def on_queue_grown(self, listener: QueueListener) -> None:
        """Call `listener(queue, end_offset)` once per batch for each queue that grew."""
        self._queue_listeners.append(listener)

    def on_queues_told(self, listener: Callable[[], None]) -> None:
        """Call `listener()` after each such batch, when all of its queues are told."""
        self._end_listeners.append(listener)

    def apply(self, records: list[Dispatched]) -> None:
        """Take records and tell listeners."""
        self.take(records)
        self.tell()

    def take(self, records: list[Dispatched]) -> None:
        if not records:
            return
        grown = self._grown
        for record in records:
            queue = record.queue
            if queue is not None and queue.append(
                record.queue_offset, record.log_offset, record.size, record.tag_code
            ):
                grown.add(queue)
        if self._index is not None:
            self._index.add(records)
        # The flusher reads how far dispatch came before it looks for queues to write.
        self.dirty_queues.update(grown)
        last = records[-1]
        self.reached = (last.log_offset + last.size, last.stored_at_ms)

    def take_batch(self, batch: DispatchedBatch) -> None:
        batch.queue.append_put(batch.queue_offset, batch.entries, batch.log_end)
        self._grown.add(batch.queue)
        if self._index is not None:
            times_ms = [batch.stored_at_ms] * len(batch.hashes)
            self._index.add_hashed(batch.hashes, batch.owners, times_ms, batch.log_end)
        self.dirty_queues.add(batch.queue)
        self.reached = (batch.log_end, batch.stored_at_ms)

    def tell(self) -> None:
        """Tell listeners which queues grew since the last call."""
        if self._grown:
            grown, self._grown = self._grown, set()
            for listener in self._queue_listeners:
                for queue in grown:
                    listener(queue, queue.end_offset)
            for end_listener in self._end_listeners:
                end_listener()
