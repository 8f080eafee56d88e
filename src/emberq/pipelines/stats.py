"""Throughput, sizes and latencies of topics over time."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from emberq.errors import ConfigError
from emberq.pipelines.backlog import backlog_of
from emberq.pipelines.charts import Line, bar_chart, line_chart
from emberq.pipelines.html_report import Section, write_report
from emberq.pipelines.job import Job, Report, ReportTable, Say
from emberq.pipelines.session import job_session
from emberq.pipelines.streaming import (
    Clock,
    forget_drafts,
    run_query,
    spark_duration,
    trigger_options,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = "topic,tags,bornTimestamp,storeTimestamp,size"
PERCENTILES = (0.5, 0.95, 0.99)
_NAMES = ("p50", "p95", "p99")
WINDOWS_DRAWN_MAX = 5_000


class Stats(Job, kw_only=True):
    """Count messages, bytes and latencies in windows of time.

    Latency is the time from a message's birth at its producer to its storage at the broker, by
    the clocks of both machines.
    """

    name: ClassVar[str] = "stats"

    topics: Annotated[str, Meta(description="topics, separated by commas")]
    window: Annotated[str, Meta(description="length of a window")] = "1m"
    since: Annotated[str, Meta(description="messages stored from then on: ISO or ms")] = ""
    until: Annotated[str, Meta(description="messages stored before then: ISO or ms")] = ""
    top: Annotated[int, Meta(description="how many tags are shown", ge=1)] = 20
    report: Annotated[str, Meta(description="write an HTML report to this file")] = ""
    path: Annotated[str, Meta(description="write the windows as Parquet to this folder")] = ""
    to_topic: Annotated[str, Meta(description="send the windows as JSON to this topic")] = ""
    every: Annotated[
        str, Meta(description="run on, writing windows that are complete to path or toTopic")
    ] = ""
    late: Annotated[str, Meta(description="how late messages may come while it runs on")] = "1m"
    checkpoint: Annotated[str, Meta(description="where Spark keeps the position")] = ""

    def run(self, spark: "SparkSession | None" = None, say: Say = lambda _: None) -> Report:
        with job_session(self.spark, spark) as session:
            if self.every:
                return self._follow(session, say)
            return self._once(session, say)

    def plan(self, spark: "SparkSession | None" = None) -> Report:
        with job_session(self.spark, spark) as session:
            backlog = backlog_of(session, self.source_options(subscribe=self.topics), None)
        return Report(facts={"window": self.window, **backlog.facts()}, tables=[backlog.table()])

    def _options(self) -> dict[str, str]:
        return self.source_options(
            subscribe=self.topics,
            columns=COLUMNS,
            startingTimestamp=self.since,
            endingTimestamp=self.until,
        )

    def _once(self, session: "SparkSession", say: Say) -> Report:
        clock = Clock()
        messages = session.read.format("rocketmq").options(**self._options()).load().cache()
        try:
            say("counting")
            windows = (
                windowed(messages, self._window_text()).orderBy("windowStart", "topic").collect()
            )
            say("finding the most frequent tags")
            tags = _top_tags(messages, self.top)
            totals = _totals(messages)
        finally:
            messages.unpersist()
        self._write(session, windows)
        report = Report(
            facts={**totals, "seconds": round(clock.seconds, 1)},
            tables=[_window_table(windows), _tag_table(tags)],
        )
        if self.report:
            report.facts["report"] = str(self._html(report, windows, tags))
        return report

    def _write(self, session: "SparkSession", windows: list[Any]) -> None:
        if not windows or not (self.path or self.to_topic):
            return
        frame = session.createDataFrame(windows)
        if self.path:
            frame.write.mode("append").parquet(self.path)
        if self.to_topic:
            (
                as_messages(frame)
                .write.format("rocketmq")
                .options(**self.sink_options(self.to_topic))
                .mode("append")
                .save()
            )

    def _follow(self, session: "SparkSession", say: Say) -> Report:
        if bool(self.path) == bool(self.to_topic):
            raise ConfigError("stats that run on need path or toTopic, one of them")
        checkpoint = self.checkpoint or (
            f"{self.path.rstrip('/')}/_checkpoint" if self.path else ""
        )
        if not checkpoint:
            raise ConfigError("stats that run on to a topic need checkpoint")
        options = self._options() | {"startingOffsets": "earliest"}
        options.pop("startingTimestamp", None)
        options.pop("endingTimestamp", None)
        messages = (
            session.readStream.format("rocketmq")
            .options(**options)
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
        clock = Clock()
        forget_drafts(checkpoint)
        run_query(writer, say)
        return Report(facts={"seconds": round(clock.seconds, 1)})

    def _window_text(self) -> str:
        return spark_duration("window", self.window)

    def _html(self, report: Report, windows: list[Any], tags: list[Any]) -> Any:
        facts = {name: value for name, value in report.facts.items() if name != "report"}
        return write_report(
            self.report,
            f"Messages of {self.topics}",
            facts,
            _sections(windows, tags),
            report.tables,
        )


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
            *(
                f.col("latencies")[place].alias(f"latencyMs{name.upper()}")
                for place, name in enumerate(_NAMES)
            ),
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
    row = messages.agg(
        f.count(f.lit(1)).alias("messages"),
        f.sum("size").alias("bytes"),
        f.percentile_approx("size", [0.5, 0.99]).alias("sizes"),
        f.percentile_approx(latency, [0.5, 0.99]).alias("latencies"),
        f.min("storeTimestamp").alias("first"),
        f.max("storeTimestamp").alias("last"),
    ).collect()[0]
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


def _top_tags(messages: "DataFrame", count: int) -> list[Any]:
    from pyspark.sql import functions as f  # noqa: PLC0415

    return list(
        messages.groupBy("topic", "tags")
        .agg(f.count(f.lit(1)).alias("messages"), f.sum("size").alias("bytes"))
        .orderBy(f.desc("messages"), "topic", "tags")
        .limit(count)
        .collect()
    )


def _window_table(windows: list[Any]) -> ReportTable:
    return ReportTable(
        title="Windows",
        columns=["from", "topic", "messages", "bytes", "p50 ms", "p95 ms", "p99 ms"],
        rows=[
            [
                *(row["windowStart"], row["topic"], row["messages"], row["bytes"]),
                *(row[f"latencyMs{name.upper()}"] for name in _NAMES),
            ]
            for row in windows
        ],
    )


def _tag_table(tags: list[Any]) -> ReportTable:
    return ReportTable(
        title="Most frequent tags",
        columns=["topic", "tags", "messages", "bytes"],
        rows=[[row["topic"], row["tags"], row["messages"], row["bytes"]] for row in tags],
    )


def _sections(windows: list[Any], tags: list[Any]) -> list[Section]:
    topics = sorted({row["topic"] for row in windows})
    starts = _starts(windows)
    labels = [start.strftime("%H:%M:%S") for start in starts]
    by_place = {(row["windowStart"], row["topic"]): row for row in windows}

    def lines(column: str) -> list[Line]:
        return [
            Line(topic, [_value(by_place.get((start, topic)), column) or 0 for start in starts])
            for topic in topics
        ]

    latencies = [
        Line(name, [_worst(by_place, start, topics, name) for start in starts]) for name in _NAMES
    ]
    named = [(f"{row['topic']} {row['tags'] or '(none)'}", float(row["messages"])) for row in tags]
    return [
        Section("Messages per window", line_chart(labels, lines("messages"))),
        Section("Bytes per window", line_chart(labels, lines("bytes"), "B")),
        Section("Latency from birth to storage", line_chart(labels, latencies, " ms")),
        Section("Messages by tag", bar_chart(named)),
    ]


def _starts(windows: list[Any]) -> list[datetime]:
    """Of all windows from the first to the last, those without messages too: time is an axis."""
    known = sorted({row["windowStart"] for row in windows})
    if not known:
        return []
    step = windows[0]["windowEnd"] - windows[0]["windowStart"]
    count = round((known[-1] - known[0]) / step) + 1
    if count > WINDOWS_DRAWN_MAX:
        return known
    return [known[0] + step * number for number in range(count)]


def _value(row: Any, column: str) -> float | None:
    return None if row is None or row[column] is None else float(row[column])


def _worst(by_place: dict[Any, Any], start: Any, topics: list[str], name: str) -> float | None:
    """The slowest topic of a window: an average of percentiles would mean nothing."""
    values = [_value(by_place.get((start, topic)), f"latencyMs{name.upper()}") for topic in topics]
    return max((value for value in values if value is not None), default=None)
