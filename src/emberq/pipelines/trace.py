"""The way of messages through the system, from the trace that clients write."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from emberq.errors import ConfigError
from emberq.model.system_topics import TRACE_TOPIC
from emberq.pipelines.backlog import backlog_of
from emberq.pipelines.charts import Line, bar_chart, line_chart, time_axis
from emberq.pipelines.checkpoints import forget_drafts
from emberq.pipelines.connected import carried, is_connected
from emberq.pipelines.html_report import Section, write_report
from emberq.pipelines.job import Job, Report, ReportTable, Say
from emberq.pipelines.journey_table import JourneyTable
from emberq.pipelines.journeys import (
    OPEN,
    RECALLED,
    ROLLED_BACK,
    is_for_consumers,
    journeys_of,
    of_topics,
    withheld_as,
    without_group,
)
from emberq.pipelines.session import job_session
from emberq.pipelines.streaming import (
    Clock,
    run_query,
    seconds_of,
    spark_duration,
    trigger_options,
)
from emberq.pipelines.times import collect_utc
from emberq.pipelines.trace_events import SCHEMA, SOURCE_COLUMNS, event_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyarrow import RecordBatch
    from pyspark.sql import Column, DataFrame, SparkSession

PERCENTILES = (0.5, 0.95, 0.99)
_NAMES = ("p50", "p95", "p99")
# Messages that are stored, but not for consumers.
_WITHHELD = {OPEN: "in open transactions", ROLLED_BACK: "rolled back", RECALLED: "recalled"}


class Trace(Job, kw_only=True):
    """Put trace messages together: how long messages took to be sent, to reach each consumer
    group and to be handled, and which groups lack which messages.

    Clients write the trace where it is switched on, a moment after the event. Times are by the
    clocks of producers and consumers. A message is missing in a group until the group has handled
    it with success. Half messages of transactions that are open or rolled back, and messages that
    were recalled, are not for consumers and missing nowhere.

    With `every` it runs on: events that come later are put together with those that were there,
    and the rows that batches wrote of a message are read as one.
    """

    name: ClassVar[str] = "trace"

    topics: Annotated[str, Meta(description="only messages of these topics")] = ""
    groups: Annotated[
        str,
        Meta(description="groups that should have every message; else those seen in its topic"),
    ] = ""
    message: Annotated[
        str, Meta(description="show each step of the message with this id or key; not with every")
    ] = ""
    since: Annotated[str, Meta(description="trace stored from then on: ISO or ms")] = ""
    until: Annotated[
        str, Meta(description="trace stored before then: ISO or ms; not with every")
    ] = ""
    window: Annotated[str, Meta(description="length of a window in the report's charts")] = "1m"
    top: Annotated[int, Meta(description="how many slow and missing messages are shown", ge=1)] = 20
    report: Annotated[str, Meta(description="write an HTML report to this file")] = ""
    path: Annotated[str, Meta(description="write the journeys as Parquet to this folder")] = ""
    every: Annotated[
        str, Meta(description="run on, a batch every so often: 1m; journeys in path grow")
    ] = ""
    late: Annotated[
        str, Meta(description="how long events of a message are put together while it runs on")
    ] = "1d"
    checkpoint: Annotated[str, Meta(description="where Spark keeps the position; else in path")] = (
        ""
    )
    trace_topic: Annotated[str, Meta(description="where clients write their trace")] = TRACE_TOPIC

    def run(self, spark: "SparkSession | None" = None, say: Say = lambda _: None) -> Report:
        self._check()
        with job_session(self.spark, spark) as session:
            return self._follow(session, say) if self.every else self._once(session, say)

    def _once(self, session: "SparkSession", say: Say) -> Report:
        clock = Clock()
        events = self._events(session).cache()
        topics = _words(self.topics)
        journeys = of_topics(journeys_of(events), topics, has_unknown=False).cache()
        try:
            say("joining sends with what consumers did")
            report = self._found(events, journeys)
            if self.path:
                journeys.write.mode("append").parquet(self.path)
            report.facts["seconds"] = round(clock.seconds, 1)
            if self.report:
                say("drawing")
                report.facts["report"] = str(self._html(report, journeys))
        finally:
            journeys.unpersist()
            events.unpersist()
        return report

    def plan(self, spark: "SparkSession | None" = None) -> Report:
        self._check()
        checkpoint = self._checkpoint_path() if self.every else None
        with job_session(self.spark, spark) as session:
            backlog = backlog_of(session, self._reach(), checkpoint, is_sized=True)
        return Report(facts=backlog.facts(), tables=[backlog.table()])

    def _check(self) -> None:
        """Raises ConfigError for what cannot be done, before anything is."""
        spark_duration("window", self.window)
        if not self.every:
            return
        trigger_options(self.every)
        seconds_of("late", self.late)
        if not self.path:
            raise ConfigError("a trace that runs on needs path")
        if self.message or self.until:
            raise ConfigError("message and until are for a trace that does not run on")

    def _follow(self, session: "SparkSession", say: Say) -> Report:
        """Run on; a report shows all journeys there are, and is written anew after each batch."""
        clock, table, checkpoint = Clock(), self.table(), self._checkpoint_path()
        is_elsewhere = is_connected(session)
        take = carried(takes_of, self) if is_elsewhere else table.take
        read = carried(reader_of_events) if is_elsewhere else event_batches

        def renew() -> None:
            if self.report and not table.is_empty(session):
                self._told(table.latest(session), clock)

        messages = session.readStream.format("rocketmq").options(**self._options()).load()
        events = messages.mapInArrow(read, SCHEMA)
        writer = events.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
        forget_drafts(checkpoint, session)
        run_query(writer.trigger(**trigger_options(self.every)), say, on_batches=renew)
        if table.is_empty(session):
            return Report(facts={"messages": 0, "seconds": round(clock.seconds, 1)})
        return self._told(table.latest(session), clock)

    def table(self) -> JourneyTable:
        """Where a trace that runs on writes to."""
        return JourneyTable(self.path, seconds_of("late", self.late), _words(self.topics))

    def _told(self, journeys: "DataFrame", clock: Clock) -> Report:
        """What there is by now, as a report and, if it is wanted, as a page."""
        journeys = journeys.cache()
        try:
            report = self._found(None, journeys)
            report.facts["seconds"] = round(clock.seconds, 1)
            if self.report:
                report.facts["report"] = str(self._html(report, journeys))
        finally:
            journeys.unpersist()
        return report

    def _checkpoint_path(self) -> str:
        return self.checkpoint or self.table().checkpoint

    def _reach(self) -> dict[str, str]:
        """Which messages: options of the source."""
        return self.source_options(
            subscribe=self.trace_topic,
            startingOffsets="earliest" if self.every and not self.since else "",
            startingTimestamp=self.since,
            endingTimestamp=self.until,
        )

    def _options(self) -> dict[str, str]:
        return {"columns": SOURCE_COLUMNS, **self._reach()}

    def _events(self, session: "SparkSession") -> "DataFrame":
        messages = session.read.format("rocketmq").options(**self._options()).load()
        # A client that was unsure has sent its trace twice.
        return messages.mapInArrow(event_batches, SCHEMA).dropDuplicates()

    def _found(self, events: "DataFrame | None", journeys: "DataFrame") -> Report:
        missing = without_group(journeys, _words(self.groups)).cache()
        try:
            sends, groups = _sends(journeys), _groups(journeys)
            tables = [sends, groups, _missing_counts(missing), _missing(missing, self.top)]
        finally:
            missing.unpersist()
        tables.append(_slowest(journeys, self.top))
        if self.message and events is not None:
            tables.insert(0, _steps(events, self.message))
        return Report(facts=_totals(journeys), tables=[table for table in tables if table.rows])

    def _html(self, report: Report, journeys: "DataFrame") -> Any:
        facts = {name: value for name, value in report.facts.items() if name != "report"}
        sections = _sections(journeys, spark_duration("window", self.window))
        title = f"Journeys of messages{f' of {self.topics}' if self.topics else ''}"
        return write_report(self.report, title, facts, sections, report.tables)


def takes_of(job: Trace) -> "Callable[[DataFrame, int], None]":
    """What is done with batches, for a process that is not the job's own."""
    return job.table().take


