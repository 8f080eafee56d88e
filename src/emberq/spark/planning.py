"""From offsets to tasks, and how much one micro-batch takes. Pure: no Spark, no clock, no I/O."""

from collections.abc import Callable, Mapping
from itertools import pairwise

from msgspec import Struct

from emberq.errors import OffsetOutOfRange
from emberq.model.queue import MessageQueue
from emberq.spark.offsets import Offsets
from emberq.spark.options import PartitionLimits

# Small ranges are read by one task as long as they have no more than this together: a task costs
# about ten milliseconds whatever it reads, so many rows a hundred.
MERGE_ROWS_MAX = 50_000
MERGE_BYTES_MAX = 16 * 1024 * 1024
# However small ranges are cut: a task costs milliseconds.
PARTITIONS_MAX = 100_000


class QueueSlice(Struct, frozen=True, gc=False):
    """Messages of one queue: from `first` on, up to but without `stop`."""

    queue: MessageQueue
    first: int
    stop: int

    @property
    def count(self) -> int:
        return self.stop - self.first


Partition = tuple[QueueSlice, ...]
# About how many bytes a message of a range has.
RecordSize = Callable[[QueueSlice], float]


def new_slices(start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]) -> Partition:
    """What lies between two offsets. A queue that is new begins at 0, or where it is told to.

    Raises:
        OffsetOutOfRange: the start of a queue lies behind its end.
    """
    slices = []
    for queue in sorted(end, key=_order):
        first, stop = start.get(queue, 0), end[queue]
        if first > stop:
            name = f"{queue.topic} {queue.broker_name}/{queue.queue_id}"
            raise OffsetOutOfRange(name, first, 0, stop)
        if first < stop:
            slices.append(QueueSlice(queue, first, stop))
    return tuple(slices)


def plan_partitions(
    slices: Partition, limits: PartitionLimits, record_size: RecordSize
) -> list[Partition]:
    """Cut ranges that are too long, then all of them until there are enough; put together small
    ones of one broker unless a number of partitions is asked for."""
    whole: list[QueueSlice] = []
    pieces: list[QueueSlice] = []
    for each in slices:
        rows_max = min(limits.rows_max or each.count, _rows_in(limits, each, record_size))
        parts = _cut(each, -(-each.count // max(1, rows_max)))
        (whole if len(parts) == 1 else pieces).extend(parts)
    wanted = min(limits.count_min or 0, PARTITIONS_MAX)
    if wanted > len(whole) + len(pieces):
        return [(piece,) for piece in _cut_to([*whole, *pieces], wanted)]
    if limits.count_min is not None:
        return [(piece,) for piece in (*whole, *pieces)]
    merged = _merged(whole, limits, record_size)
    return [*merged, *((piece,) for piece in pieces)]


def limit_rows(start: Mapping[MessageQueue, int], head: Offsets, rows_max: int) -> Offsets:
    """The end of a micro-batch: at most `rows_max` rows, shared out by how much each queue has.

    Every queue that has something gets a row; where there are fewer rows than such queues, queues
    take turns, so that none waits for ever.
    """
    backlog = {queue: max(0, stop - start.get(queue, 0)) for queue, stop in head.items()}
    total = sum(backlog.values())
    if total <= rows_max:
        return dict(head)
    waiting = [queue for queue in sorted(backlog, key=_order) if backlog[queue]]
    served = [queue for queue in _in_turn(start, head) if backlog[queue]][:rows_max]
    shares = dict.fromkeys(waiting, 0) | dict.fromkeys(served, 1)
    more_wanted, more = total - len(waiting), max(0, rows_max - len(waiting))
    for queue in waiting:
        shares[queue] += (backlog[queue] - 1) * more // max(1, more_wanted)
    left = rows_max - sum(shares.values())
    for queue in waiting:  # what rounding left over
        rest = min(left, backlog[queue] - shares[queue])
        shares[queue] += rest
        left -= rest
    return {queue: start.get(queue, 0) + shares.get(queue, 0) for queue in head}


def _in_turn(start: Mapping[MessageQueue, int], head: Offsets) -> list[MessageQueue]:
    """Queues in their order, beginning with the one whose turn it is by what was read of all.

    With each row that is read the beginning moves on by one queue, and a batch of so many rows has
    read of at least so many queues from there on: so the next one begins where nobody was passed
    over. Nothing is remembered: the same batch that is planned again has the same rows.
    """
    queues = sorted(head, key=_order)
    turn = sum(start.get(queue, 0) for queue in queues) % max(1, len(queues))
    return [*queues[turn:], *queues[:turn]]


def rows_for_bytes(
    start: Mapping[MessageQueue, int], head: Offsets, bytes_max: int, record_size: RecordSize
) -> int:
    """About how many rows have so many bytes, going by the backlog of each queue; at least 1."""
    slices = [QueueSlice(queue, start.get(queue, 0), stop) for queue, stop in head.items()]
    backlog = [each for each in slices if each.count > 0]
    total = sum(each.count for each in backlog)
    size = sum(each.count * record_size(each) for each in backlog)
    return total if size <= bytes_max else max(1, int(total * bytes_max / size))


def _rows_in(limits: PartitionLimits, each: QueueSlice, record_size: RecordSize) -> int:
    return int(limits.bytes_max / max(1.0, record_size(each)))


def _cut(each: QueueSlice, parts: int) -> list[QueueSlice]:
    """Into parts of nearly the same size."""
    parts = max(1, min(parts, each.count, PARTITIONS_MAX))
    edges = [each.first + each.count * number // parts for number in range(parts + 1)]
    return [QueueSlice(each.queue, low, high) for low, high in pairwise(edges)]


def _cut_to(pieces: list[QueueSlice], wanted: int) -> list[QueueSlice]:
    total = sum(piece.count for piece in pieces)
    return [
        part for piece in pieces for part in _cut(piece, -(-piece.count * wanted // max(1, total)))
    ]


def _merged(
    pieces: list[QueueSlice], limits: PartitionLimits, record_size: RecordSize
) -> list[Partition]:
    """Ranges of one broker together, as long as they stay small."""
    rows_max = min(MERGE_ROWS_MAX, limits.rows_max or MERGE_ROWS_MAX)
    bytes_max = min(MERGE_BYTES_MAX, limits.bytes_max)
    by_broker: dict[str, list[QueueSlice]] = {}
    for piece in pieces:
        by_broker.setdefault(piece.queue.broker_name, []).append(piece)
    partitions: list[Partition] = []
    for own in by_broker.values():
        first, rows, size = 0, 0, 0.0
        for number, piece in enumerate(own):
            more = piece.count * record_size(piece)
            if rows and (rows + piece.count > rows_max or size + more > bytes_max):
                partitions.append(tuple(own[first:number]))
                first, rows, size = number, 0, 0.0
            rows += piece.count
            size += more
        partitions.append(tuple(own[first:]))
    return partitions


def _order(queue: MessageQueue) -> tuple[str, str, int]:
    return queue.topic, queue.broker_name, queue.queue_id
