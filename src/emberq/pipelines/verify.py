"""Whether an archive has what the topics have."""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from emberq.errors import ConfigError, PipelineError
from emberq.model.queue import MessageQueue
from emberq.pipelines.archived import existing_table, read_archive
from emberq.pipelines.backlog import backlog_of
from emberq.pipelines.checkpoints import done_offsets
from emberq.pipelines.file_values import names_of
from emberq.pipelines.job import Job, Report, ReportTable, Say
from emberq.pipelines.session import job_session
from emberq.spark.offsets import Offsets, write_offsets
from emberq.spark.options import EARLIEST, ENDS, STARTS, parse_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_QUEUE = ("topic", "brokerName", "queueId")
_EXAMPLES_MAX = 20
_FILTERS = ("tags", "sqlFilter")


class Verify(Job, kw_only=True):
    """Compare an archive with its topics: counts, gaps, messages twice, and bodies if asked to.

    Messages that the topics no longer have are not missed, but counted as expired where they went
    before they were archived. Messages behind the archive's position are not expected yet, so it
    may be asked while the archive is being written. Of an archive with a filter give the same
    filter: the topics' messages are read and counted then, those that expired without it. Messages
    of a topic before it was deleted and made anew are told apart by when they were stored.
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
        self._check_start()
        with job_session(self.spark, spark) as session:
            # The position first: what is archived after it is more than is expected.
            done = done_offsets(self._checkpoint, session)
            say("asking the brokers")
            spans = self._spans(session, done)
            say("counting the archive")
            archive = self._archive(session, spans)
            counted: dict[MessageQueue, Any] = {}
            if archive is not None:
                counted = _counted(session, archive, spans, self._begun_at_us(session, spans))
            expected = self._expected(session, spans, say)
            compared = [
                _compared(span, counted.get(span.queue), _wanted(span, expected)) for span in spans
            ]
            differing = 0
            examples: list[Any] = []
            if self.bodies and archive is not None:
                say("comparing bodies")
                different = self._different(session, archive, spans)
                differing = different.count()
                examples = different.limit(_EXAMPLES_MAX).collect()
        unseen = _unseen(done, spans, names_of(self.topics))
        position = "the topics' ends" if done is None else "the archive's position"
        return _report(
            compared, unseen, differing, examples, compared_to=position, has_bodies=self.bodies
        )

    def plan(self, spark: "SparkSession | None" = None) -> Report:
        self._check_start()
        with job_session(self.spark, spark) as session:
            self._archive(session, self._spans(session, done_offsets(self._checkpoint, session)))
            source = self.source_options(subscribe=self.topics)
            backlog = backlog_of(session, source, None, is_sized=True)
        return Report(facts={"table": self.path, **backlog.facts()}, tables=[backlog.table()])

    @property
    def _checkpoint(self) -> str:
        return self.checkpoint or f"{self.path.rstrip('/')}/_checkpoint"

    def _check_start(self) -> None:
        """Raises ConfigError for a start that is not where an archive began: between the two lies
        what is to be compared."""
        start = parse_source(self.source_options(subscribe=self.topics)).start
        if start is not None and not start.is_repeatable:
            raise ConfigError(
                "verify has nothing to compare behind startingOffsets=latest or group, which move: "
                "say where the archive began, as by startingTimestamp or offsets"
            )

    def _spans(self, session: "SparkSession", done: Offsets | None) -> "list[_Span]":
        source = self.source_options(subscribe=self.topics)
        start = parse_source(source).start
        spans = [
            _span(
                MessageQueue(each.broker_name, each.queue_id, each.topic),
                each.first,
                each.end,
                done or {},
            )
            for each in backlog_of(session, source, None).by_queue
        ]
        if start is None or start.word == EARLIEST:
            return spans
        # What lies before a start that is asked for need not have expired.
        return [replace(span, position=span.first) for span in spans]

    def _archive(self, session: "SparkSession", spans: "list[_Span]") -> "DataFrame | None":
        """None: there is no table, and nothing that it should have."""
        if existing_table(self.format, self.path, self.catalog).files():
            archive = read_archive(session, self.format, self.path, self.catalog)
            if self.bodies and "body" not in archive.columns:
                raise ConfigError("bodies: the archive has no column body")
            return archive
        if any(span.count for span in spans):
            raise PipelineError(f"there is no {self.format} table with messages at {self.path}")
        return None

    def _expected(
        self, session: "SparkSession", spans: "list[_Span]", say: Say
    ) -> dict[MessageQueue, int] | None:
        """How many messages of each span a filter lets through; None: there is no filter."""
        options = parse_source(self.source_options(subscribe=self.topics))
        if options.expression == "*":
            return None
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

    def _begun_at_us(
        self, session: "SparkSession", spans: "list[_Span]"
    ) -> dict[MessageQueue, int]:
        """When the first message of each span was stored. What the archive has at its offsets from
        before then is of a topic of the same name that was deleted."""
        from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

        own = self.source_options(subscribe=self.topics)
        options = {n: text for n, text in own.items() if n not in {*STARTS, *ENDS, *_FILTERS}}
        first = {span.queue: span.first for span in spans}
        end = {span.queue: min(span.first + 1, span.end) for span in spans}
        options |= {
            "columns": ",".join((*_QUEUE, "storeTimestamp")),
            "startingOffsets": msgspec.json.encode(write_offsets(first)).decode(),
            "endingOffsets": msgspec.json.encode(write_offsets(end)).decode(),
            # One that has expired meanwhile says nothing, and is none of what is compared.
            "failOnDataLoss": "false",
        }
        rows = (
            session.read.format("rocketmq")
            .options(**options)
            .load()
            .select(*_QUEUE, f.unix_micros("storeTimestamp").alias("storedAtUs"))
            .collect()
        )
        return {_queue(row): row["storedAtUs"] for row in rows}

    def _different(
        self, session: "SparkSession", archive: "DataFrame", spans: "list[_Span]"
    ) -> "DataFrame":
        """Messages whose body in the archive is not the one in the topic, or is not there."""
        from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

        keys = [*_QUEUE, "queueOffset", "storeTimestamp"]
        kept = archive.select(
            *(f.col(name) for name in keys), f.crc32("body").alias("archivedCrc")
        ).dropDuplicates(keys)
        return (
            self._messages(session, spans, "queueOffset", "storeTimestamp", "body")
            .select(*keys, f.crc32("body").alias("crc"))
            .join(kept, keys, "left")
            .filter(~f.col("crc").eqNullSafe(f.col("archivedCrc")))
        )


class _Span(Struct, frozen=True):
    """What of a queue the archive should have: from its first message to `end`, never before it."""

    queue: MessageQueue
    first: int
    end: int
    # Where the archive stands before the first message: those between expired too early.
    position: int
    is_begun: bool = False  # whether the archive has read on from the queue's very beginning

    @property
    def count(self) -> int:
        return self.end - self.first


def _span(queue: MessageQueue, first: int, end: int, done: Offsets) -> _Span:
    """How far the archive claims to be. A topic that it has never seen is missing as a whole."""
    position = done.get(queue)
    if position is None:
        if queue.topic not in {each.topic for each in done}:
            return _Span(queue, first, end, first)
        # A queue that is new where the archive reads the topic had all its messages; of a broker
        # that is new, nobody knows what it lost before.
        places = {(each.topic, each.broker_name) for each in done}
        is_whole = (queue.topic, queue.broker_name) in places
        return _Span(queue, first, first, 0 if is_whole else first)
    reached = min(max(position, 0), end)
    return _Span(queue, first, max(reached, first), min(reached, first), is_begun=reached > 0)


def _counted(
    session: "SparkSession",
    archive: "DataFrame",
    spans: list[_Span],
    begun_at_us: Mapping[MessageQueue, int],
) -> dict[MessageQueue, Any]:
    """Of each queue in the archive: rows, different ones, and how many of those inside of its span,
    before it, and before the archive's position if that is before it."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

    bounds = session.createDataFrame(
        [
            (
                *(s.queue.topic, s.queue.broker_name, s.queue.queue_id),
                *(s.first, s.end, s.position, begun_at_us.get(s.queue, 0)),
            )
            for s in spans
        ],
        "topic string, brokerName string, queueId int, spanFirst bigint, spanEnd bigint, "
        "position bigint, begunAtUs bigint",
    )
    offset, first, end = f.col("queueOffset"), f.col("spanFirst"), f.col("spanEnd")
    position = f.col("position")
    is_inside = (offset >= first) & (offset < end)
    is_of_topic = f.unix_micros("storeTimestamp") >= f.col("begunAtUs")
    rows = (
        archive.select(*_QUEUE, "queueOffset", "storeTimestamp")
        .join(f.broadcast(bounds), list(_QUEUE))
        .groupBy(*_QUEUE)
        .agg(
            f.count(f.lit(1)).alias("rows"),
            f.countDistinct(f.struct(offset, "storeTimestamp")).alias("distinct"),
            f.countDistinct(f.when(offset < first, offset)).alias("before"),
            f.countDistinct(f.when(offset < position, offset)).alias("beforePosition"),
            f.countDistinct(f.when(is_inside & is_of_topic, offset)).alias("inside"),
            f.min(offset).alias("oldest"),
        )
        .collect()
    )
    return {_queue(row): row for row in rows}


