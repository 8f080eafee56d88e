"""How far consumers are behind."""

from msgspec import Struct

from emberq.client.aio.queue_work import QueueWork
from emberq.model.queue import MessageQueue


class Lag(Struct, frozen=True, kw_only=True):
    """How far a queue is behind, as far as this consumer knows."""

    queue: MessageQueue
    consumed_offset: int
    max_offset: int

    @property
    def messages(self) -> int:
        return max(self.max_offset - self.consumed_offset, 0)


def lag_of(work: QueueWork, queue: MessageQueue, committed: int) -> Lag:
    """`committed` below 0: nothing was consumed here yet, so the oldest message that waits counts,
    or where the next pull begins."""
    if committed < 0:
        first = work.messages.first
        committed = work.next_offset if first is None else first.queue_offset
    return Lag(
        queue=queue,
        consumed_offset=committed,
        max_offset=max(work.max_offset, work.next_offset),
    )
