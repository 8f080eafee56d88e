"""How much there is to read, and from where: what plans show and progress is measured by."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from emberq.model.queue import MessageQueue
from emberq.pipelines.connected import is_connected
from emberq.pipelines.job import ReportTable
from emberq.pipelines.streaming import done_offsets
from emberq.spark.options import parse_source
from emberq.spark.places import place_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class QueueBacklog(Struct, frozen=True):
    topic: str
    broker_name: str
    queue_id: int
    first: int
    end: int

    @property
    def rows(self) -> int:
        return self.end - self.first


class Backlog(Struct, frozen=True):
    """What a query would read now; a resumed one goes on where its checkpoint says."""

    by_queue: list[QueueBacklog]
    is_resumed: bool

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.by_queue)

    @property
    def queues(self) -> int:
        return len(self.by_queue)

    def facts(self) -> dict[str, Any]:
        begin = "where the checkpoint says" if self.is_resumed else "the first messages"
        return {"begins with": begin, "messages": self.rows, "queues": self.queues}

    def table(self) -> ReportTable:
        return ReportTable(
            title="Queues",
            columns=["topic", "broker", "queue", "from", "to", "messages"],
            rows=[
                [each.topic, each.broker_name, each.queue_id, each.first, each.end, each.rows]
                for each in self.by_queue
            ],
        )


def backlog_of(
    session: "SparkSession", source: Mapping[str, str], checkpoint: str | None
) -> Backlog:
    done = done_offsets(checkpoint) if checkpoint else None
    kept = {name: text for name, text in source.items() if not name.startswith(("starting", "end"))}
    ends = _ends_by_spark(session, kept) if is_connected(session) else _ends(kept)
    queues = [_queue(queue, low, high, done or {}) for queue, (low, high) in ends.items()]
    queues.sort(key=lambda each: (each.topic, each.broker_name, each.queue_id))
    return Backlog(queues, done is not None)


def _ends(source: Mapping[str, str]) -> dict[MessageQueue, tuple[int, int]]:
    """Asked for here: Spark would start two processes for it."""
    place = place_of(parse_source(source))
    heads = place.heads(place.queues())
    return {queue: (head.min_offset, head.max_offset) for queue, head in heads.items()}


def _ends_by_spark(
    session: "SparkSession", source: Mapping[str, str]
) -> dict[MessageQueue, tuple[int, int]]:
    """Brokers can be out of reach of a client of Spark Connect."""
    frame = session.read.format("rocketmq").options(**{**source, "view": "offsets"}).load()
    return {
        MessageQueue(row["brokerName"], row["queueId"], row["topic"]): (
            row["minOffset"],
            row["maxOffset"],
        )
        for row in frame.collect()
    }


def _queue(queue: MessageQueue, low: int, high: int, done: Mapping[str, Any]) -> QueueBacklog:
    by_broker = done.get(queue.topic, {}).get(queue.broker_name, {})
    next_offset = by_broker.get(str(queue.queue_id), 0)
    first = min(max(next_offset, low), high)
    return QueueBacklog(queue.topic, queue.broker_name, queue.queue_id, first, high)
