"""Charts show all their values inside their picture, and say when that was."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest

from emberq.pipelines.charts import LINES_MAX, Axis, Line, bar_chart, line_chart, time_axis

MIDNIGHT = datetime(2026, 10, 25, tzinfo=UTC)
LETTER_WIDTH = 6.2  # of 11 pixels, about


def points(chart: str) -> list[tuple[float, float]]:
    dots = re.findall(r'cx="([\d.-]+)" cy="([\d.-]+)"', chart)
    return [
        (float(x), float(y)) for x, y in [*re.findall(r"[ML]([\d.-]+),([\d.-]+)", chart), *dots]
    ]


def size(chart: str) -> tuple[float, float]:
    [found] = re.findall(r'viewBox="0 0 (\d+) (\d+)"', chart)
    return float(found[0]), float(found[1])


def texts(chart: str) -> list[tuple[float, float, str, str]]:
    """Left or middle or right, height, anchor, text."""
    found = re.findall(r'<text x="([\d.-]+)" y="([\d.-]+)"(?: text-anchor="(\w+)")?>([^<]*)', chart)
    return [(float(x), float(y), anchor or "start", text) for x, y, anchor, text in found]


def is_inside(chart: str) -> bool:
    width, height = size(chart)
    for x, y, anchor, text in texts(chart):
        length = len(text) * LETTER_WIDTH
        left = {"start": x, "middle": x - length / 2, "end": x - length}[anchor]
        if not (left >= 0 and left + length <= width and 0 <= y <= height):
            return False
    return all(0 <= x <= width and 0 <= y <= height for x, y in points(chart))


def starts(count: int, step: timedelta, first: datetime = MIDNIGHT) -> list[datetime]:
    return [first + step * number for number in range(count)]


def test_lines_stay_inside_their_chart() -> None:
    axis = Axis([str(n) for n in range(50)])
    chart = line_chart(axis, [Line("a", [n * 1e7 for n in range(50)])])

    assert len(points(chart)) == 50
    assert is_inside(chart)


@pytest.mark.parametrize(
    "values",
    [[-90_000_000.0, 3.0, 4.0], [-5.0, -3.0, -4.0], [0.0, -0.002, 0.0], [-1e9, 0.0, 1e9]],
)
def test_negative_values_are_shown_inside_their_chart(values: list[float]) -> None:
    chart = line_chart(Axis(["a", "b", "c"]), [Line("p50", values)], " ms")

    heights = [y for _, y in points(chart)]
    assert is_inside(chart)
    assert sorted(heights, reverse=True) == [
        heights[place] for place in sorted(range(3), key=lambda place: values[place])
    ]
    assert any(text == "0 ms" for *_, text in texts(chart))


def test_charts_without_values_are_empty_but_whole() -> None:
    assert line_chart(Axis([]), []).endswith("</svg>")
    assert bar_chart([]).endswith("</svg>")
    assert "circle" in line_chart(Axis(["one"]), [Line("a", [5])])
    assert is_inside(line_chart(Axis(["one", "two"]), [Line("a", [0, 0])]))


def test_a_value_between_gaps_is_a_dot() -> None:
    chart = line_chart(Axis(["a", "b", "c", "d"]), [Line("a", [5, None, 6, 7])])

    assert chart.count("<circle") == 1
    assert chart.count("<path") == 1


def test_as_many_lines_as_there_may_be_have_colours_of_their_own_and_legends_in_the_picture() -> (
    None
):
    names = [f"a-topic-with-quite-a-long-name-{number}" for number in range(LINES_MAX)]
    chart = line_chart(Axis(["a", "b"]), [Line(name, [1, 2]) for name in names])

    assert len(set(re.findall(r'stroke="(#\w+)"', chart))) == LINES_MAX
    assert is_inside(chart)
    assert all(f"<title>{name}</title>" in chart for name in names)
    legends = sorted((y, x) for x, y, anchor, _ in texts(chart) if anchor == "start")
    assert len(legends) == LINES_MAX
    lowest = max(y for y, _ in legends)
    assert all(y > lowest for _, y in points(chart))


def test_labels_of_one_day_are_times_and_its_date_stands_beside_them() -> None:
    axis = time_axis(starts(3, timedelta(hours=1)))

    assert axis == Axis(["00:00:00", "01:00:00", "02:00:00"], "2026-10-25 UTC")


def test_labels_of_whole_days_are_dates() -> None:
    assert time_axis(starts(3, timedelta(days=1))).labels == [
        "2026-10-25",
        "2026-10-26",
        "2026-10-27",
    ]


def test_labels_of_more_than_a_day_tell_the_date_and_differ() -> None:
    axis = time_axis(starts(30, timedelta(hours=1)))

    assert axis.labels[0] == "10-25 00:00"
    assert len(set(axis.labels)) == 30
    assert "2026" in axis.note


@pytest.mark.parametrize("step", [timedelta(seconds=30), timedelta(hours=1), timedelta(days=1)])
@pytest.mark.parametrize("count", [1, 2, 8, 9, 50, 1000])
def test_the_labels_that_are_drawn_differ_and_are_in_the_picture(
    count: int, step: timedelta
) -> None:
    chart = line_chart(time_axis(starts(count, step)), [Line("a", [1.0] * count)])

    labels = [text for _, _, anchor, text in texts(chart) if anchor == "middle"]
    assert len(labels) == len(set(labels))
    assert is_inside(chart)


def test_labels_of_many_windows_are_at_round_times() -> None:
    first = MIDNIGHT + timedelta(hours=8, minutes=53)

    chart = line_chart(time_axis(starts(71, timedelta(minutes=1), first)), [Line("a", [1.0] * 71)])

    labels = [text for _, _, anchor, text in texts(chart) if anchor == "middle"]
    assert labels == ["09:00:00", *(f"09:{minute}:00" for minute in range(10, 60, 10)), "10:00:00"]


def test_numbers_of_one_axis_have_one_unit() -> None:
    chart = line_chart(Axis(["a", "b"]), [Line("a", [0, 20_000])], "B")

    ends = [text for _, _, anchor, text in texts(chart) if anchor == "end"]
    assert ends == ["0B", "5kB", "10kB", "15kB", "20kB"]


def test_labels_are_in_utc_whatever_the_zone_of_the_times_is() -> None:
    summer = timezone(timedelta(hours=2))

    assert time_axis([MIDNIGHT.astimezone(summer)]).labels == ["00:00:00"]
