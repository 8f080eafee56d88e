"""Reports are whole pages that load nothing."""

import errno
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from emberq.errors import ConfigError, PipelineError
from emberq.pipelines.charts import BARS_MAX, Axis, Line, line_chart
from emberq.pipelines.html_report import (
    NOTE,
    Section,
    bar_section,
    check_writable,
    render,
    shown,
    write_report,
)
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


@pytest.mark.parametrize(
    ("value", "seen"), [(94.0, "94"), (13.74, "13.7"), (0.1234, "0.123"), (1234.5, "1,234.5")]
)
def test_numbers_have_as_many_places_as_they_say_something(value: float, seen: str) -> None:
    assert shown(value) == seen


def test_a_sentence_among_the_facts_stands_below_them() -> None:
    page = render("Messages", {"messages": 3, NOTE: "The table has <3 rows."}, [], [])

    assert '<p class="note">The table has &lt;3 rows.</p>' in page
    assert ">note<" not in page


def test_of_very_many_bars_the_first_are_drawn_and_the_rest_is_told_of() -> None:
    section = bar_section("Groups", [(f"group-{number}", 1.0) for number in range(BARS_MAX + 7)])

    assert section.content.count("<rect") == BARS_MAX
    assert "and 7 more" in section.content


def test_a_check_makes_folders_and_leaves_files_as_they_were(tmp_path: Path) -> None:
    new, old = tmp_path / "reports" / "new.html", tmp_path / "old.html"
    old.write_text("yesterday")

    check_writable(str(new))
    check_writable(str(old))

    assert new.parent.is_dir()
    assert not new.exists()
    assert old.read_text() == "yesterday"


def test_a_report_that_is_written_anew_is_whole_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.html"
    write_report(str(page), "Yesterday", {}, [], [])

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Path, "write_text", full)
        with pytest.raises(PipelineError, match="No space left"):
            write_report(str(page), "Today", {}, [], [])

    assert "Yesterday" in page.read_text()
    assert list(tmp_path.iterdir()) == [page]


def test_a_report_may_be_named_by_an_address_of_this_machine_and_no_other(tmp_path: Path) -> None:
    page = tmp_path / "page #1, 100%20?.html"  # signs that mean something elsewhere

    check_writable(f"file://{page}")
    assert write_report(f"file://{page}", "Today", {}, [], []) == page

    assert "Today" in page.read_text()
    with pytest.raises(ConfigError, match=r"^report='s3://lake/page\.html': .*name a file here$"):
        check_writable("s3://lake/page.html")


def test_a_report_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^report='.*' cannot be written: Is a directory$"):
        check_writable(str(tmp_path))
    with pytest.raises(PipelineError, match=r"^the report .* was not written: Is a directory$"):
        write_report(str(tmp_path), "Messages", {}, [], [])