def _queue(row: Any) -> MessageQueue:
    return MessageQueue(row["brokerName"], row["queueId"], row["topic"])


class _Compared(Struct, frozen=True):
    """What was found of a queue; no number is negative, so none makes up for another."""

    span: _Span
    expected: int
    archived: int
    missing: int
    twice: int
    expired: int  # before they were archived

    def row(self) -> list[Any]:
        queue = self.span.queue
        name = [queue.topic, queue.broker_name, queue.queue_id]
        return [*name, self.expected, self.archived, self.missing, self.twice, self.expired]


def _wanted(span: _Span, expected: Mapping[MessageQueue, int] | None) -> int | None:
    """How many messages a filter lets through; None: there is no filter."""
    return None if expected is None else expected.get(span.queue, 0)


def _compared(span: _Span, row: Any | None, filtered: int | None) -> _Compared:
    """A span and what the archive has of its queue; `filtered` as `_wanted` says."""
    wanted = span.count if filtered is None else filtered
    gone = span.first - span.position
    if row is None:
        return _Compared(span, wanted, 0, wanted, 0, gone)
    missing = max(wanted - row["inside"], 0)
    if filtered is None and row["beforePosition"]:
        # What retention deleted from the topic is in the archive still, without a gap.
        missing += span.position - row["oldest"] - row["beforePosition"]
    # The table may be ahead of the position: what is there did not expire too early.
    expired = gone - (row["before"] - row["beforePosition"])
    twice = row["rows"] - row["distinct"]
    return _Compared(span, wanted, row["rows"], missing, twice, expired)