def reader_of_events() -> "Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]":
    """What makes events of messages, for workers that are not the job's own."""
    return event_batches


def _totals(journeys: "DataFrame") -> dict[str, Any]:
    from pyspark.sql import functions as f  # noqa: PLC0415

    def count(condition: "Column") -> "Column":
        return f.count_distinct(f.when(condition, f.col("messageId")))

    row = journeys.agg(
        f.count_distinct("messageId").alias("messages"),
        count(is_for_consumers()).alias("sent"),
        *(count(withheld_as() == state).alias(state) for state in _WITHHELD),
        count(f.col("isConsumed")).alias("consumed"),
        *(
            f.percentile_approx(column, [0.5, 0.99]).alias(column)
            for column in ("deliveryMs", "endToEndMs")
        ),
    ).collect()[0]
    delivery, whole = row["deliveryMs"] or [None, None], row["endToEndMs"] or [None, None]
    return {
        "messages": row["messages"],
        "sent": row["sent"],
        **{name: row[state] for state, name in _WITHHELD.items()},
        "consumed by a group or more": row["consumed"],
        "delivery p50 ms": delivery[0],
        "delivery p99 ms": delivery[1],
        "end to end p50 ms": whole[0],
        "end to end p99 ms": whole[1],
    }


def _sends(journeys: "DataFrame") -> ReportTable:
    from pyspark.sql import functions as f  # noqa: PLC0415

    columns = ("messageId", "topic", "producerGroup", "isSent", "sendMs")
    rows = (
        journeys.filter("isSent IS NOT NULL")
        .select(*columns, withheld_as().alias("withheld"))
        .distinct()
        .groupBy("topic", "producerGroup")
        .agg(
            f.count(f.lit(1)),
            f.sum((~f.col("isSent")).cast("bigint")),
            *(f.count_if(f.col("withheld") == state) for state in _WITHHELD),
            f.percentile_approx("sendMs", list(PERCENTILES)),
        )
        .orderBy("topic", "producerGroup")
        .collect()
    )
    return ReportTable(
        title="Sends",
        columns=[
            *("topic", "producer group", "messages", "failed"),
            *(*_WITHHELD.values(), *_units("send")),
        ],
        rows=[[*row[:-1], *(row[-1] or [None] * 3)] for row in rows],
    )


