"""Journeys as charts over time and by group; however many there are, few points are drawn."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from emberq.pipelines.chart_windows import drawing_note, drawn_length, drawn_starts
from emberq.pipelines.charts import Line, line_chart, time_axis
from emberq.pipelines.html_report import Section, bar_section, chart_section
from emberq.pipelines.job import ReportTable
from emberq.pipelines.journey_report import NAMES, PERCENTILES, TAGS, sent_messages
from emberq.pipelines.times import collect_utc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

LARGEST = "largest"


def journey_sections(
    journeys: "DataFrame", window: timedelta, tables: Sequence[ReportTable]
) -> list[Section]:
    """Charts of journeys; that of tags shows what the table of tags says."""
    return [
        *_over_time(journeys, window),
        bar_section("Messages by consumer group", _by_group(journeys)),
        *(_tag_section(each) for each in tables if each.title == TAGS),
    ]


def _over_time(journeys: "DataFrame", window: timedelta) -> list[Section]:
    span = _span(journeys)
    if span is None:
        return []
    first, last = span
    length = drawn_length(first, last, window)
    starts, note = drawn_starts(first, last, length), drawing_note(window, length)
    sent, told = _sent_in(journeys, length), _latencies_in(journeys, length)
    axis = time_axis(starts)

    def chart(title: str, lines: list[Line], unit: str = "") -> Section:
        return chart_section(title, line_chart(axis, lines, unit), note)

    sizes = [
        *percentile_lines(sent, starts, "sizes"),
        Line(LARGEST, [_value(sent.get(start), LARGEST) for start in starts]),
    ]
    return [
        chart("Messages sent per window", [_counts(sent, starts, "messages")]),
        chart("Bytes sent per window", [_counts(sent, starts, "bytes")], "B"),
        chart("Sizes of bodies", sizes, "B"),
        chart("From the send to the consumer", percentile_lines(told, starts, "deliveryMs"), " ms"),
        chart("From the send to the end", percentile_lines(told, starts, "endToEndMs"), " ms"),
    ]


def percentile_lines(
    rows: "dict[datetime, Row]", starts: Sequence[datetime], column: str
) -> list[Line]:
    """A line per percentile; points without any leave a gap."""
    found = [_value(rows.get(start), column) for start in starts]
    return [
        Line(name, [each[place] if each else None for each in found])
        for place, name in enumerate(NAMES)
    ]


def _counts(rows: "dict[datetime, Row]", starts: Sequence[datetime], column: str) -> Line:
    return Line(column, [float(_value(rows.get(start), column) or 0) for start in starts])


def _value(row: "Row | None", column: str) -> Any:
    return None if row is None else row[column]


def _span(journeys: "DataFrame") -> tuple[datetime, datetime] | None:
    """When the first message and the last one were sent; None if nobody told."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

    sent = sent_messages(journeys).agg(
        f.min("sentAt").alias("first"), f.max("sentAt").alias("last")
    )
    [row] = collect_utc(sent)
    return None if row["first"] is None else (row["first"], row["last"])


def _sent_in(journeys: "DataFrame", length: timedelta) -> "dict[datetime, Row]":
    from pyspark.sql import functions as f  # noqa: PLC0415

    return _by_start(
        sent_messages(journeys),
        length,
        f.count(f.lit(1)).alias("messages"),
        f.sum("bodySize").alias("bytes"),
        f.percentile_approx("bodySize", list(PERCENTILES)).alias("sizes"),
        f.max("bodySize").alias(LARGEST),
    )


def _latencies_in(journeys: "DataFrame", length: timedelta) -> "dict[datetime, Row]":
    from pyspark.sql import functions as f  # noqa: PLC0415

    names = ("deliveryMs", "endToEndMs")
    handled = journeys.filter("consumerGroup IS NOT NULL")
    columns = (f.percentile_approx(name, list(PERCENTILES)).alias(name) for name in names)
    return _by_start(handled, length, *columns)


def _by_start(frame: "DataFrame", length: timedelta, *columns: Any) -> "dict[datetime, Row]":
    """Windows of messages by the time of their send."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    window = f.window("sentAt", f"{length // timedelta(milliseconds=1)} milliseconds")
    rows = (
        frame.filter("sentAt IS NOT NULL")
        .groupBy(window.alias("window"))
        .agg(*columns)
        .withColumn("start", f.col("window.start"))
        .drop("window")
    )
    return {row["start"]: row for row in collect_utc(rows)}


def _by_group(journeys: "DataFrame") -> list[tuple[str, float]]:
    from pyspark.sql import functions as f  # noqa: PLC0415

    groups = journeys.filter("isConsumed").groupBy("consumerGroup").count()
    ordered = groups.orderBy(f.desc("count"), "consumerGroup")
    return [(row[0], float(row[1])) for row in ordered.collect()]


def _tag_section(table: ReportTable) -> Section:
    rows = ((topic, tags or "(none)", count) for topic, tags, count, _ in table.rows)
    return bar_section(
        "Messages by tag", [(f"{topic} {tags}", float(n)) for topic, tags, n in rows]
    )
