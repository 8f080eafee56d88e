"""Whether an archive has what the topics have."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from emberq.pipelines.archived import read_archive
from emberq.pipelines.backlog import QueueBacklog, backlog_of
from emberq.pipelines.job import Job, Report, ReportTable, Say
from emberq.pipelines.session import job_session
from emberq.pipelines.streaming import done_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_QUEUE = ("topic", "brokerName", "queueId")
_EXAMPLES_MAX = 20


class Verify(Job, kw_only=True):
    """Compare an archive with its topics: counts, gaps, messages twice, and bodies if asked to.

    Messages that the topics no longer have are not missed, and messages behind the archive's
    position are not expected yet.
    """

    name: ClassVar[str] = "verify"

    topics: Annotated[str, Meta(description="topics, separated by commas")]
    path: Annotated[str, Meta(description="the table that `archive` wrote")]
    format: Annotated[str, Meta(description="parquet, delta or iceberg")] = "parquet"
    checkpoint: Annotated[str, Meta(description="the archive's; empty: in the table's folder")] = ""
    bodies: Annotated[bool, Meta(description="compare the bodies of all messages as well")] = False
    catalog: Annotated[dict[str, str], Meta(description="Iceberg's catalog, KEY=VALUE")] = (
        msgspec.field(default_factory=dict)
    )

    def run(self, spark: "SparkSession | None" = None, say: Say = lambda _: None) -> Report:
        with job_session(self.spark, spark) as session:
            say("counting the archive")
            archive = read_archive(session, self.format, self.path, self.catalog)
            counted = {_key(row): row for row in _counts(archive).collect()}
            say("asking the brokers")
            source = self.source_options(subscribe=self.topics)
            queues = backlog_of(session, source, None).by_queue
            checkpoint = self.checkpoint or f"{self.path.rstrip('/')}/_checkpoint"
            done = done_offsets(checkpoint) or {}
            rows = [_compared(queue, counted, done) for queue in queues]
            differing = 0
            examples: list[Any] = []
            if self.bodies:
                say("comparing bodies")
                different = self._different(session, archive, queues, done)
                differing = different.count()
                examples = different.limit(_EXAMPLES_MAX).collect()
        return _report(rows, differing, examples, has_bodies=self.bodies)

    def plan(self, spark: "SparkSession | None" = None) -> Report:
        with job_session(self.spark, spark) as session:
            backlog = backlog_of(session, self.source_options(subscribe=self.topics), None)
        return Report(facts={"table": self.path, **backlog.facts()}, tables=[backlog.table()])

    def _different(
        self,
        session: "SparkSession",
        archive: "DataFrame",
        queues: list[QueueBacklog],
        done: dict[str, Any],
    ) -> "DataFrame":
        """Messages whose body in the archive is not the one in the topic, or is not there."""
        from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

        ends: dict[str, Any] = {}
        for queue in queues:
            brokers = ends.setdefault(queue.topic, {})
            numbers = brokers.setdefault(queue.broker_name, {})
            numbers[str(queue.queue_id)] = max(_end(queue, done), queue.first)
        messages = (
            session.read.format("rocketmq")
            .options(
                **self.source_options(
                    subscribe=self.topics,
                    columns=",".join((*_QUEUE, "queueOffset", "body")),
                    endingOffsets=msgspec.json.encode(ends).decode(),
                )
            )
            .load()
        )
        keys = [*_QUEUE, "queueOffset"]
        kept = archive.select(
            *(f.col(name) for name in keys), f.crc32("body").alias("archivedCrc")
        ).dropDuplicates(keys)
        return (
            messages.select(*keys, f.crc32("body").alias("crc"))
            .join(kept, keys, "left")
            .filter(~f.col("crc").eqNullSafe(f.col("archivedCrc")))
        )


def _counts(archive: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f  # noqa: PLC0415

    return archive.groupBy(*_QUEUE).agg(
        f.count(f.lit(1)).alias("rows"),
        f.countDistinct("queueOffset").alias("distinct"),
        f.min("queueOffset").alias("first"),
        f.max("queueOffset").alias("last"),
    )


def _key(row: Any) -> tuple[str, str, int]:
    return row["topic"], row["brokerName"], row["queueId"]


def _end(queue: QueueBacklog, done: dict[str, Any]) -> int:
    """How far the archive claims to be; without a checkpoint, to the end."""
    if not done:
        return queue.end
    claimed = done.get(queue.topic, {}).get(queue.broker_name, {}).get(str(queue.queue_id), 0)
    return min(int(claimed), queue.end)


def _compared(
    queue: QueueBacklog, counted: dict[tuple[str, str, int], Any], done: dict[str, Any]
) -> list[Any]:
    row = counted.get((queue.topic, queue.broker_name, queue.queue_id))
    expected = max(_end(queue, done) - queue.first, 0)
    rows = row["rows"] if row else 0
    distinct = row["distinct"] if row else 0
    # What retention deleted from the topic is in the archive still.
    older = max(queue.first - row["first"], 0) if row else 0
    missing = max(expected + older - distinct, 0)
    return [
        *(queue.topic, queue.broker_name, queue.queue_id),
        *(expected, rows, missing, rows - distinct),
    ]


def _report(
    rows: list[list[Any]], differing: int, examples: list[Any], *, has_bodies: bool
) -> Report:
    missing, twice = sum(row[5] for row in rows), sum(row[6] for row in rows)
    facts: dict[str, Any] = {
        "expected": sum(row[3] for row in rows),
        "archived": sum(row[4] for row in rows),
        "missing": missing,
        "twice": twice,
    }
    tables = [
        ReportTable(
            title="Queues",
            columns=["topic", "broker", "queue", "expected", "archived", "missing", "twice"],
            rows=rows,
        )
    ]
    if has_bodies:
        facts["bodies that differ"] = differing
    if examples:
        tables.append(
            ReportTable(
                title="Messages whose bodies differ",
                columns=["topic", "broker", "queue", "offset"],
                rows=[[*_key(row), row["queueOffset"]] for row in examples],
            )
        )
    is_good = not (missing or twice or differing)
    facts["verdict"] = "archive and topics agree" if is_good else "archive and topics differ"
    return Report(facts=facts, tables=tables, is_good=is_good)
