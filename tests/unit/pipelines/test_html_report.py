"""Reports are whole pages that load nothing."""

import re
from datetime import UTC, datetime, timedelta, timezone

from emberq.pipelines.charts import Axis, Line, line_chart
from emberq.pipelines.html_report import Section, render, shown
from emberq.pipelines.job import ReportTable


def test_a_page_shows_facts_charts_and_tables_and_loads_nothing() -> None:
    chart = line_chart(
        Axis(["10:00", "10:01"]), [Line("orders", [1, 250]), Line("p99", [None, 3.5])]
    )
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


def test_times_are_shown_in_utc_and_say_so() -> None:
    summer = timezone(timedelta(hours=2))

    moment = datetime(2026, 10, 25, 2, 30, tzinfo=summer)

    assert shown(moment) == "2026-10-25 00:30:00Z"
    assert shown(moment.replace(tzinfo=None)) == "2026-10-25 02:30:00"