def _groups(journeys: "DataFrame") -> ReportTable:
    from pyspark.sql import functions as f  # noqa: PLC0415

    rows = (
        journeys.filter("consumerGroup IS NOT NULL")
        .groupBy("topic", "consumerGroup")
        .agg(
            f.sum(f.col("isConsumed").cast("bigint")),
            f.sum((f.col("attempts") > 1).cast("bigint")),
            f.percentile_approx("deliveryMs", list(PERCENTILES)),
            f.percentile_approx("handlingMs", list(PERCENTILES)),
        )
        .orderBy("topic", "consumerGroup")
        .collect()
    )
    return ReportTable(
        title="Consumer groups",
        columns=["topic", "group", "consumed", "retried", *_units("delivery"), *_units("handling")],
        rows=[[*row[:4], *(row[4] or [None] * 3), *(row[5] or [None] * 3)] for row in rows],
    )


def _missing_counts(missing: "DataFrame") -> ReportTable:
    rows = missing.groupBy("topic", "consumerGroup").count().orderBy("topic", "consumerGroup")
    return ReportTable(
        title="Not consumed",
        columns=["topic", "group", "messages"],
        rows=[list(row) for row in rows.collect()],
    )


def _missing(missing: "DataFrame", count: int) -> ReportTable:
    names = ("sentAt", "topic", "consumerGroup", "messageId", "keys")
    rows = missing.select(*names).orderBy("sentAt", "messageId", "consumerGroup").limit(count)
    return ReportTable(
        title="Not consumed, the oldest",
        columns=["sent", "topic", "group", "message", "keys"],
        rows=[list(row) for row in collect_utc(rows)],
    )


