"""Charts as SVG text: lines over time and bars, nothing loaded from anywhere."""

from collections.abc import Sequence
from html import escape

from msgspec import Struct

WIDTH, HEIGHT = 860, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 16, 12, 30
_COLOURS = ("#d9480f", "#1971c2", "#2f9e44", "#9c36b5", "#e8a200")
_GRID_LINES = 4
_LABELS_MAX = 8
_BAR_HEIGHT = 22


class Line(Struct, frozen=True):
    """One value per place on the x axis; None leaves a gap."""

    name: str
    values: Sequence[float | None]


def line_chart(labels: Sequence[str], lines: Sequence[Line], unit: str = "") -> str:
    """Lines above one axis of labels, with a legend."""
    top = max((value for line in lines for value in line.values if value is not None), default=0.0)
    top = _round_up(top)
    parts = [_grid(top, unit), _axis(labels)]
    for number, line in enumerate(lines):
        colour = _COLOURS[number % len(_COLOURS)]
        parts += [_path(line.values, top, colour), _legend(number, line.name, colour)]
    return _svg(HEIGHT, parts)


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


def _svg(height: int, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'


def _grid(top: float, unit: str) -> str:
    lines = []
    for step in range(_GRID_LINES + 1):
        value = top * step / _GRID_LINES
        y = _y(value, top)
        lines.append(
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_number(value)}{unit}</text>'
        )
    return "".join(lines)


def _axis(labels: Sequence[str]) -> str:
    step = max(1, -(-len(labels) // _LABELS_MAX))
    return "".join(
        f'<text x="{_x(place, len(labels)):.1f}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"{escape(labels[place])}</text>"
        for place in range(0, len(labels), step)
    )


def _path(values: Sequence[float | None], top: float, colour: str) -> str:
    commands = []
    pen = "M"
    for place, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        commands.append(f"{pen}{_x(place, len(values)):.1f},{_y(value, top):.1f}")
        pen = "L"
    if len(commands) == 1:  # a path of one point would be invisible
        x, y = commands[0][1:].split(",")
        return f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>'
    return f'<path d="{"".join(commands)}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _legend(number: int, name: str, colour: str) -> str:
    x = _LEFT + 10 + number * 150
    return (
        f'<rect x="{x}" y="{_TOP}" width="10" height="10" fill="{colour}"/>'
        f'<text x="{x + 15}" y="{_TOP + 9}">{escape(_short(name))}</text>'
    )


def _x(place: int, count: int) -> float:
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * (place + 0.5) / max(count, 1)


def _y(value: float, top: float) -> float:
    return HEIGHT - _BOTTOM - (HEIGHT - _BOTTOM - _TOP - 14) * (value / top if top else 0)


def _round_up(value: float) -> float:
    """The next number of the kind 1, 2, 5, 10 that is no smaller."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= value)


def _number(value: float) -> str:
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            return f"{value / (limit if letter != 'k' else 1e3):.3g}{letter}"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def _short(name: str, length_max: int = 30) -> str:
    return name if len(name) <= length_max else f"{name[: length_max - 1]}…"
