"""Charts as SVG text: lines over time and bars, nothing loaded from anywhere."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import groupby

from msgspec import Struct

from emberq.pipelines.chart_windows import EPOCH, ROUND_LENGTHS

WIDTH, HEIGHT = 860, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 16, 12, 44
# The last one is for what is not told apart.
_COLOURS = (
    *("#d9480f", "#1971c2", "#2f9e44", "#9c36b5", "#e8a200", "#0c8599", "#c2255c"),
    "#868e96",
)
LINES_MAX = len(_COLOURS)
_GRID_STEPS = 4
_LABELS_MAX = 8
_LETTER_WIDTH = 6.2
_LEGENDS_PER_ROW, _LEGEND_LENGTH_MAX, _LEGEND_HEIGHT = 4, 27, 16
_BAR_HEIGHT = 22
BARS_MAX = 40


class Line(Struct, frozen=True):
    """One value per place on the x axis; None leaves a gap."""

    name: str
    values: Sequence[float | None]


class Axis(Struct, frozen=True):
    """Labels from left to right, and what holds for all of them. Those at `places` are drawn, or
    if none are named every so many."""

    labels: Sequence[str]
    note: str = ""
    places: Sequence[int] = ()


def time_axis(times: Sequence[datetime]) -> Axis:
    """Times in UTC; labels tell the date wherever it is not the same one."""
    moments = [time.astimezone(UTC) for time in times]
    places = _round_places(moments)
    dates = {moment.date() for moment in moments}
    if len(dates) <= 1:
        note = f"{next(iter(dates))} UTC" if dates else ""
        return Axis([f"{moment:%H:%M:%S}" for moment in moments], note, places)
    is_by_day = all(moment.time() == moment.min.time() for moment in moments)
    # Then labels, of which only some are drawn, are days apart anyhow.
    if is_by_day or (max(dates) - min(dates)).days > _LABELS_MAX:
        return Axis([f"{moment:%Y-%m-%d}" for moment in moments], "UTC", places)
    form = "%m-%d %H:%M:%S" if any(moment.second for moment in moments) else "%m-%d %H:%M"
    labels = [moment.strftime(form) for moment in moments]
    return Axis(labels, f"from {min(dates)}, UTC", places)


def _round_places(moments: Sequence[datetime]) -> Sequence[int]:
    """Of many moments those that people count in: full hours, or every five minutes."""
    if len(moments) <= _LABELS_MAX:
        return ()
    least = (moments[-1] - moments[0]) / _LABELS_MAX
    step = next((each for each in ROUND_LENGTHS if each > least), None)
    if step is None:
        return ()
    return [place for place, moment in enumerate(moments) if not (moment - EPOCH) % step]


def line_chart(axis: Axis, lines: Sequence[Line], unit: str = "") -> str:
    """Lines above one axis, with a legend; at most LINES_MAX can be told apart."""
    assert len(lines) <= LINES_MAX, len(lines)
    more_legends = max(0, -(-len(lines) // _LEGENDS_PER_ROW) - 1) * _LEGEND_HEIGHT
    height = HEIGHT + more_legends
    scale = _scale(
        (value for line in lines for value in line.values if value is not None),
        bottom=height - _BOTTOM,
        top=_TOP + _LEGEND_HEIGHT + more_legends,
    )
    parts = [_grid(scale, unit), _axis(axis, height)]
    for number, line in enumerate(lines):
        colour = _COLOURS[number]
        parts += [_path(line.values, scale, colour), _legend(number, line.name, colour)]
    return _svg(height, parts)


def bar_chart(bars: Sequence[tuple[str, float]], unit: str = "") -> str:
    """Horizontal bars, longest first as given."""
    top = max((value for _, value in bars), default=0.0) or 1.0
    space = WIDTH - 220 - 110
    parts = []
    for number, (name, value) in enumerate(bars):
        y = number * _BAR_HEIGHT + 4
        parts += [
            f'<text x="212" y="{y + 14}" text-anchor="end">{escape(_short(name))}</text>',
            f'<rect x="220" y="{y}" width="{space * value / top:.1f}" height="16" rx="2" '
            f'fill="{_COLOURS[0]}"><title>{escape(name)}: {_number(value)}{unit}</title></rect>',
            f'<text x="{226 + space * value / top:.1f}" y="{y + 13}" class="value">'
            f"{_number(value)}{unit}</text>",
        ]
    return _svg(max(len(bars), 1) * _BAR_HEIGHT + 8, parts)


class _Scale(Struct, frozen=True):
    """Values to heights: 0 and all values lie between both ends, which are on the grid."""

    low: float
    step: float
    steps: int
    bottom: int
    top: int

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.step * self.steps)
        return self.bottom - (self.bottom - self.top) * share


def _scale(values: Iterable[float], bottom: int, top: int) -> _Scale:
    low = high = 0.0
    for value in values:
        # Latencies by two clocks can be negative.
        low, high = min(low, value), max(high, value)
    step = _round_up((high - low) / _GRID_STEPS) if high > low else 1 / _GRID_STEPS
    first = math.floor(low / step)
    steps = (math.ceil(high / step) - first) or _GRID_STEPS
    return _Scale(first * step, step, steps, bottom, top)


def _svg(height: int, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'


def _grid(scale: _Scale, unit: str) -> str:
    lines = []
    largest = max(abs(scale.low), abs(scale.low + scale.step * scale.steps))
    for number in range(scale.steps + 1):
        value = scale.low + scale.step * number
        y = scale.y(value)
        lines.append(
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
            f"{_number(value, largest)}{unit}</text>"
        )
    return "".join(lines)


def _axis(axis: Axis, height: int) -> str:
    count = len(axis.labels)
    step = max(1, -(-count // _LABELS_MAX))
    places = axis.places or range(0, count, step)
    labels = [
        f'<text x="{_inside(_x(place, count), axis.labels[place]):.1f}" y="{height - 24}" '
        f'text-anchor="middle">{escape(axis.labels[place])}</text>'
        for place in places
    ]
    note = (
        f'<text x="{WIDTH - _RIGHT}" y="{height - 6}" text-anchor="end">{escape(axis.note)}</text>'
    )
    return "".join([*labels, note if axis.note else ""])


def _inside(x: float, text: str) -> float:
    """The middle of a text, so far left that its end is in the picture."""
    return min(x, WIDTH - 1 - len(text) * _LETTER_WIDTH / 2)


def _path(values: Sequence[float | None], scale: _Scale, colour: str) -> str:
    pieces = []
    points = [
        None if value is None else (_x(place, len(values)), scale.y(value))
        for place, value in enumerate(values)
    ]
    for is_gap, group in groupby(points, lambda point: point is None):
        if is_gap:
            continue
        piece = [point for point in group if point is not None]
        if len(piece) == 1:  # a path of one point would be invisible
            [(x, y)] = piece
            pieces.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
            continue
        text = "L".join(f"{x:.1f},{y:.1f}" for x, y in piece)
        pieces.append(f'<path d="M{text}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return "".join(pieces)


def _legend(number: int, name: str, colour: str) -> str:
    row, column = divmod(number, _LEGENDS_PER_ROW)
    width = (WIDTH - _LEFT - _RIGHT) // _LEGENDS_PER_ROW
    x, y = _LEFT + 10 + column * width, _TOP + row * _LEGEND_HEIGHT - 6
    return (
        f'<rect x="{x}" y="{y}" width="10" height="10" fill="{colour}"/>'
        f'<text x="{x + 15}" y="{y + 9}">{escape(_short(name, _LEGEND_LENGTH_MAX))}'
        f"<title>{escape(name)}</title></text>"
    )


def _x(place: int, count: int) -> float:
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * (place + 0.5) / max(count, 1)


def _round_up(value: float) -> float:
    """The next number of the kind 1, 2, 5, 10 that is no smaller; of a number above 0."""
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= value)


def _number(value: float, largest: float | None = None) -> str:
    """A short text; numbers of one scale have the letter of its largest."""
    for limit, unit, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value if largest is None else largest) >= limit:
            return f"{value / unit:.3g}{letter}" if value else "0"
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.2g}"


def _short(name: str, length_max: int = 30) -> str:
    return name if len(name) <= length_max else f"{name[: length_max - 1]}…"
