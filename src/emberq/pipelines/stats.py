"""Throughput, sizes and latencies of topics over time."""

from collections import Counter
from datetime import datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from emberq.errors import ConfigError
from emberq.pipelines.backlog import backlog_of
from emberq.pipelines.charts import LINES_MAX, Line, bar_chart, line_chart, time_axis
from emberq.pipelines.checkpoints import forget_drafts
from emberq.pipelines.html_report import Section, write_report
from emberq.pipelines.job import Job, Report, ReportTable, Say
from emberq.pipelines.session import job_session
from emberq.pipelines.streaming import Clock, run_query, spark_duration, trigger_options
from emberq.pipelines.times import collect_utc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, Row, SparkSession

COLUMNS = "topic,tags,bornTimestamp,storeTimestamp,size"
PERCENTILES = (0.5, 0.95, 0.99)
_NAMES = ("p50", "p95", "p99")
_LATENCIES = tuple(f"latencyMs{name.upper()}" for name in _NAMES)
WINDOWS_DRAWN_MAX = 5_000
# Rows, one per window and topic, that the page of a run that goes on shows: the newest.
RECENT_ROWS_MAX = 5_000
TAGS_SHOWN = 20


class Stats(Job, kw_only=True):
    """Count messages, bytes and latencies in windows of time.

    Latency is the time from a message's birth at its producer to its storage at the broker, by
    the clocks of both machines.
    """

    name: ClassVar[str] = "stats"

    topics: Annotated[str, Meta(description="topics, separated by commas")]
    window: Annotated[str, Meta(description="length of a window")] = "1m"
    since: Annotated[str, Meta(description="messages stored from then on: ISO or ms")] = ""
    until: Annotated[
        str, Meta(description="messages stored before then: ISO or ms; not with every")
    ] = ""
    top: Annotated[int, Meta(description="how many tags are shown; not with every", ge=1)] = (
        TAGS_SHOWN
    )
    report: Annotated[
        str, Meta(description="write an HTML report to this file; with every, of windows in path")
    ] = ""
    path: Annotated[str, Meta(description="write the windows as Parquet to this folder")] = ""
    to_topic: Annotated[str, Meta(description="send the windows as JSON to this topic")] = ""
    every: Annotated[
        str, Meta(description="run on, writing windows that are complete to path or toTopic")
    ] = ""
    late: Annotated[str, Meta(description="how late messages may come while it runs on")] = "1m"
    checkpoint: Annotated[str, Meta(description="where Spark keeps the position")] = ""

    def run(self, spark: "SparkSession | None" = None, say: Say = lambda _: None) -> Report:
        self._check()
        with job_session(self.spark, spark) as session:
            if self.every:
                return self._follow(session, say)
            messages = session.read.format("rocketmq").options(**self._options()).load()
            return self.summed_up(messages, say)

    def plan(self, spark: "SparkSession | None" = None) -> Report:
        self._check()
        checkpoint = self._checkpoint_path() if self.every else None
        with job_session(self.spark, spark) as session:
            backlog = backlog_of(session, self._reach(), checkpoint, is_sized=True)
        return Report(facts={"window": self.window, **backlog.facts()}, tables=[backlog.table()])

    def summed_up(self, messages: "DataFrame", say: Say = lambda _: None) -> Report:
        """The report of messages that have COLUMNS; the windows are written where they are to."""
        clock = Clock()
        messages = messages.cache()
        windows = windowed(messages, self._window_text()).orderBy("windowStart", "topic").cache()
        try:
            say("counting")
            rows = collect_utc(windows)
            say("finding the most frequent tags")
            tags = _top_tags(messages, self.top)
            totals = _totals(messages)
            if rows:
                self._write(windows)
        finally:
            windows.unpersist()
            messages.unpersist()
        report = Report(
            facts={**totals, "seconds": round(clock.seconds, 1)},
            tables=[_window_table("Windows", rows), _tag_table(tags)],
        )
        return self._with_page(report, [*_sections(rows), _tag_section(tags)])

    def _check(self) -> None:
        """Raises ConfigError for what cannot be done, before anything is."""
        self._window_text()
        if not self.every:
            return
        trigger_options(self.every)
        spark_duration("late", self.late)
        if self.until or self.top != TAGS_SHOWN:
            raise ConfigError("until and top are for stats that do not run on")
        if bool(self.path) == bool(self.to_topic):
            raise ConfigError("stats that run on need path or toTopic, one of them")
        if self.report and not self.path:
            raise ConfigError("stats that run on make their report of the windows in path")
        if not self._checkpoint_path():
            raise ConfigError("stats that run on to a topic need checkpoint")

    def _checkpoint_path(self) -> str:
        return self.checkpoint or (f"{self.path.rstrip('/')}/_checkpoint" if self.path else "")

    def _reach(self) -> dict[str, str]:
        """Which messages: options of the source."""
        return self.source_options(
            subscribe=self.topics,
            startingOffsets="earliest" if self.every and not self.since else "",
            startingTimestamp=self.since,
            endingTimestamp=self.until,
        )

    def _options(self) -> dict[str, str]:
        return {"columns": COLUMNS, **self._reach()}

    def _write(self, windows: "DataFrame") -> None:
        if self.path:
            windows.write.mode("append").parquet(self.path)
        if self.to_topic:
            (
                as_messages(windows)
                .write.format("rocketmq")
                .options(**self.sink_options(self.to_topic))
                .mode("append")
                .save()
            )

    def _follow(self, session: "SparkSession", say: Say) -> Report:
        """Run on; a report shows the newest windows there are, and is made anew after each batch,
        when Spark has written those that the batch before completed."""
        clock, checkpoint = Clock(), self._checkpoint_path()
        messages = (
            session.readStream.format("rocketmq")
            .options(**self._options())
            .load()
            .withWatermark("storeTimestamp", spark_duration("late", self.late))
        )
        windows = windowed(messages, self._window_text())
        writer = (as_messages(windows) if self.to_topic else windows).writeStream.outputMode(
            "append"
        )
        writer = writer.option("checkpointLocation", checkpoint).trigger(
            **trigger_options(self.every)
        )
        if self.to_topic:
            writer = writer.format("rocketmq").options(**self.sink_options(self.to_topic))
        else:
            writer = writer.format("parquet").option("path", self.path)

        def renew() -> None:
            if self.report:
                self._told(session, windows, clock)

        forget_drafts(checkpoint, session)
        run_query(writer, say, on_batches=renew)
        return self._told(session, windows, clock)

    def _told(self, session: "SparkSession", windows: "DataFrame", clock: Clock) -> Report:
        """What there is by now, as a report and a page if that is wanted."""
        facts = {"seconds": round(clock.seconds, 1)}
        if not self.report:
            return Report(facts=facts)
        # Told what to look for, Spark finds nothing where there is nothing yet.
        rows = _newest(session.read.schema(windows.schema).parquet(self.path))
        table = _window_table("The newest windows", rows[::-1])
        report = Report(facts={**_sums(rows), **facts}, tables=[table])
        return self._with_page(report, _sections(rows))

    def _window_text(self) -> str:
        return spark_duration("window", self.window)

    def _with_page(self, report: Report, sections: "Sequence[Section]") -> Report:
        """The report, and where its page is if one is wanted."""
        if self.report:
            title = f"Messages of {self.topics}"
            page = write_report(self.report, title, report.facts, sections, report.tables)
            report.facts["report"] = str(page)
        return report


