"""Reports are whole pages that load nothing."""

import re
from datetime import UTC, datetime, timedelta

from emberq.pipelines.charts import Line, bar_chart, line_chart
from emberq.pipelines.html_report import Section, render
from emberq.pipelines.job import ReportTable
from emberq.pipelines.stats import _starts


def test_a_page_shows_facts_charts_and_tables_and_loads_nothing() -> None:
    chart = line_chart(["10:00", "10:01"], [Line("orders", [1, 250]), Line("p99", [None, 3.5])])
    table = ReportTable(title="Windows", columns=["topic", "messages"], rows=[["<b>", 1234]])

    page = render(
        "Messages",
        {"messages": 1251, "last": datetime(2026, 1, 1, tzinfo=UTC)},
        [Section("Throughput", chart)],
        [table],
    )

    assert "1,251" in page
    assert "2026-01-01 00:00:00" in page
    assert "&lt;b&gt;" in page
    assert not re.search(r"(src|href)=|url\(|@import|<script", page)


def test_lines_stay_inside_their_chart() -> None:
    chart = line_chart([str(n) for n in range(50)], [Line("a", [n * 1e7 for n in range(50)])])

    heights = [float(y) for y in re.findall(r"[ML][\d.]+,([\d.-]+)", chart)]
    assert len(heights) == 50
    assert all(0 <= y <= 240 for y in heights)


def test_charts_without_values_are_empty_but_whole() -> None:
    assert line_chart([], []).endswith("</svg>")
    assert bar_chart([]).endswith("</svg>")
    assert "circle" in line_chart(["one"], [Line("a", [5])])


def test_windows_without_messages_have_their_place_on_the_axis() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    minute = timedelta(minutes=1)
    windows = [
        {"windowStart": noon + minute * at, "windowEnd": noon + minute * (at + 1)} for at in (0, 4)
    ]

    assert _starts(windows) == [noon + minute * at for at in range(5)]
