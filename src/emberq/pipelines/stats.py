"""Throughput, sizes and latencies of topics over time."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from emberq.errors import ConfigError
from emberq.pipelines.backlog import backlog_of
from emberq.pipelines.chart_windows import drawing_note, drawn_length, drawn_starts
from emberq.pipelines.checked_options import check_sink, check_stream_sink
from emberq.pipelines.checkpoints import forget_drafts
from emberq.pipelines.file_values import names_of
from emberq.pipelines.html_report import (
    NOTE,
    Section,
    bar_section,
    check_writable,
    write_report,
)
from emberq.pipelines.job import GROUP_OF_STREAMS, LISTENER, Job, Report, ReportTable, Say
from emberq.pipelines.message_windows import (
    MESSAGE,
    NONE,
    PARTS,
    PARTS_MAX,
    as_messages,
    most_frequent,
    most_frequent_of,
    newest,
    since,
    span_of,
    sums_by,
    totals_of,
    widened,
    windowed,
    with_frequent,
)
from emberq.pipelines.result_folders import check_new, claim
from emberq.pipelines.session import job_session
from emberq.pipelines.streaming import Clock, run_query, spark_duration, trigger_options
from emberq.pipelines.window_page import (
    HIGHEST_NOTE,
    names_shown,
    percentile_sections,
    throughput_sections,
    window_table,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

COLUMNS = "topic,tags,bornTimestamp,storeTimestamp,size"
TAGS_SHOWN = 20


class Stats(Job, kw_only=True):
    """Count messages, bytes and latencies in windows of time.

    Latency is the time from a message's birth at its producer to its storage at the broker, by
    the clocks of both machines.

    With `sink: {delivery: idempotent}` each window comes to a topic once, whatever is repeated:
    its id is topic, begin and end, and the tag or key. The first count stays, also of a window that
    was not over: without `every`, let `since` and `until` be bounds of windows.
    """

    name: ClassVar[str] = "stats"

    topics: Annotated[str, Meta(description="topics, separated by commas")]
    window: Annotated[str, Meta(description="length of a window")] = "1m"
    by: Annotated[
        str,
        Meta(
            description="tag or key: windows of each; of the "
            f"{PARTS_MAX} most frequent, and of all others together; "
            "with every only tag, and each tag has windows"
        ),
    ] = ""
    since: Annotated[str, Meta(description="messages stored from then on: ISO or ms")] = ""
    until: Annotated[
        str, Meta(description="messages stored before then: ISO or ms; not with every")
    ] = ""
    top: Annotated[
        int, Meta(description="how many tags, or keys, are shown; with every only beside by", ge=1)
    ] = TAGS_SHOWN
    report: Annotated[
        str, Meta(description="write an HTML report to this file; with every, of windows in path")
    ] = ""
    path: Annotated[str, Meta(description="write the windows as Parquet to this folder")] = ""
    to_topic: Annotated[str, Meta(description="send the windows as JSON to this topic")] = ""
    sink: Annotated[
        dict[str, str],
        Meta(description="further options of the Spark sink, KEY=VALUE: delivery=idempotent"),
    ] = msgspec.field(default_factory=dict)
    every: Annotated[
        str, Meta(description="run on, writing windows that are complete to path or toTopic")
    ] = ""
    late: Annotated[str, Meta(description="how late messages may come while it runs on")] = "1m"
    checkpoint: Annotated[str, Meta(description="where Spark keeps the position")] = ""
    consumer_group: Annotated[str, Meta(description=GROUP_OF_STREAMS)] = ""

    def run(self, spark: "SparkSession | None" = None, say: Say = lambda _: None) -> Report:
        self._check()
        if self.report:
            check_writable(self.report)
        with job_session(self.spark, spark) as session:
            self._check_sink(session)
            if self.every:
                return self._follow(session, say)
            if self.path:
                check_new(session, self.path)
            messages = session.read.format("rocketmq").options(**self._options()).load()
            return self.summed_up(messages, say)

    def plan(self, spark: "SparkSession | None" = None) -> Report:
        self._check()
        checkpoint = self._checkpoint_path() if self.every else None
        with job_session(self.spark, spark) as session:
            self._check_sink(session)
            if self.path and not self.every:
                check_new(session, self.path)
            backlog = backlog_of(session, self._reach(), checkpoint, is_sized=True)
        return Report(facts={"window": self.window, **backlog.facts()}, tables=[backlog.table()])

    def summed_up(self, messages: "DataFrame", say: Say = lambda _: None) -> Report:
        """The report of messages that have the columns asked for; the windows are written where
        they are to."""
        clock = Clock()
        messages = messages.cache()
        parted = with_frequent(messages, self.by) if self.by else messages
        windows = windowed(parted, self._window_text(), self.by).cache()
        try:
            say("counting")
            rows, count = newest(windows), windows.count()
            say("finding the most frequent tags")
            columns = dict.fromkeys(PARTS[part] for part in ("tag", *self._parts))
            frequent = {name: most_frequent(messages, name, self.top) for name in columns}
            facts = totals_of(messages)
            if len(rows) < count:
                facts[NOTE] = f"The table has the newest {len(rows):,} of {count:,} rows."
            if rows:
                self._write(windows.orderBy("windowStart", "topic", *self._parts))
            table = window_table(rows, self.by, is_all=len(rows) == count)
            tables = [_frequent_table(rows, name) for name, rows in frequent.items()]
            report = Report(facts=facts, tables=[table, *tables])
            sections = self._sections(windows, messages) if self.report else []
            facts["seconds"] = round(clock.seconds, 1)
        finally:
            windows.unpersist()
            messages.unpersist()
        sections += [_frequent_section(rows, name) for name, rows in frequent.items()]
        return self._with_page(report, sections)

    def _check(self) -> None:
        """Raises ConfigError for what cannot be done, before anything is."""
        self._window_text()
        if self.sink and not self.to_topic:
            raise ConfigError("sink is for windows that are sent: name toTopic")
        if self.by and self.by not in PARTS:
            raise ConfigError(f"by={self.by!r}: expected {' or '.join(PARTS)}")
        if not self.every:
            return
        trigger_options(self.every)
        spark_duration("late", self.late)
        if self.until:
            raise ConfigError("until is for stats that do not run on")
        if self.by == "key":
            # A row per window for each of them, all of which Spark keeps while it is open.
            raise ConfigError("by=key is for stats that do not run on: keys are without end")
        if self.top != TAGS_SHOWN and not self.by:
            raise ConfigError("top needs by=tag in stats that run on")
        if bool(self.path) == bool(self.to_topic):
            raise ConfigError("stats that run on need path or toTopic, one of them")
        if self.report and not self.path:
            raise ConfigError("stats that run on make their report of the windows in path")
        if not self._checkpoint_path():
            raise ConfigError("stats that run on to a topic need checkpoint")

    def _check_sink(self, session: "SparkSession") -> None:
        """Raises ConfigError for a topic that windows cannot be sent to, before any is written."""
        if self.to_topic:
            check = check_stream_sink if self.every else check_sink
            check(session.createDataFrame([], MESSAGE), self._sink_options())

    def _sink_options(self) -> dict[str, str]:
        return self.sink_options(self.to_topic) | self.sink

    def _checkpoint_path(self) -> str:
        return self.checkpoint or (f"{self.path.rstrip('/')}/_checkpoint" if self.path else "")

    def _reach(self) -> dict[str, str]:
        """Which messages: options of the source."""
        return self.source_options(
            subscribe=self.topics,
            startingOffsets="earliest" if self.every and not self.since else "",
            startingTimestamp=self.since,
            endingTimestamp=self.until,
            consumerGroup=self.consumer_group,
            commitOffsets=LISTENER,
        )

    def _options(self) -> dict[str, str]:
        keys = ",keys" if self.by == "key" else ""
        return {"columns": f"{COLUMNS}{keys}", **self._reach()}

    def _write(self, windows: "DataFrame") -> None:
        # The topic first: a folder that has been written to would keep the next run out.
        if self.to_topic:
            (
                as_messages(windows)
                .write.format("rocketmq")
                .options(**self._sink_options())
                .mode("append")
                .save()
            )
        if self.path:
            windows.write.mode("append").parquet(self.path)

    def _follow(self, session: "SparkSession", say: Say) -> Report:
        """Run on; a report shows the newest windows there are, and is made anew after each batch,
        when Spark has written those that the batch before completed."""
        clock, checkpoint = Clock(), self._checkpoint_path()
        if self.path:
            claim(self.path, checkpoint, session)
        messages = (
            session.readStream.format("rocketmq")
            .options(**self._options())
            .load()
            .withWatermark("storeTimestamp", spark_duration("late", self.late))
        )
        parted = messages.withColumnRenamed(PARTS[self.by], self.by) if self.by else messages
        windows = windowed(parted, self._window_text(), self.by)
        writer = (as_messages(windows) if self.to_topic else windows).writeStream.outputMode(
            "append"
        )
        writer = writer.option("checkpointLocation", checkpoint).trigger(
            **trigger_options(self.every)
        )
        if self.to_topic:
            writer = writer.format("rocketmq").options(**self._sink_options())
        else:
            writer = writer.format("parquet").option("path", self.path)

        def renew() -> None:
            if self.report:
                self._told(session, windows, clock)

        forget_drafts(checkpoint, session)
        run_query(writer, say, on_batches=renew, tracker=self.tracker(self.consumer_group))
        return self._told(session, windows, clock)

    def _told(self, session: "SparkSession", windows: "DataFrame", clock: Clock) -> Report:
        """What there is by now, as a report and a page if that is wanted."""
        facts = {"seconds": round(clock.seconds, 1)}
        if not self.report:
            return Report(facts=facts)
        # Told what to look for, Spark finds nothing where there is nothing yet.
        there = session.read.schema(windows.schema).parquet(self.path)
        rows = newest(there)
        report = Report(
            facts={**_sums(rows), **facts}, tables=[window_table(rows, self.by, is_all=False)]
        )
        shown = since(there, rows[0]["windowStart"]) if rows else there
        sections = self._sections(shown)
        for part in self._parts:
            frequent = most_frequent_of(shown, part, self.top)
            report.tables.append(_frequent_table(frequent, PARTS[part]))
            sections.append(_frequent_section(frequent, PARTS[part]))
        return self._with_page(report, sections)

    def _sections(self, windows: "DataFrame", messages: "DataFrame | None" = None) -> list[Section]:
        """Charts of windows; however many there are, few points come to the driver. Percentiles of
        longer or undivided windows are those of the messages, where these are given."""
        span = span_of(windows)
        if span is None:
            return []
        first, last, window = span
        length = drawn_length(first, last, window)
        starts, note = drawn_starts(first, last, length), drawing_note(window, length)
        by_topic = sums_by(windows, "topic")
        sections: list[Section] = []
        for column in ("topic", *self._parts):
            names, others = names_shown(by_topic if column == "topic" else sums_by(windows, column))
            rows = widened(windows, length, column, names, others)
            sections += throughput_sections(rows, starts, others, column, note)
        if messages is not None and (self.by or length > window):
            windows = windowed(messages, f"{length // timedelta(milliseconds=1)} milliseconds")
        highest = widened(windows, length, "topic", (), "all")
        is_divided = bool(self.by) and messages is None
        notes = [note, HIGHEST_NOTE if len(by_topic) > 1 or is_divided else ""]
        return [*sections, *percentile_sections(highest, starts, " ".join(filter(None, notes)))]

    @property
    def _parts(self) -> list[str]:
        return [self.by] if self.by else []

    def _window_text(self) -> str:
        return spark_duration("window", self.window)

    def _with_page(self, report: Report, sections: "Sequence[Section]") -> Report:
        """The report, and where its page is if one is wanted."""
        if self.report:
            title = f"Messages of {', '.join(names_of(self.topics))}"
            page = write_report(self.report, title, report.facts, sections, report.tables)
            report.facts["report"] = str(page)
        return report


def _sums(windows: "list[Row]") -> dict[str, Any]:
    return {
        "messages": sum(row["messages"] for row in windows),
        "bytes": sum(row["bytes"] or 0 for row in windows),
        "from": windows[0]["windowStart"] if windows else None,
        "to": windows[-1]["windowEnd"] if windows else None,
    }


def _frequent_table(rows: "Sequence[Row]", column: str) -> ReportTable:
    return ReportTable(
        title=f"Most frequent {column}",
        columns=["topic", column, "messages", "bytes"],
        rows=[[row["topic"], row[column], row["messages"], row["bytes"]] for row in rows],
    )


def _frequent_section(rows: "Sequence[Row]", column: str) -> Section:
    named = [(f"{row['topic']} {row[column] or NONE}", float(row["messages"])) for row in rows]
    return bar_section(f"Messages by {column.removesuffix('s')}", named)