def _unseen(
    done: Offsets | None, spans: list[_Span], topics: Collection[str]
) -> Iterator[MessageQueue]:
    """Queues that were archived and that no broker has now: one may be away."""
    seen = {span.queue for span in spans}
    return (queue for queue in done or {} if queue.topic in topics and queue not in seen)


def _report(
    compared: Collection[_Compared],
    unseen: Iterator[MessageQueue],
    differing: int,
    examples: list[Any],
    *,
    compared_to: str,
    has_bodies: bool,
) -> Report:
    expired = sum(each.expired for each in compared)
    facts: dict[str, Any] = {
        "compared up to": compared_to,
        "expected": sum(each.expected for each in compared),
        "archived": sum(each.archived for each in compared),
        "missing": sum(each.missing for each in compared),
        "twice": sum(each.twice for each in compared),
    }
    if expired:
        facts["expired before they were archived"] = expired
    tables = [
        ReportTable(
            title="Queues",
            columns=[
                *("topic", "broker", "queue"),
                *("expected", "archived", "missing", "twice", "expired"),
            ],
            rows=[each.row() for each in compared],
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
    is_different = bool(differing) or any(each.missing or each.twice for each in compared)
    trouble = _trouble(
        is_different=is_different,
        is_expired=bool(expired),
        is_blank=_is_blank(compared),
        is_partial=bool(away),
    )
    facts["verdict"] = trouble or "archive and topics agree"
    return Report(facts=facts, tables=tables, is_good=trouble is None)


def _is_blank(compared: Collection[_Compared]) -> bool:
    """Whether an archive has read messages, and there are none on either side to show for it."""
    has_messages = any(each.archived or each.span.count for each in compared)
    return not has_messages and any(each.span.is_begun for each in compared)


def _trouble(
    *, is_different: bool, is_expired: bool, is_blank: bool, is_partial: bool
) -> str | None:
    if is_different:
        return "archive and topics differ"
    if is_expired:
        return "the archive lacks messages that expired before they were archived"
    if is_blank:
        return "nothing was compared: the archive has read on, and neither side has messages"
    if is_partial:
        return "what could be compared agrees; a broker may be away"
    return None
