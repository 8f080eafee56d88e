"""Whether a record of the log is the next one of its queue, and what it is when it is not.

Checksums cover bodies only. A record whose offset in its queue does not fit is damaged, unless the
log explains it: records before it are lost, or its topic was deleted and made again.
"""

from emberq.kernel.scan import ScannedRecord
from emberq.store.consume_queue import ConsumeQueue
from emberq.store.log_scan import RECORD_SIZE_MIN, Damage


class QueueLacksRecords(Exception):
    """Entries are missing that only a walk over the whole log can restore."""

    def __init__(self, queue: ConsumeQueue) -> None:
        super().__init__(f"{queue.topic} {queue.queue_id}")
        self.queue = queue


class QueueOrder:
    """Judges records that are new to their queue, in the order of the log.

    `damages` is the list that the walk itself adds to. `is_from_start`: the walk began where the
    log does, which is at offset 0 if `is_complete`.
    """

    def __init__(self, damages: list[Damage], *, is_from_start: bool, is_complete: bool) -> None:
        self._damages = damages
        self._is_from_start = is_from_start
        self._is_complete = is_complete
        # First records of queues that seem to begin anew; their next record will tell.
        self._anew: dict[ConsumeQueue, ScannedRecord] = {}
        # Queues of which only one record was seen, with an offset that nothing confirms.
        self._begun: set[ConsumeQueue] = set()

    def is_of_deleted_topic(self, record: ScannedRecord) -> bool:
        """Whether a record's topic is gone, if no queue of it is there: it had earlier records."""
        return record.queue_offset > 0 and not self._is_from_start

    def is_watched(self, queue: ConsumeQueue) -> bool:
        """Whether the queue's next record must be judged even if its offset fits."""
        return queue in self._anew or queue in self._begun

    def accepted(self, record: ScannedRecord, queue: ConsumeQueue) -> list[ScannedRecord]:
        """The records to append now; the queue is emptied if they begin it anew."""
        first = self._anew.pop(queue, None)
        if first is not None:
            if record.queue_offset == first.queue_offset + 1:
                queue.destroy()
                return [first, record]
            self._note_misplaced(first)
        if queue in self._begun:
            self._begun.discard(queue)
            if record.queue_offset < queue.end_offset:
                queue.destroy()  # the record before was the damaged one
        gap = record.queue_offset - queue.end_offset
        if gap == 0 or (gap > 0 and self._is_explained(gap, queue)):
            return [record]
        if record.queue_offset == 0:
            self._anew[queue] = record
        else:
            self._note_misplaced(record)
        return []

    def rest(self) -> list[tuple[ConsumeQueue, ScannedRecord]]:
        """At the end of the log: first records of queues that began anew and have no second."""
        rest, self._anew = list(self._anew.items()), {}
        for queue, _ in rest:
            queue.destroy()
        return rest

    def _is_explained(self, gap: int, queue: ConsumeQueue) -> bool:
        """Whether so many records can have been lost in front of this one."""
        if gap * RECORD_SIZE_MIN <= sum(damage.size for damage in self._damages):
            return True
        if not self._is_from_start:
            raise QueueLacksRecords(queue)
        if queue.end_offset == 0 and not self._is_complete:
            self._begun.add(queue)
            return True
        return False

    def note_damage(self, record: ScannedRecord, detail: str) -> None:
        self._damages.append(Damage(record.log_offset, record.size, detail))

    def _note_misplaced(self, record: ScannedRecord) -> None:
        self.note_damage(record, f"offset {record.queue_offset} is not the next of its queue")
