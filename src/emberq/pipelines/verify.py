"""Whether an archive has what the topics have."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct

from emberq.errors import PipelineError
from emberq.model.queue import MessageQueue
from emberq.pipelines.archived import existing_table, read_archive
from emberq.pipelines.backlog import backlog_of
from emberq.pipelines.checkpoints import done_offsets
from emberq.pipelines.job import Job, Report, ReportTable, Say
from emberq.pipelines.session import job_session
from emberq.spark.offsets import Offsets, write_offsets
from emberq.spark.options import parse_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_QUEUE = ("topic", "brokerName", "queueId")
_EXAMPLES_MAX = 20


class Verify(Job, kw_only=True):
    """Compare an archive with its topics: counts, gaps, messages twice, and bodies if asked to.

    Messages that the topics no longer have are not missed, and messages behind the archive's
    position are not expected yet, so it may be asked while the archive is being written. Of an
    archive with a filter give the same filter: the topics' messages are read and counted then.
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
            # The position first: what is archived after it is more than is expected.
            done = done_offsets(self._checkpoint, session)
            say("asking the brokers")
            spans = self._spans(session, done)
            say("counting the archive")
            archive = self._archive(session, spans)
            counted = _counted(session, archive, spans) if archive is not None else {}
            expected = self._expected(session, spans, say)
            rows = [_compared(span, counted, expected) for span in spans]
            differing = 0
            examples: list[Any] = []
            if self.bodies and archive is not None:
                say("comparing bodies")
                different = self._different(session, archive, spans)
                differing = different.count()
                examples = different.limit(_EXAMPLES_MAX).collect()
        unseen = _unseen(done, spans, self._topic_names)
        position = "the topics' ends" if done is None else "the archive's position"
        return _report(
            rows, unseen, differing, examples, compared_to=position, has_bodies=self.bodies
        )

    def plan(self, spark: "SparkSession | None" = None) -> Report:
        with job_session(self.spark, spark) as session:
            source = self.source_options(subscribe=self.topics)
            backlog = backlog_of(session, source, None, is_sized=True)
        return Report(facts={"table": self.path, **backlog.facts()}, tables=[backlog.table()])

    @property
    def _checkpoint(self) -> str:
        return self.checkpoint or f"{self.path.rstrip('/')}/_checkpoint"

    @property
    def _topic_names(self) -> set[str]:
        return {name.strip() for name in self.topics.split(",") if name.strip()}

    def _spans(self, session: "SparkSession", done: Offsets | None) -> "list[_Span]":
        source = self.source_options(subscribe=self.topics)
        archived = {queue.topic for queue in done or {}}
        return [
            _Span(queue, each.first, _end(queue, each.end, done, archived))
            for each in backlog_of(session, source, None).by_queue
            if (queue := MessageQueue(each.broker_name, each.queue_id, each.topic))
        ]

    def _archive(self, session: "SparkSession", spans: "list[_Span]") -> "DataFrame | None":
        """None: there is no table, and nothing that it should have."""
        if existing_table(self.format, self.path, self.catalog).files():
            return read_archive(session, self.format, self.path, self.catalog)
        if any(span.count for span in spans):
            raise PipelineError(f"there is no {self.format} table with messages at {self.path}")
        return None

    def _expected(
        self, session: "SparkSession", spans: "list[_Span]", say: Say
    ) -> dict[MessageQueue, int]:
        """How many messages each span has: all of them, or those that a filter lets through."""
        options = parse_source(self.source_options(subscribe=self.topics))
        if options.expression == "*":
            return {span.queue: span.count for span in spans}
        say("counting the topics' messages that the filter lets through")
        counted = self._messages(session, spans, "queueOffset").groupBy(*_QUEUE).count().collect()
        return {_queue(row): row["count"] for row in counted}

    def _messages(self, session: "SparkSession", spans: "list[_Span]", *more: str) -> "DataFrame":
        """What the topics have in the spans."""
        ends = write_offsets({span.queue: span.end for span in spans})
        source = self.source_options(
            subscribe=self.topics,
            columns=",".join((*_QUEUE, *more)),
            endingOffsets=msgspec.json.encode(ends).decode(),
        )
        return session.read.format("rocketmq").options(**source).load()

    def _different(
        self, session: "SparkSession", archive: "DataFrame", spans: "list[_Span]"
    ) -> "DataFrame":
        """Messages whose body in the archive is not the one in the topic, or is not there."""
        from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

        keys = [*_QUEUE, "queueOffset"]
        kept = archive.select(
            *(f.col(name) for name in keys), f.crc32("body").alias("archivedCrc")
        ).dropDuplicates(keys)
        return (
            self._messages(session, spans, "queueOffset", "body")
            .select(*keys, f.crc32("body").alias("crc"))
            .join(kept, keys, "left")
            .filter(~f.col("crc").eqNullSafe(f.col("archivedCrc")))
        )


