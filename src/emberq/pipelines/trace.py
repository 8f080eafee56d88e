"""The way of messages through the system, from the trace that clients write."""

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from emberq.errors import ConfigError
from emberq.model.system_topics import TRACE_TOPIC
from emberq.pipelines.backlog import backlog_of
from emberq.pipelines.checkpoints import forget_drafts, writer_of
from emberq.pipelines.connected import carried, is_connected
from emberq.pipelines.file_values import names_of
from emberq.pipelines.html_report import check_writable, write_report
from emberq.pipelines.job import GROUP_OF_STREAMS, LISTENER, Job, Report, Say
from emberq.pipelines.journey_page import journey_sections
from emberq.pipelines.journey_report import (
    groups_of,
    missing_counts_of,
    missing_of,
    sends_of,
    sizes_of,
    slowest_of,
    steps_of,
    tags_of,
    totals_of,
)
from emberq.pipelines.journey_table import JourneyTable
from emberq.pipelines.journeys import journeys_of, of_topics, without_group
from emberq.pipelines.result_folders import check_new, check_of_batches
from emberq.pipelines.session import job_session
from emberq.pipelines.streaming import (
    Clock,
    run_query,
    seconds_of,
    spark_duration,
    trigger_options,
)
from emberq.pipelines.topic_look_up import look_up_topics
from emberq.pipelines.trace_events import SCHEMA, SOURCE_COLUMNS, event_batches
from emberq.spark.options import parse_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame, SparkSession


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
    top: Annotated[
        int, Meta(description="how many slow and missing messages, and tags, are shown", ge=1)
    ] = 20
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
    consumer_group: Annotated[str, Meta(description=GROUP_OF_STREAMS)] = ""

    def run(self, spark: "SparkSession | None" = None, say: Say = lambda _: None) -> Report:
        self._check()
        if self.report:
            check_writable(self.report)
        with job_session(self.spark, spark) as session:
            self._check_path(session)
            self._check_topic(session)
            return self._follow(session, say) if self.every else self._once(session, say)

    def _once(self, session: "SparkSession", say: Say) -> Report:
        clock = Clock()
        if self.message and not (self.path or self.report):
            steps = steps_of(self._events(session), self.message)
            return Report(facts={"steps": len(steps.rows)}, tables=[steps])
        events = self._events(session).cache()
        topics = names_of(self.topics)
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
            self._check_path(session)
            self._check_topic(session)
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

    def _check_topic(self, session: "SparkSession") -> None:
        if parse_source(self._reach()).store is not None:
            return
        if self.trace_topic not in look_up_topics(session, self.sink_options(), [self.trace_topic]):
            raise ConfigError(
                f"there is no topic {self.trace_topic}: brokers make it with traceTopicEnable=true "
                "or a client with its first trace (trace=True, in Java enableMsgTrace)"
            )

    def _check_path(self, session: "SparkSession") -> None:
        if self.every:
            check_of_batches(session, self.path)
        elif self.path:
            check_new(session, self.path)

    def _follow(self, session: "SparkSession", say: Say) -> Report:
        """Run on; a report shows all journeys there are, and is written anew after each batch."""
        clock, table, checkpoint = Clock(), self.table(), self._checkpoint_path()
        is_elsewhere, own_name = is_connected(session), _writer_of(checkpoint, session)
        take = carried(takes_of, self, own_name) if is_elsewhere else takes_of(self, own_name)
        read = carried(reader_of_events) if is_elsewhere else event_batches

        def renew() -> None:
            if self.report and not table.is_empty(session):
                self._told(table.latest(session), clock)

        messages = session.readStream.format("rocketmq").options(**self._options()).load()
        events = messages.mapInArrow(read, SCHEMA)
        writer = events.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
        forget_drafts(checkpoint, session)
        writer = writer.trigger(**trigger_options(self.every))
        run_query(writer, say, on_batches=renew, tracker=self.tracker(self.consumer_group))
        if table.is_empty(session):
            return Report(facts={"messages": 0, "seconds": round(clock.seconds, 1)})
        return self._told(table.latest(session), clock)

    def table(self) -> JourneyTable:
        """Where a trace that runs on writes to."""
        return JourneyTable(self.path, seconds_of("late", self.late), names_of(self.topics))

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
            consumerGroup=self.consumer_group,
            commitOffsets=LISTENER,
        )

    def _options(self) -> dict[str, str]:
        return {"columns": SOURCE_COLUMNS, **self._reach()}

    def _events(self, session: "SparkSession") -> "DataFrame":
        messages = session.read.format("rocketmq").options(**self._options()).load()
        # A client that was unsure has sent its trace twice.
        return messages.mapInArrow(event_batches, SCHEMA).dropDuplicates()

    def _found(self, events: "DataFrame | None", journeys: "DataFrame") -> Report:
        missing = without_group(journeys, names_of(self.groups)).cache()
        try:
            tables = [
                *(sends_of(journeys), groups_of(journeys)),
                *(missing_counts_of(missing), missing_of(missing, self.top)),
            ]
        finally:
            missing.unpersist()
        tables += [
            slowest_of(journeys, self.top),
            sizes_of(journeys),
            tags_of(journeys, self.top),
        ]
        if self.message and events is not None:
            tables.insert(0, steps_of(events, self.message))
        return Report(facts=totals_of(journeys), tables=[table for table in tables if table.rows])

    def _html(self, report: Report, journeys: "DataFrame") -> Any:
        facts = {name: value for name, value in report.facts.items() if name != "report"}
        window = timedelta(seconds=seconds_of("window", self.window))
        sections = journey_sections(journeys, window, report.tables)
        topics = ", ".join(names_of(self.topics))
        title = f"Journeys of messages{f' of {topics}' if topics else ''}"
        return write_report(self.report, title, facts, sections, report.tables)


def takes_of(job: Trace, writer: str) -> "Callable[[DataFrame, int], None]":
    """What is done with batches, in the job's process or in another one."""
    table = job.table()

    def take(events: "DataFrame", batch: int) -> None:
        table.take(events, batch, writer)

    return take


def reader_of_events() -> "Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]":
    """What makes events of messages, for workers that are not the job's own."""
    return event_batches


def _writer_of(checkpoint: str, session: "SparkSession") -> str:
    try:
        return writer_of(checkpoint, session)
    except ConfigError:
        # Only Spark's server sees it. A run that is a writer of its own writes over nothing, and
        # a batch that is repeated tells the same twice.
        return uuid.uuid4().hex
