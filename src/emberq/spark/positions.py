"""Where a query begins and ends, from what it asks for and what the queues have. Pure."""

from collections.abc import Iterable, Mapping

from emberq.client.core.scanned import QueueHead
from emberq.errors import ConfigError, OffsetOutOfRange
from emberq.model.queue import MessageQueue
from emberq.spark.offsets import EARLIEST_OFFSET, LATEST_OFFSET, Offsets
from emberq.spark.options import EARLIEST, GROUP, LATEST, Position

QueueHeads = Mapping[MessageQueue, QueueHead]

# Of what is there, an error lists so many topics at brokers.
LISTED_MAX = 20


def times_of(position: Position, queues: QueueHeads) -> dict[MessageQueue, int]:
    """The time that each queue is asked for; none for positions that are not times."""
    if position.time_ms is not None:
        return dict.fromkeys(queues, position.time_ms)
    times = position.times_ms or {}
    found = {}
    for queue in queues:
        by_queue = times.get(_name(queue))
        time_ms = times.get(queue.topic) if by_queue is None else by_queue
        if time_ms is not None:
            found[queue] = time_ms
    return found


def start_offsets(
    position: Position, heads: QueueHeads, by_time: Mapping[MessageQueue, int]
) -> Offsets:
    """Where a group stands may be outside of a queue: before messages that have expired, or behind
    its end.

    Raises ConfigError for a group without offsets, OffsetOutOfRange for offsets that a queue does
    not have yet.
    """
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


def begin_offsets(
    position: Position | None, heads: QueueHeads, by_time: Mapping[MessageQueue, int]
) -> Offsets:
    """Where queues begin that a query finds when it is under way: at their first message, unless
    the position says of each queue by itself where that is: by a time, by name, or where the
    group stands."""
    return {queue: _begin(position, queue, head, by_time) for queue, head in heads.items()}


def with_pins(start: Offsets, heads: QueueHeads, *, is_asked_for: bool) -> Offsets:
    """Where a query begins whose group has starts that a run before this one wrote down.

    They count, so that a first batch begins again where it began, also where that would not be
    found again. But a start that the options ask for is never put off: what lies before a pin that
    an earlier query left behind is read.
    """
    return {
        queue: _pinned(offset, heads[queue], is_asked_for=is_asked_for)
        for queue, offset in start.items()
    }


def unknown_names(option: str, position: Position, heads: QueueHeads) -> str | None:
    """What is wrong with the names in a position, for who wrote it; None: they are there."""
    if position.times_ms is not None:
        option += "ByTimestamp"
        there = {queue.topic for queue in heads} | {_name(queue) for queue in heads}
        unknown = ", ".join(sorted(position.times_ms.keys() - there))
    else:
        unknown = listed(queue for queue in position.offsets or {} if queue not in heads)
    return names_trouble(option, unknown, heads) if unknown else None


def crossed_ends(start: Position, end: Position) -> str | None:
    """What is wrong with offsets that are both written down, for who wrote them."""
    for queue, stop in (end.offsets or {}).items():
        first = (start.offsets or {}).get(queue, EARLIEST_OFFSET)
        if 0 <= stop < first:
            return f"endingOffsets has {stop} for {_name(queue)}, before {first} of startingOffsets"
    return None


def names_trouble(option: str, unknown: str, there: Iterable[MessageQueue]) -> str:
    return f"{option}: there is no {unknown}; there is {listed(there) or 'nothing'}"


def listed(queues: Iterable[MessageQueue]) -> str:
    """Queues as people write them: `orders broker-a/0,1`."""
    ids: dict[str, list[str]] = {}
    for queue in sorted(queues, key=lambda each: (each.topic, each.broker_name, each.queue_id)):
        ids.setdefault(f"{queue.topic} {queue.broker_name}", []).append(str(queue.queue_id))
    names = [f"{place}/{','.join(own)}" for place, own in ids.items()]
    if len(names) > LISTED_MAX:
        names[LISTED_MAX:] = [f"and {len(names) - LISTED_MAX} more"]
    return ", ".join(names)


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
        return head.committed
    assert position.word in (EARLIEST, GROUP, None)
    return head.min_offset


def _begin(
    position: Position | None,
    queue: MessageQueue,
    head: QueueHead,
    by_time: Mapping[MessageQueue, int],
) -> int:
    asked = by_time.get(queue)
    if position is not None and position.offsets is not None:
        asked = position.offsets.get(queue)
    elif position is None or position.word == GROUP:
        asked = head.committed
    # Ends are no place to begin, nor is what a group has read of a topic before it was made anew.
    # Before messages that have expired is one: whoever reads them tells that they are gone.
    if asked is None or not 0 <= asked <= head.max_offset:
        return head.min_offset
    return asked


def _pinned(offset: int, head: QueueHead, *, is_asked_for: bool) -> int:
    if head.start is None or head.start > head.max_offset:  # of a topic that was made anew
        return offset
    return min(head.start, offset) if is_asked_for else head.start


def _named(offset: int, head: QueueHead) -> int:
    names = {EARLIEST_OFFSET: head.min_offset, LATEST_OFFSET: head.max_offset}
    return names.get(offset, offset)


def _name(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name}/{queue.queue_id}"
