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


class Indexer(Protocol):
    """Where keys go."""

    def add(self, records: list[Dispatched]) -> None: ...


QueueListener = Callable[[ConsumeQueue, int], None]


class Dispatcher:
    """Applies records in log order, once each; tells listeners which queues grew."""

    def __init__(self, index: Indexer | None) -> None:
        self._index = index
        self._queue_listeners: list[QueueListener] = []
        self.dirty_queues: set[ConsumeQueue] = set()
        self.dispatched_offset = 0  # log offset behind the last dispatched record
        self.last_stored_at_ms = 0

    def on_queue_grown(self, listener: QueueListener) -> None:
        """Call `listener(queue, end_offset)` once per batch for each queue that grew."""
        self._queue_listeners.append(listener)

    def apply(self, records: list[Dispatched]) -> None:
        if not records:
            return
        grown: set[ConsumeQueue] = set()
        for record in records:
            queue = record.queue
            if queue is not None and queue.append(
                record.queue_offset, record.log_offset, record.size, record.tag_code
            ):
                grown.add(queue)
        if self._index is not None:
            self._index.add(records)
        last = records[-1]
        self.dispatched_offset = last.log_offset + last.size
        self.last_stored_at_ms = last.stored_at_ms
        self.dirty_queues.update(grown)
        for listener in self._queue_listeners:
            for queue in grown:
                listener(queue, queue.end_offset)