def _slowest(journeys: "DataFrame", count: int) -> ReportTable:
    from pyspark.sql import functions as f  # noqa: PLC0415

    names = ("sentAt", "topic", "consumerGroup", "messageId", "keys")
    times = ("sendMs", "deliveryMs", "handlingMs", "endToEndMs", "attempts")
    rows = (
        journeys.filter("endToEndMs IS NOT NULL")
        .select(*names, *times)
        .orderBy(f.desc("endToEndMs"), "messageId")
        .limit(count)
    )
    return ReportTable(
        title="The slowest",
        columns=[
            *("sent", "topic", "group", "message", "keys"),
            *("send ms", "delivery ms", "handling ms", "end to end ms", "attempts"),
        ],
        rows=[list(row) for row in collect_utc(rows)],
    )


def _steps(events: "DataFrame", id_or_key: str) -> ReportTable:
    from pyspark.sql import functions as f  # noqa: PLC0415

    is_named = (f.col("messageId") == id_or_key) | f.array_contains(
        f.split(f.coalesce("keys", f.lit("")), " "), id_or_key
    )
    of_event = ("kind", "messageId", "group", "clientHost", "storeHost")
    of_end = ("costMs", "isSuccess", "state")
    rows = (
        events.filter(is_named)
        .select(f.timestamp_millis("atMs").alias("at"), *of_event, *of_end)
        .orderBy("messageId", "at", f.desc("kind"))
    )
    return ReportTable(
        title=f"Steps of {id_or_key}",
        columns=[
            *("at", "step", "message", "group", "client", "broker"),
            *("cost ms", "success", "state"),
        ],
        rows=[list(row) for row in collect_utc(rows)],
    )


def _sections(journeys: "DataFrame", window: str) -> list[Section]:
    from pyspark.sql import functions as f  # noqa: PLC0415

    is_shown = is_for_consumers() | f.col("consumerGroup").isNotNull()
    rows = collect_utc(
        journeys.filter(f.col("sentAt").isNotNull() & is_shown)
        .groupBy(f.window("sentAt", window).alias("window"))
        .agg(
            f.count_distinct("messageId").alias("messages"),
            f.percentile_approx("deliveryMs", list(PERCENTILES)).alias("deliveryMs"),
            f.percentile_approx("endToEndMs", list(PERCENTILES)).alias("endToEndMs"),
        )
        .select(f.col("window.start").alias("start"), "messages", "deliveryMs", "endToEndMs")
        .orderBy("start")
    )
    axis = time_axis([row["start"] for row in rows])
    groups = journeys.filter("isConsumed").groupBy("consumerGroup").count().orderBy(f.desc("count"))

    def lines(column: str) -> list[Line]:
        return [
            Line(name, [row[column][place] if row[column] else None for row in rows])
            for place, name in enumerate(_NAMES)
        ]

    counts = [Line("messages", [float(row["messages"]) for row in rows])]
    return [
        Section("Messages sent per window", line_chart(axis, counts)),
        Section("From the send to the consumer", line_chart(axis, lines("deliveryMs"), " ms")),
        Section("From the send to the end", line_chart(axis, lines("endToEndMs"), " ms")),
        Section(
            "Messages by consumer group",
            bar_chart([(row[0], float(row[1])) for row in groups.collect()]),
        ),
    ]


def _units(what: str) -> list[str]:
    return [f"{what} {name} ms" for name in _NAMES]


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
