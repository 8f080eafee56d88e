"""What commands print: tables, JSON, times and sizes for people, and progress on a terminal."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import click
import msgspec

Progress = Callable[[int, int], None]

_BAR_WIDTH = 40
_BAR_DELAY_S = 0.5  # what is done sooner needs no bar
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_SECONDS_CACHED_MAX = 1024
_GAP = "  "


class Column(NamedTuple):
    title: str
    is_right: bool = False  # numbers


def echo_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under bold titles, each column as wide as its widest cell."""
    lines = [[column.title for column in columns], *map(list, rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for number, line in enumerate(lines):
        cells = [
            cell.rjust(width) if column.is_right else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        ]
        text = _GAP.join(cells).rstrip()
        click.echo(click.style(text, bold=True) if number == 0 else text)


def echo_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print names and values, the values in one column."""
    pairs = list(facts)
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        click.echo(f"{_GAP}{click.style(name.ljust(width), dim=True)}{_GAP}{value}")


def echo_title(text: str) -> None:
    click.echo()
    click.echo(click.style(text, fg="cyan", bold=True))


def echo_json(value: object) -> None:
    """Print one JSON document; every `…AtMs` gets a readable twin `…At`."""
    readable = _with_readable_times(msgspec.to_builtins(value))
    click.echo(msgspec.json.format(msgspec.json.encode(readable), indent=2))


def warn(text: str) -> None:
    click.echo(f"{click.style('warning', fg='yellow')}: {text}", err=True)


@contextmanager
def progress_bar(label: str, *, is_wanted: bool = True) -> Iterator[Progress | None]:
    """A function to report progress to; None where nobody watches stderr."""
    if not (is_wanted and sys.stderr.isatty()):
        yield None
        return
    bar = click.progressbar(length=1, label=label, width=_BAR_WIDTH, file=sys.stderr)
    begin = time.monotonic()
    is_shown = False

    def show(done: int, total: int) -> None:
        nonlocal is_shown
        if not is_shown:
            if time.monotonic() - begin < _BAR_DELAY_S:
                return
            is_shown = True
            bar.__enter__()
        bar.length = max(total, 1)
        bar.update(max(min(done, total) - bar.pos, 0))

    try:
        yield show
    finally:
        if is_shown:
            bar.update((bar.length or 0) - bar.pos)
            bar.__exit__(None, None, None)


def format_size(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"


def format_time(moment_ms: int | None) -> str:
    """Local time to the millisecond; `-` for none."""
    if not moment_ms:
        return "-"
    try:
        moment = datetime.fromtimestamp(moment_ms // 1000, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return f"({moment_ms})"  # damaged, but worth showing
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment_ms % 1000:03d}"


def iso_time(moment_ms: int) -> str | None:
    """UTC time in ISO form; None if there is no such time."""
    second = _iso_second(moment_ms // 1000)
    return None if second is None else f"{second}.{moment_ms % 1000:03d}Z"


@lru_cache(maxsize=_SECONDS_CACHED_MAX)
def _iso_second(second: int) -> str | None:
    try:
        return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return None


def _with_readable_times(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_readable_times(item) for item in value]
    if not isinstance(value, dict):
        return value
    readable: dict[str, Any] = {}
    for name, item in value.items():
        readable[name] = _with_readable_times(item)
        if isinstance(name, str) and name.endswith("AtMs"):
            readable[name.removesuffix("Ms")] = iso_time(item) if item else None
    return readable
