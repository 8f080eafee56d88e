"""Windows of time as points of a chart: however many windows there are, a chart has few points."""

from datetime import UTC, datetime, timedelta
from math import ceil

# Points of a line: more would lie on the same pixels.
POINTS_MAX = 500
_UNITS = (
    ("day", timedelta(days=1)),
    ("hour", timedelta(hours=1)),
    ("minute", timedelta(minutes=1)),
    ("second", timedelta(seconds=1)),
    ("millisecond", timedelta(milliseconds=1)),
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Lengths that people count in.
ROUND_LENGTHS = [
    *(timedelta(milliseconds=count) for count in (10, 20, 50, 100, 200, 500)),
    *(timedelta(seconds=count) for count in (1, 2, 5, 10, 15, 30)),
    *(timedelta(minutes=count) for count in (1, 2, 5, 10, 15, 30)),
    *(timedelta(hours=count) for count in (1, 2, 3, 6, 12)),
    *(timedelta(days=count) for count in (1, 2, 7, 14, 28)),
]


def drawn_length(first: datetime, last: datetime, window: timedelta) -> timedelta:
    """How much time a point stands for: a window, or as many as it takes to have POINTS_MAX points
    at most from one moment to the other."""
    count = (_begin(last, window) - _begin(first, window)) // window + 1
    if count <= POINTS_MAX:
        return window
    # One point less: the first one begins before the first window, as a rule.
    least = window * ceil(count / (POINTS_MAX - 1))
    fitting = (each for each in ROUND_LENGTHS if each >= least and not each % window)
    return next(fitting, least)


def drawn_starts(first: datetime, last: datetime, length: timedelta) -> list[datetime]:
    """From the first point to the last, those without messages too: time is an axis."""
    begin = _begin(first, length)
    return [begin + length * number for number in range((last - begin) // length + 1)]


def drawing_note(window: timedelta, length: timedelta) -> str:
    """A sentence about points that stand for more than a window; empty where they do not."""
    if length <= window:
        return ""
    return (
        f"Each point stands for {duration_text(length)}: windows of {duration_text(window)} would "
        f"be more than the {POINTS_MAX} points that are drawn."
    )


def duration_text(length: timedelta) -> str:
    name, unit = next((each for each in _UNITS if not length % each[1]), _UNITS[-1])
    count = round(length / unit)
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def _begin(moment: datetime, length: timedelta) -> datetime:
    """Of its point or window: as those of Spark, they begin at whole lengths since 1970."""
    return moment - (moment - EPOCH) % length