class _Span(Struct, frozen=True):
    """What of a queue the archive should have: from its first message to `end`."""

    queue: MessageQueue
    first: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.first


def _end(queue: MessageQueue, end: int, done: Offsets | None, archived: set[str]) -> int:
    """How far the archive claims to be. A topic that it has never seen is missing as a whole."""
    if done is None or queue.topic not in archived:
        return end
    return min(max(done.get(queue, 0), 0), end)


def _counted(
    session: "SparkSession", archive: "DataFrame", spans: list[_Span]
) -> dict[MessageQueue, Any]:
    """Of each queue in the archive: rows, different ones, and how many of those before and inside
    of its span."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

    bounds = session.createDataFrame(
        [(s.queue.topic, s.queue.broker_name, s.queue.queue_id, s.first, s.end) for s in spans],
        "topic string, brokerName string, queueId int, spanFirst bigint, spanEnd bigint",
    )
    offset, first, end = f.col("queueOffset"), f.col("spanFirst"), f.col("spanEnd")
    rows = (
        archive.select(*_QUEUE, "queueOffset")
        .join(f.broadcast(bounds), list(_QUEUE))
        .groupBy(*_QUEUE)
        .agg(
            f.count(f.lit(1)).alias("rows"),
            f.countDistinct(offset).alias("distinct"),
            f.countDistinct(f.when(offset < first, offset)).alias("before"),
            f.countDistinct(f.when((offset >= first) & (offset < end), offset)).alias("inside"),
            f.min(offset).alias("oldest"),
        )
        .collect()
    )
    return {_queue(row): row for row in rows}


def _queue(row: Any) -> MessageQueue:
    return MessageQueue(row["brokerName"], row["queueId"], row["topic"])


def _compared(
    span: _Span, counted: Mapping[MessageQueue, Any], expected: Mapping[MessageQueue, int]
) -> list[Any]:
    queue, row = span.queue, counted.get(span.queue)
    wanted = expected.get(queue, 0)
    name = [queue.topic, queue.broker_name, queue.queue_id]
    if row is None:
        return [*name, wanted, 0, wanted, 0]
    missing = max(wanted - row["inside"], 0)
    if wanted == span.count and row["before"]:
        # What retention deleted from the topic is in the archive still, without a gap.
        missing += span.first - row["oldest"] - row["before"]
    return [*name, wanted, row["rows"], missing, row["rows"] - row["distinct"]]


def _unseen(done: Offsets | None, spans: list[_Span], topics: set[str]) -> Iterator[MessageQueue]:
    """Queues that were archived and that no broker has now: one may be away."""
    seen = {span.queue for span in spans}
    return (queue for queue in done or {} if queue.topic in topics and queue not in seen)


def _report(
    rows: list[list[Any]],
    unseen: Iterator[MessageQueue],
    differing: int,
    examples: list[Any],
    *,
    compared_to: str,
    has_bodies: bool,
) -> Report:
    missing, twice = sum(row[5] for row in rows), sum(row[6] for row in rows)
    facts: dict[str, Any] = {
        "compared up to": compared_to,
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
                rows=[[*(row[name] for name in (*_QUEUE, "queueOffset"))] for row in examples],
            )
        )
    away = [[queue.topic, queue.broker_name, queue.queue_id] for queue in unseen]
    if away:
        facts["queues that no broker has"] = len(away)
        tables.append(
            ReportTable(
                title="Queues that no broker has", columns=["topic", "broker", "queue"], rows=away
            )
        )
    facts["verdict"] = _verdict(bool(missing or twice or differing), bool(away))
    return Report(facts=facts, tables=tables, is_good=not (missing or twice or differing or away))


def _verdict(is_different: bool, is_partial: bool) -> str:
    if is_different:
        return "archive and topics differ"
    if is_partial:
        return "what could be compared agrees; a broker may be away"
    return "archive and topics agree"
