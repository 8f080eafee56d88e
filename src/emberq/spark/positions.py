"""Where a query begins and ends, from what it asks for and what the queues have. Pure."""

from collections.abc import Mapping

from emberq.client.core.scanned import QueueHead
from emberq.errors import ConfigError, OffsetOutOfRange
from emberq.model.queue import MessageQueue
from emberq.spark.offsets import EARLIEST_OFFSET, LATEST_OFFSET, Offsets
from emberq.spark.options import EARLIEST, GROUP, LATEST, Position

QueueHeads = Mapping[MessageQueue, QueueHead]


def times_of(position: Position, queues: QueueHeads) -> dict[MessageQueue, int]:
    """The time that each queue is asked for; none for positions that are not times."""
    if position.time_ms is not None:
        return dict.fromkeys(queues, position.time_ms)
    times = position.times_ms or {}
    found = {}
    for queue in queues:
        by_queue = times.get(f"{queue.topic} {queue.broker_name}/{queue.queue_id}")
        time_ms = times.get(queue.topic) if by_queue is None else by_queue
        if time_ms is not None:
            found[queue] = time_ms
    return found


def start_offsets(
    position: Position, heads: QueueHeads, by_time: Mapping[MessageQueue, int]
) -> Offsets:
    """Raises ConfigError for a group without offsets, OffsetOutOfRange for offsets that a queue
    does not have."""
    if position.word == GROUP and all(head.committed is None for head in heads.values()):
        raise ConfigError(
            "startingOffsets=group: the group has no offsets here; give earliest or latest once"
        )
    return {queue: _start(position, queue, head, by_time) for queue, head in heads.items()}


def end_offsets(
    position: Position, heads: QueueHeads, by_time: Mapping[MessageQueue, int]
) -> Offsets:
    """Raises OffsetOutOfRange for an end that is not there yet."""
    ends = {}
    for queue, head in heads.items():
        if queue in by_time:
            ends[queue] = min(by_time[queue], head.max_offset)
            continue
        offset = (position.offsets or {}).get(queue, LATEST_OFFSET)
        if offset > head.max_offset:
            raise OffsetOutOfRange(_name(queue), offset, head.min_offset, head.max_offset)
        ends[queue] = head.max_offset if offset == LATEST_OFFSET else _named(offset, head)
    return ends


def _start(
    position: Position, queue: MessageQueue, head: QueueHead, by_time: Mapping[MessageQueue, int]
) -> int:
    if queue in by_time:
        return max(by_time[queue], head.min_offset)
    if position.offsets is not None:
        offset = position.offsets.get(queue, EARLIEST_OFFSET)
        if offset > head.max_offset:
            raise OffsetOutOfRange(_name(queue), offset, head.min_offset, head.max_offset)
        return _named(offset, head)
    if position.word == LATEST:
        return head.max_offset
    if position.word == GROUP and head.committed is not None:
        return min(max(head.committed, head.min_offset), head.max_offset)
    assert position.word in (EARLIEST, GROUP, None)
    return head.min_offset


def _named(offset: int, head: QueueHead) -> int:
    names = {EARLIEST_OFFSET: head.min_offset, LATEST_OFFSET: head.max_offset}
    return names.get(offset, offset)


def _name(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name}/{queue.queue_id}"
