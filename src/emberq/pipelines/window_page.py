"""Windows of messages as tables and charts; rows in, no Spark."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Any

from emberq.pipelines.charts import LINES_MAX, Line, line_chart, time_axis
from emberq.pipelines.html_report import Section, chart_section
from emberq.pipelines.job import ReportTable
from emberq.pipelines.message_windows import LARGEST, LATENCIES, NAMES, OTHERS, SIZES

HIGHEST_NOTE = "Of several topics or tags, the one with the highest value counts."
_TITLES = {"topic": "", "tag": " by tag", "key": " by key"}


def window_table(windows: Sequence[Any], part: str, *, is_all: bool) -> ReportTable:
    """Rows in the order of time; the newest first where they are not all."""
    parts = [part] if part else []
    return ReportTable(
        title="Windows" if is_all else "The newest windows",
        columns=[
            *("from", "topic", *parts, "messages", "bytes"),
            *(f"size {name}" for name in NAMES),
            *("largest", *(f"{name} ms" for name in NAMES)),
        ],
        rows=[
            [
                *(row["windowStart"], row["topic"], *(row[name] for name in parts)),
                *(row["messages"], row["bytes"], *(row[name] for name in SIZES)),
                *(row[LARGEST], *(row[name] for name in LATENCIES)),
            ]
            for row in (windows if is_all else reversed(windows))
        ],
    )


def names_shown(messages: Mapping[str, int]) -> tuple[list[str], str]:
    """The names with lines of their own, those with the most messages; and the name of the line
    that all others have together."""
    named = [name for name in messages if name != OTHERS]
    count_max = LINES_MAX if len(messages) <= LINES_MAX else LINES_MAX - 1
    shown = sorted(sorted(named), key=lambda name: -messages[name])[:count_max]
    # How many those are that have no windows of their own, nobody has counted.
    left = "all" if OTHERS in messages else f"{len(messages) - len(shown)}"
    return shown, f"{left} others"


def throughput_sections(
    rows: Sequence[Any], starts: Sequence[datetime], others: str, part: str, note: str = ""
) -> list[Section]:
    """Messages and bytes over time, a line per name; `rows` are those of points."""
    axis, by = time_axis(starts), _TITLES[part]
    return [
        chart_section(
            f"{title} per window{by}",
            line_chart(axis, lines_by_name(rows, starts, column, others), unit),
            note,
        )
        for title, column, unit in (("Messages", "messages", ""), ("Bytes", "bytes", "B"))
    ]


def percentile_sections(
    rows: Sequence[Any], starts: Sequence[datetime], note: str = ""
) -> list[Section]:
    axis = time_axis(starts)
    sizes = [*zip(NAMES, SIZES, strict=True), ("largest", LARGEST)]
    latencies = list(zip(NAMES, LATENCIES, strict=True))
    charts = (
        ("Sizes of messages", sizes, "B"),
        ("Latency from birth to storage", latencies, " ms"),
    )
    sections = []
    for title, columns, unit in charts:
        lines = [each for each in highest(rows, starts, columns) if any_value(each)]
        if lines:  # folders from before sizes were told have none
            sections.append(chart_section(title, line_chart(axis, lines, unit), note))
    return sections


def lines_by_name(
    rows: Sequence[Any], starts: Sequence[datetime], column: str, others: str
) -> list[Line]:
    """A line per name, that of all others last."""
    values: dict[str, Counter[datetime]] = {}
    for row in rows:
        values.setdefault(row["name"], Counter())[row["windowStart"]] += row[column] or 0
    names = sorted(values, key=lambda name: (name == others, name))
    return [Line(name, [float(values[name][start]) for start in starts]) for name in names]


def highest(
    rows: Sequence[Any], starts: Sequence[datetime], columns: Sequence[tuple[str, str]]
) -> list[Line]:
    """The highest of each point: an average of percentiles would mean nothing."""
    lines = []
    for name, column in columns:
        worst: dict[datetime, float] = {}
        for row in rows:
            start, value = row["windowStart"], row[column]
            if value is not None:
                worst[start] = max(float(value), worst.get(start, -inf))
        lines.append(Line(name, [worst.get(start) for start in starts]))
    return lines


def any_value(line: Line) -> bool:
    return any(value is not None for value in line.values)
