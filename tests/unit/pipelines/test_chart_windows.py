"""However many windows there are, few points are drawn."""

from datetime import UTC, datetime, timedelta

import pytest

from emberq.pipelines.chart_windows import (
    POINTS_MAX,
    drawing_note,
    drawn_length,
    drawn_starts,
    duration_text,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)


def test_windows_without_messages_have_their_place_on_the_axis() -> None:
    last = NOON + MINUTE * 4

    assert drawn_length(NOON, last, MINUTE) == MINUTE
    assert drawn_starts(NOON, last, MINUTE) == [NOON + MINUTE * at for at in range(5)]
    assert drawing_note(MINUTE, MINUTE) == ""


def test_three_days_of_seconds_are_points_of_ten_minutes_and_it_is_said() -> None:
    length = drawn_length(NOON, NOON + DAY * 3, SECOND)

    assert length == MINUTE * 10
    assert drawing_note(SECOND, length) == (
        "Each point stands for 10 minutes: windows of 1 second would be more than the 500 points "
        "that are drawn."
    )


@pytest.mark.parametrize("window", [SECOND, SECOND * 7, MINUTE, DAY, timedelta(milliseconds=3)])
@pytest.mark.parametrize("count", [1, POINTS_MAX, POINTS_MAX + 1, 12_345, 31_536_000])
@pytest.mark.parametrize("late", [timedelta(0), timedelta(seconds=3599)])
def test_points_are_few_and_whole_windows_wherever_these_begin(
    window: timedelta, count: int, late: timedelta
) -> None:
    first = datetime(1971, 1, 1, tzinfo=UTC) + late
    last = first + window * (count - 1) if window < DAY else first + window * min(count, 12_345)

    length = drawn_length(first, last, window)
    starts = drawn_starts(first, last, length)

    assert not length % window
    assert len(starts) <= POINTS_MAX
    assert starts[0] <= first < starts[0] + length
    assert starts[-1] <= last < starts[-1] + length


def test_points_begin_where_windows_of_spark_do() -> None:
    odd = NOON + timedelta(minutes=3, seconds=20)

    assert drawn_starts(odd, odd, MINUTE * 10) == [NOON]


@pytest.mark.parametrize(
    ("length", "text"),
    [(SECOND, "1 second"), (MINUTE * 90, "90 minutes"), (DAY * 2, "2 days")],
)
def test_lengths_are_told_in_the_largest_unit_that_fits(length: timedelta, text: str) -> None:
    assert duration_text(length) == text
