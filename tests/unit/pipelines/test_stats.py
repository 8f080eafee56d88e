"""What stats refuse, and what they make of many topics; no Spark."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from emberq.errors import ConfigError
from emberq.pipelines.charts import LINES_MAX
from emberq.pipelines.stats import Stats, _by_topic, _slowest, _starts

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def window(minute: int, topic: str = "orders", messages: int = 1, latency: float = 1) -> Any:
    return {
        "windowStart": NOON + MINUTE * minute,
        "windowEnd": NOON + MINUTE * (minute + 1),
        **{"topic": topic, "messages": messages, "bytes": messages * 10},
        **{f"latencyMs{name}": latency for name in ("P50", "P95", "P99")},
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "w", "until": "2026-01-01"}, "until and top"),
        ({"path": "w", "top": 5}, "until and top"),
        ({"to_topic": "t", "checkpoint": "c", "report": "r.html"}, "report of the windows in path"),
        ({}, "need path or toTopic"),
        ({"path": "w", "to_topic": "t"}, "need path or toTopic"),
        ({"to_topic": "t"}, "need checkpoint"),
        ({"path": "w", "late": "soon"}, "late='soon'"),
        ({"path": "w", "window": "long"}, "window='long'"),
    ],
)
def test_what_a_run_that_goes_on_cannot_do_is_told_before_spark_starts(
    options: dict[str, Any], message: str
) -> None:
    job = Stats(topics="orders", every="1m", **options)

    with pytest.raises(ConfigError, match=message):
        job.run()
    with pytest.raises(ConfigError, match=message):
        job.plan()


def test_windows_without_messages_have_their_place_on_the_axis() -> None:
    windows = [window(0), window(4)]

    assert _starts(windows) == [NOON + MINUTE * at for at in range(5)]


def test_topics_with_few_messages_are_summed_so_that_lines_can_be_told_apart() -> None:
    windows = [window(0, f"topic-{number:02}", 100 - number) for number in range(20)]
    windows.append(window(1, "topic-19", 5))

    lines = _by_topic(windows, _starts(windows), "bytes")

    assert [line.name for line in lines] == [
        *(f"topic-{number:02}" for number in range(LINES_MAX - 1)),
        "13 others",
    ]
    assert sum(sum(value or 0 for value in line.values) for line in lines) == sum(
        row["bytes"] for row in windows
    )
    assert lines[-1].values[1] == 50


def test_as_many_topics_as_can_be_told_apart_have_their_own_lines() -> None:
    windows = [window(0, f"topic-{number}") for number in range(LINES_MAX)]

    names = [line.name for line in _by_topic(windows, _starts(windows), "messages")]

    assert names == [f"topic-{number}" for number in range(LINES_MAX)]


def test_the_slowest_topic_of_a_window_counts_also_if_clocks_make_all_negative() -> None:
    windows = [window(0, "a", latency=-70), window(0, "b", latency=-50), window(2, "a", latency=3)]

    assert [line.values for line in _slowest(windows, _starts(windows))] == [[-50, None, 3]] * 3
