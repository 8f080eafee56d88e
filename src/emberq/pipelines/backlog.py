"""How much there is to read, and from where: what plans show and progress is measured by."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from emberq.model.queue import MessageQueue
from emberq.pipelines.checked_options import check_stream
from emberq.pipelines.checkpoints import done_offsets
from emberq.pipelines.connected import is_connected
from emberq.pipelines.job import ReportTable
from emberq.spark.offsets import Offsets
from emberq.spark.options import EARLIEST, GROUP, LATEST, Position, parse_source
from emberq.spark.places import Place, place_of
from emberq.spark.planning import QueueSlice
from emberq.spark.positions import end_offsets, times_of
from emberq.spark.record_sizes import RecordSizes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# The view `offsets` has whole queues.
_OF_PARTS = frozenset(
    {"tags", "sqlfilter"}
    | {
        f"{end}{kind}"
        for end in ("starting", "ending")
        for kind in ("offsets", "timestamp", "offsetsbytimestamp", "offsetsbytimestampstrategy")
    }
)


class QueueBacklog(Struct, frozen=True):
    topic: str
    broker_name: str
    queue_id: int
    first: int
    end: int
    size_bytes: int | None = None  # about; None where nobody asked

    @property
    def rows(self) -> int:
        return self.end - self.first


class Backlog(Struct, frozen=True):
    """What a query would read now."""

    by_queue: list[QueueBacklog]
    is_resumed: bool  # it goes on where a checkpoint says
    start: Position | None = None
    end: Position = Position(word=LATEST)

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.by_queue)

    @property
    def queues(self) -> int:
        return len(self.by_queue)

    def facts(self) -> dict[str, Any]:
        begin = "where the checkpoint says" if self.is_resumed else _begin(self.start)
        facts: dict[str, Any] = {"begins with": begin}
        if self.end.word != LATEST:
            facts["ends with"] = _end(self.end)
        facts |= {"messages": self.rows, "queues": self.queues}
        if self.is_sized:
            facts["bytes, about"] = sum(each.size_bytes or 0 for each in self.by_queue)
        return facts

    @property
    def is_sized(self) -> bool:
        return any(each.size_bytes is not None for each in self.by_queue)

    def table(self) -> ReportTable:
        rows = [
            [each.topic, each.broker_name, each.queue_id, each.first, each.end, each.rows]
            for each in self.by_queue
        ]
        columns = ["topic", "broker", "queue", "from", "to", "messages"]
        if self.is_sized:
            columns.append("bytes, about")
            rows = [[*row, each.size_bytes] for row, each in zip(rows, self.by_queue, strict=True)]
        return ReportTable(title="Queues", columns=columns, rows=rows)


def backlog_of(
    session: "SparkSession",
    source: Mapping[str, str],
    checkpoint: str | None,
    *,
    is_sized: bool = False,
) -> Backlog:
    """What a query with these options would read now.

    It ends where they say; it goes on where its checkpoint says, or begins where they say, by
    default with the first messages. Where it is asked for, with about how many bytes there are.

    Raises:
        ConfigError: the options are wrong, or with a checkpoint none that a stream can have.
    """
    if checkpoint is not None:
        check_stream(source)
    done = done_offsets(checkpoint, session) if checkpoint else None
    options = parse_source(source)
    if is_connected(session):
        # Brokers can be out of reach of a client of Spark Connect. What the options say of times
        # and groups is not looked up there: all messages count.
        queues = _queues(_ends_by_spark(session, source), done)
        return Backlog(queues, done is not None, options.start, options.end)
    # Asked for here: Spark would start two processes for it.
    place = place_of(options)
    heads = place.heads(place.queues(), options.group)
    ends = end_offsets(options.end, heads, place.offsets_by_time(times_of(options.end, heads)))
    starts: Mapping[MessageQueue, int] = {queue: head.min_offset for queue, head in heads.items()}
    if done is None and options.start is not None:
        from emberq.spark.batch_reader import resolve_start  # noqa: PLC0415 - an extra

        starts = resolve_start(place, options.start, heads, options)
    spans = {queue: (start, max(ends[queue], start)) for queue, start in starts.items()}
    queues = _queues(spans, done)
    if is_sized:
        queues = list(_sized(queues, place))
    return Backlog(queues, done is not None, options.start, options.end)


def _begin(start: Position | None) -> str:
    if start is None or start.word == EARLIEST:
        return "the first messages"
    if start.word == LATEST:
        return "what comes from now on"
    if start.word == GROUP:
        return "where the group stands"
    return f"the first messages since {_moment(start)}"


def _end(end: Position) -> str:
    return f"the last messages before {_moment(end)}"


def _moment(position: Position) -> str:
    if position.time_ms is not None:
        return f"{datetime.fromtimestamp(position.time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    named = "times" if position.offsets is None else "offsets"
    return f"the {named} of the options"


def _sized(queues: list[QueueBacklog], place: Place) -> Iterator[QueueBacklog]:
    """By the first messages of each range, and of many queues by others of their topic."""
    sizes = RecordSizes(place)
    for each in queues:
        queue = MessageQueue(each.broker_name, each.queue_id, each.topic)
        own = sizes(QueueSlice(queue, each.first, each.end)) * each.rows if each.rows else 0
        yield replace(each, size_bytes=round(own))


def _ends_by_spark(
    session: "SparkSession", source: Mapping[str, str]
) -> dict[MessageQueue, tuple[int, int]]:
    asked = {name: text for name, text in source.items() if name.lower() not in _OF_PARTS}
    frame = session.read.format("rocketmq").options(**{**asked, "view": "offsets"}).load()
    return {
        MessageQueue(row["brokerName"], row["queueId"], row["topic"]): (
            row["minOffset"],
            row["maxOffset"],
        )
        for row in frame.collect()
    }


def _queues(
    spans: Mapping[MessageQueue, tuple[int, int]], done: Offsets | None
) -> list[QueueBacklog]:
    """What is left of each queue. One that the checkpoint does not know is read from its start."""
    left = [
        QueueBacklog(
            queue.topic,
            queue.broker_name,
            queue.queue_id,
            min(max((done or {}).get(queue, first), first), end),
            end,
        )
        for queue, (first, end) in spans.items()
    ]
    return sorted(left, key=lambda each: (each.topic, each.broker_name, each.queue_id))