def windowed(messages: "DataFrame", window: str) -> "DataFrame":
    """One row per window and topic."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

    latency = f.unix_micros("storeTimestamp") - f.unix_micros("bornTimestamp")
    cut: Column = f.window("storeTimestamp", window)
    quantiles = f.percentile_approx(latency / 1000, list(PERCENTILES))
    counted = (
        messages.groupBy(cut.alias("window"), "topic")
        .agg(
            f.count(f.lit(1)).alias("messages"),
            f.sum("size").alias("bytes"),
            f.max("size").alias("largestBytes"),
            quantiles.alias("latencies"),
        )
        .select(
            f.col("window.start").alias("windowStart"),
            f.col("window.end").alias("windowEnd"),
            *("topic", "messages", "bytes", "largestBytes"),
            *(f.col("latencies")[place].alias(column) for place, column in enumerate(_LATENCIES)),
        )
    )
    return counted


def as_messages(windows: "DataFrame") -> "DataFrame":
    """Windows as JSON bodies, keyed by topic."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    return windows.select(f.to_json(f.struct("*")).alias("body"), f.col("topic").alias("keys"))


def _totals(messages: "DataFrame") -> dict[str, Any]:
    from pyspark.sql import functions as f  # noqa: PLC0415

    latency = (f.unix_micros("storeTimestamp") - f.unix_micros("bornTimestamp")) / 1000
    summed = messages.agg(
        f.count(f.lit(1)).alias("messages"),
        f.sum("size").alias("bytes"),
        f.percentile_approx("size", [0.5, 0.99]).alias("sizes"),
        f.percentile_approx(latency, [0.5, 0.99]).alias("latencies"),
        f.min("storeTimestamp").alias("first"),
        f.max("storeTimestamp").alias("last"),
    )
    [row] = collect_utc(summed)
    sizes, latencies = row["sizes"] or [None, None], row["latencies"] or [None, None]
    return {
        "messages": row["messages"],
        "bytes": row["bytes"] or 0,
        "first": row["first"],
        "last": row["last"],
        "size p50": sizes[0],
        "size p99": sizes[1],
        "latency p50 ms": latencies[0],
        "latency p99 ms": latencies[1],
    }


