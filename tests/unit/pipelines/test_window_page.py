"""Tables and charts of windows; no Spark."""

from datetime import UTC, datetime, timedelta
from typing import Any

from emberq.pipelines.charts import LINES_MAX
from emberq.pipelines.message_windows import LATENCIES, OTHERS, SIZES
from emberq.pipelines.window_page import (
    highest,
    lines_by_name,
    names_shown,
    percentile_sections,
    window_table,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STARTS = [NOON + timedelta(minutes=minute) for minute in range(3)]


def point(minute: int, name: str = "orders", size: int | None = 10, latency: float = 1) -> Any:
    return {
        **{"windowStart": STARTS[minute], "topic": name, "name": name, "tag": "paid"},
        **{"messages": 2, "bytes": 20, "largestBytes": size},
        **dict.fromkeys(SIZES, size),
        **dict.fromkeys(LATENCIES, latency),
    }


def test_of_many_names_those_with_the_most_messages_have_lines_of_their_own() -> None:
    messages = {f"topic-{number:02}": 100 - number for number in range(20)}

    assert names_shown(messages) == (
        [f"topic-{number:02}" for number in range(LINES_MAX - 1)],
        "13 others",
    )


def test_as_many_names_as_can_be_told_apart_have_their_own_lines() -> None:
    messages = {f"topic-{number}": 1 for number in range(LINES_MAX)}

    assert names_shown(messages)[0] == sorted(messages)


def test_those_without_windows_of_their_own_are_in_the_line_of_others() -> None:
    messages = {OTHERS: 1000, **{f"tag-{number}": 9 for number in range(LINES_MAX)}}

    shown, others = names_shown(messages)

    assert OTHERS not in shown
    assert len(shown) == LINES_MAX - 1
    assert others == "all others"


def test_the_line_of_others_is_the_last_one() -> None:
    rows = [point(0, "2 others"), point(0, "refunds"), point(2, "refunds")]

    lines = lines_by_name(rows, STARTS, "bytes", "2 others")

    assert [(line.name, line.values) for line in lines] == [
        ("refunds", [20, 0, 20]),
        ("2 others", [20, 0, 0]),
    ]


def test_the_slowest_topic_of_a_point_counts_also_if_clocks_make_all_negative() -> None:
    rows = [point(0, "a", latency=-70), point(0, "b", latency=-50), point(2, "a", latency=3)]

    [line] = highest(rows, STARTS, [("p50", LATENCIES[0])])

    assert line.values == [-50, None, 3]


def test_windows_from_before_sizes_were_told_have_no_chart_of_them() -> None:
    old, new = [point(0, size=None)], [point(0, size=None), point(1)]

    assert [each.title for each in percentile_sections(old, STARTS)] == [
        "Latency from birth to storage"
    ]
    assert [each.title for each in percentile_sections(new, STARTS)] == [
        "Sizes of messages",
        "Latency from birth to storage",
    ]


def test_a_table_of_windows_has_sizes_beside_latencies_and_the_tag_that_was_asked_for() -> None:
    table = window_table([point(0), point(1)], "tag", is_all=True)

    assert table.columns == [
        *("from", "topic", "tag", "messages", "bytes"),
        *("size p50", "size p95", "size p99", "largest", "p50 ms", "p95 ms", "p99 ms"),
    ]
    assert table.rows[0] == [STARTS[0], "orders", "paid", 2, 20, 10, 10, 10, 10, 1, 1, 1]


def test_a_table_of_some_windows_begins_with_the_newest() -> None:
    table = window_table([point(0), point(1)], "", is_all=False)

    assert table.title == "The newest windows"
    assert [row[0] for row in table.rows] == [STARTS[1], STARTS[0]]
