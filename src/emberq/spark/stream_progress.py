"""What a stream remembers between micro-batches, and how far the next one goes. Pure: the time is
an argument."""

import logging
from collections.abc import Mapping

from emberq.client.core.scanned import QueueHead
from emberq.errors import DataLost
from emberq.model.queue import MessageQueue
from emberq.spark.offsets import Offsets
from emberq.spark.options import TriggerLimits
from emberq.spark.planning import RecordSize, limit_rows, rows_for_bytes

log = logging.getLogger(__name__)

QueueHeads = Mapping[MessageQueue, QueueHead]
_UNLIMITED = TriggerLimits()


class StreamProgress:
    def __init__(self, limits: TriggerLimits, *, fails_on_loss: bool) -> None:
        self._limits = limits
        self._fails_on_loss = fails_on_loss
        self._target: Offsets | None = None  # of a run that ends when it has all that was there
        self._waiting_since_s: float | None = None
        self._told: set[MessageQueue] = set()  # once, not at every look

    def freeze(self, heads: QueueHeads) -> None:
        """Read what is there now, then no more."""
        self._target = {queue: head.max_offset for queue, head in heads.items()}

    @property
    def is_frozen(self) -> bool:
        return self._target is not None

    def reach(self, start: Offsets, heads: QueueHeads) -> Offsets:
        """How far could be read: the ends of all queues, as they were if that is frozen. A queue
        that is gone stays where it is; one that was made anew ends before its start.

        Raises:
            DataLost: a queue is gone or shorter than it was, and that matters.
        """
        ends = {queue: head.max_offset for queue, head in heads.items()}
        if self._target is not None:
            ends = {
                queue: min(end, ends[queue]) for queue, end in self._target.items() if queue in ends
            }
        for queue, offset in start.items():
            head = heads.get(queue)
            if head is None:
                self._tell(
                    queue,
                    f"was read up to {offset}, but the queue is gone",
                    "goes on with the others",
                )
                ends[queue] = offset
            elif head.max_offset < offset:
                self._tell(
                    queue,
                    f"was read up to {offset}, but the queue ends at {head.max_offset}: its topic "
                    "was made anew, or its broker has lost its newest messages",
                    "reads it from its first message",
                )
                ends[queue] = head.max_offset
            else:
                self._told.discard(queue)
                ends[queue] = max(offset, ends.get(queue, offset))
        return ends

    def check_begins(self, start: Offsets, begins: Offsets, heads: QueueHeads) -> None:
        """Of topics that are read at a broker, queues that are new there have all their messages.

        What else is new, a topic or a broker, may have lost some before anybody asked for them.

        Raises:
            DataLost: they have not, and that matters.
        """
        places = {(queue.topic, queue.broker_name) for queue in start}
        for queue, first in begins.items():
            is_new = queue not in start and (queue.topic, queue.broker_name) in places
            if is_new and 0 < first == heads[queue].min_offset:
                self._tell(
                    queue,
                    f"is new, but messages 0 to {first} of it are gone",
                    "goes on without them",
                )

    def next_end(
        self,
        start: Offsets,
        reach: Offsets,
        begins: Offsets,
        now_s: float,
        record_size: RecordSize,
        *,
        is_all: bool = False,
    ) -> Offsets:
        """The end of the next micro-batch: the start again if it should wait for more.

        Queues that begin, or begin anew, end where they begin, and are read by the batch behind:
        so Spark stores what a batch that is planned again must find again.
        """
        known = {queue: end for queue, end in reach.items() if queue not in begins}
        return {**self._known_end(start, known, now_s, record_size, is_all), **begins}

    def _known_end(
        self, start: Offsets, reach: Offsets, now_s: float, record_size: RecordSize, is_all: bool
    ) -> Offsets:
        limits = _UNLIMITED if is_all else self._limits
        count = sum(end - start[queue] for queue, end in reach.items())
        if count == 0:
            self._waiting_since_s = None
            return reach
        if limits.rows_min is not None and not self.is_frozen and count < limits.rows_min:
            if self._waiting_since_s is None:
                self._waiting_since_s = now_s
            if now_s - self._waiting_since_s < limits.delay_max_s:
                return {queue: start[queue] for queue in reach}
        self._waiting_since_s = None
        rows_max = count
        if limits.rows_max is not None:
            rows_max = min(rows_max, limits.rows_max)
        if limits.bytes_max is not None:
            rows_max = min(rows_max, rows_for_bytes(start, reach, limits.bytes_max, record_size))
        return limit_rows(start, reach, rows_max)

    def _tell(self, queue: MessageQueue, what: str, onward: str) -> None:
        text = f"{queue.topic} {queue.broker_name}/{queue.queue_id} {what}"
        if self._fails_on_loss:
            raise DataLost(f"{text}; failOnDataLoss=false {onward}")
        if queue not in self._told:
            self._told.add(queue)
            log.warning("messages_gone %s; the query %s", text, onward)
