"""What a stream remembers between micro-batches, and how far the next one goes. Pure: the time is
an argument."""

from collections.abc import Mapping

from emberq.client.core.scanned import QueueHead
from emberq.errors import DataLost
from emberq.model.queue import MessageQueue
from emberq.spark.offsets import Offsets
from emberq.spark.options import TriggerLimits
from emberq.spark.planning import RecordSize, limit_rows, rows_for_bytes


class StreamProgress:
    def __init__(self, limits: TriggerLimits, *, fails_on_loss: bool) -> None:
        self._limits = limits
        self._fails_on_loss = fails_on_loss
        self._target: Offsets | None = None  # of a run that ends when it has all that was there
        self._waiting_since_s: float | None = None

    def freeze(self, heads: Mapping[MessageQueue, QueueHead]) -> None:
        """Read what is there now, then no more."""
        self._target = {queue: head.max_offset for queue, head in heads.items()}

    @property
    def is_frozen(self) -> bool:
        return self._target is not None

    def reach(self, start: Offsets, heads: Mapping[MessageQueue, QueueHead]) -> Offsets:
        """How far could be read: the ends of all queues, as they were if that is frozen.

        Raises:
            DataLost: a queue is gone or shorter than it was, and that matters.
        """
        ends = {queue: head.max_offset for queue, head in heads.items()}
        if self._target is not None:
            ends = {queue: min(end, ends.get(queue, end)) for queue, end in self._target.items()}
        for queue, offset in start.items():
            end = ends.get(queue)
            if end is None:
                self._tell(queue, offset, "the queue is gone")
                ends[queue] = offset
            elif end < offset and (self._target is None or queue not in heads):
                self._tell(queue, offset, f"the queue ends at {end}")
            elif end < offset:
                ends[queue] = offset
        return ends

    def next_end(
        self, start: Offsets, reach: Offsets, now_s: float, record_size: RecordSize
    ) -> Offsets:
        """The end of the next micro-batch: the start again if it should wait for more."""
        limits = self._limits
        count = sum(max(0, end - start.get(queue, 0)) for queue, end in reach.items())
        if count == 0:
            self._waiting_since_s = None
            return reach
        if limits.rows_min is not None and not self.is_frozen and count < limits.rows_min:
            if self._waiting_since_s is None:
                self._waiting_since_s = now_s
            if now_s - self._waiting_since_s < limits.delay_max_s:
                return dict(start)
        self._waiting_since_s = None
        rows_max = count
        if limits.rows_max is not None:
            rows_max = min(rows_max, limits.rows_max)
        if limits.bytes_max is not None:
            rows_max = min(rows_max, rows_for_bytes(start, reach, limits.bytes_max, record_size))
        return limit_rows(start, reach, rows_max)

    def _tell(self, queue: MessageQueue, offset: int, reason: str) -> None:
        if self._fails_on_loss:
            raise DataLost(
                f"{queue.topic} {queue.broker_name}/{queue.queue_id} was read up to {offset}, but "
                f"{reason}; failOnDataLoss=false goes on with what is there"
            )