def _top_tags(messages: "DataFrame", count: int) -> "list[Row]":
    from pyspark.sql import functions as f  # noqa: PLC0415

    return list(
        messages.groupBy("topic", "tags")
        .agg(f.count(f.lit(1)).alias("messages"), f.sum("size").alias("bytes"))
        .orderBy(f.desc("messages"), "topic", "tags")
        .limit(count)
        .collect()
    )


def _newest(windows: "DataFrame") -> "list[Row]":
    """The last ones, in the order of time."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    last = windows.orderBy(f.desc("windowStart"), f.desc("topic")).limit(RECENT_ROWS_MAX)
    rows = collect_utc(last)[::-1]
    if len(rows) == RECENT_ROWS_MAX and rows[0]["windowStart"] != rows[-1]["windowStart"]:
        # The first window may lack topics.
        return [row for row in rows if row["windowStart"] != rows[0]["windowStart"]]
    return rows


def _sums(windows: "list[Row]") -> dict[str, Any]:
    return {
        "messages": sum(row["messages"] for row in windows),
        "bytes": sum(row["bytes"] or 0 for row in windows),
        "from": windows[0]["windowStart"] if windows else None,
        "to": windows[-1]["windowEnd"] if windows else None,
    }


def _window_table(title: str, windows: "list[Row]") -> ReportTable:
    return ReportTable(
        title=title,
        columns=["from", "topic", "messages", "bytes", "p50 ms", "p95 ms", "p99 ms"],
        rows=[
            [
                *(row["windowStart"], row["topic"], row["messages"], row["bytes"]),
                *(row[column] for column in _LATENCIES),
            ]
            for row in windows
        ],
    )


def _tag_table(tags: "list[Row]") -> ReportTable:
    return ReportTable(
        title="Most frequent tags",
        columns=["topic", "tags", "messages", "bytes"],
        rows=[[row["topic"], row["tags"], row["messages"], row["bytes"]] for row in tags],
    )


def _sections(windows: "list[Row]") -> list[Section]:
    starts = _starts(windows)
    axis = time_axis(starts)
    latencies = _slowest(windows, starts)
    return [
        Section("Messages per window", line_chart(axis, _by_topic(windows, starts, "messages"))),
        Section("Bytes per window", line_chart(axis, _by_topic(windows, starts, "bytes"), "B")),
        Section("Latency from birth to storage", line_chart(axis, latencies, " ms")),
    ]


def _tag_section(tags: "list[Row]") -> Section:
    named = [(f"{row['topic']} {row['tags'] or '(none)'}", float(row["messages"])) for row in tags]
    return Section("Messages by tag", bar_chart(named))


def _starts(windows: "Sequence[Any]") -> list[datetime]:
    """Of all windows from the first to the last, those without messages too: time is an axis."""
    known = sorted({row["windowStart"] for row in windows})
    if not known:
        return []
    step: timedelta = windows[0]["windowEnd"] - windows[0]["windowStart"]
    count = round((known[-1] - known[0]) / step) + 1
    if count > WINDOWS_DRAWN_MAX:
        return known
    return [known[0] + step * number for number in range(count)]


def _by_topic(windows: "Sequence[Any]", starts: list[datetime], column: str) -> list[Line]:
    """A line per topic; of many topics those with the most messages, and one for all others."""
    sizes: Counter[str] = Counter()
    for row in windows:
        sizes[row["topic"]] += row["messages"]
    count_max = LINES_MAX if len(sizes) <= LINES_MAX else LINES_MAX - 1
    shown = sorted(sorted(sizes), key=lambda topic: -sizes[topic])[:count_max]
    others = f"{len(sizes) - len(shown)} others"
    values: dict[str, Counter[datetime]] = {topic: Counter() for topic in sorted(shown)}
    for row in windows:
        name = row["topic"] if row["topic"] in shown else others
        values.setdefault(name, Counter())[row["windowStart"]] += row[column] or 0
    return [Line(name, [float(own[start]) for start in starts]) for name, own in values.items()]


def _slowest(windows: "Sequence[Any]", starts: list[datetime]) -> list[Line]:
    """The slowest topic of each window: an average of percentiles would mean nothing."""
    lines = []
    for name, column in zip(_NAMES, _LATENCIES, strict=True):
        worst: dict[datetime, float] = {}
        for row in windows:
            start, value = row["windowStart"], row[column]
            if value is not None:
                worst[start] = max(float(value), worst.get(start, -inf))
        lines.append(Line(name, [worst.get(start) for start in starts]))
    return lines
