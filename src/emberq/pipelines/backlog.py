"""How much there is to read, and from where: what plans show and progress is measured by."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from emberq.pipelines.job import ReportTable
from emberq.pipelines.streaming import done_offsets

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
    rows = session.read.format("rocketmq").options(**{**kept, "view": "offsets"}).load().collect()
    queues = [_queue(row, done or {}) for row in rows]
    queues.sort(key=lambda each: (each.topic, each.broker_name, each.queue_id))
    return Backlog(queues, done is not None)


def _queue(row: Any, done: Mapping[str, Any]) -> QueueBacklog:
    next_offset = done.get(row["topic"], {}).get(row["brokerName"], {}).get(str(row["queueId"]), 0)
    return QueueBacklog(
        row["topic"],
        row["brokerName"],
        row["queueId"],
        min(max(next_offset, row["minOffset"]), row["maxOffset"]),
        row["maxOffset"],
    )
