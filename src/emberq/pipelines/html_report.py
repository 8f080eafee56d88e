"""A report as one HTML file that opens without a network."""

import errno
import os
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from msgspec import Struct

from emberq.errors import ConfigError, PipelineError
from emberq.pipelines.charts import BARS_MAX, bar_chart
from emberq.pipelines.job import ReportTable
from emberq.spark.archive.addresses import is_local, local_path

NOTE = "note"  # a fact that is a sentence
ROWS_SHOWN_MAX = 500
_STYLE = """
:root { color-scheme: light dark; --ink: #212529; --soft: #5c636a; --line: #dee2e6; --paper: #fff }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e9ecef; --soft: #a6a9ae; --line: #373a40; --paper: #1a1b1e }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 1000px; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; margin-bottom: 0 } h2 { font-size: 1.1rem; margin-top: 2rem }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 1rem;
  margin: 1.5rem 0 }
.facts b { display: block; font-size: 1.1rem; font-weight: 600; overflow-wrap: anywhere }
.facts span, footer, .note { color: var(--soft) }
svg { width: 100%; height: auto } svg text { font-size: 11px; fill: var(--soft) }
svg .grid { stroke: var(--line) } svg .value { fill: var(--ink) }
.rows { overflow-x: auto }
table { width: 100%; border-collapse: collapse; font-size: 13px;
  font-variant-numeric: tabular-nums }
th, td { text-align: left; white-space: nowrap; padding: .3rem .5rem;
  border-bottom: 1px solid var(--line) }
td.number, th.number { text-align: right }
"""


class Section(Struct, frozen=True):
    """A heading with a chart or a note below it; `content` is HTML already."""

    title: str
    content: str


def chart_section(title: str, chart: str, note: str = "") -> Section:
    """A chart, and a sentence about it if there is one to say."""
    return Section(title, f"{chart}{_note(note) if note else ''}")


def bar_section(title: str, bars: Sequence[tuple[str, float]]) -> Section:
    left = len(bars) - BARS_MAX
    return chart_section(
        title, bar_chart(bars[:BARS_MAX]), f"and {left:,} more" if left > 0 else ""
    )


def check_writable(path: str) -> None:
    """Before the work is done: make the folders, and be sure that the file can be written.

    Raises:
        ConfigError: it cannot.
    """
    target = _target(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        draft = _draft(target)
        draft.touch()
        draft.unlink()
    except OSError as error:
        raise ConfigError(f"report={path!r} cannot be written: {error.strerror}") from error


def write_report(
    path: str,
    title: str,
    facts: dict[str, Any],
    sections: Sequence[Section],
    tables: Sequence[ReportTable],
) -> Path:
    """Write the file and say where it is; folders are made. Who opens it sees a whole page, the old
    one or the new one.

    Raises:
        PipelineError: it cannot be written any more.
    """
    target = _target(path)
    draft = _draft(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_text(render(title, facts, sections, tables), encoding="utf-8")
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise PipelineError(f"the report {path} was not written: {error.strerror}") from error
    return target


def _target(path: str) -> Path:
    """Raises ConfigError for an address that is no file of this machine."""
    if not is_local(path):
        raise ConfigError(f"report={path!r}: a report is written on this machine: name a file here")
    return local_path(path)


def _draft(target: Path) -> Path:
    return target.with_name(f".{target.name}.{uuid.uuid4().hex}")


def render(
    title: str, facts: dict[str, Any], sections: Sequence[Section], tables: Sequence[ReportTable]
) -> str:
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            '<div class="facts">',
            *(
                f"<div><b>{escape(shown(value))}</b><span>{escape(name)}</span></div>"
                for name, value in facts.items()
                if name != NOTE
            ),
            "</div>",
            _note(facts[NOTE]) if facts.get(NOTE) else "",
            *(f"<h2>{escape(each.title)}</h2>{each.content}" for each in sections),
            *map(_table, tables),
            f"<footer><p>EmberQ, {made}</p></footer></body></html>",
        ]
    )


def shown(value: Any) -> str:
    """A value for people: thousands apart, times in UTC without microseconds."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, datetime):
        # One without a zone is of somebody's own query: which zone it is in, they know.
        zone = "Z" if value.tzinfo else ""
        return f"{value.astimezone(UTC) if zone else value:%Y-%m-%d %H:%M:%S}{zone}"
    return str(value)


def _number(value: float) -> str:
    if isinstance(value, int) or value.is_integer():
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _table(table: ReportTable) -> str:
    numeric = [
        all(isinstance(row[place], int | float | None) for row in table.rows) and bool(table.rows)
        for place in range(len(table.columns))
    ]
    head = "".join(
        f"<th{_kind(number)}>{escape(name)}</th>"
        for name, number in zip(table.columns, numeric, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{_kind(number)}>{escape(shown(value))}</td>"
            for value, number in zip(row, numeric, strict=True)
        )
        + "</tr>"
        for row in table.rows[:ROWS_SHOWN_MAX]
    )
    left = len(table.rows) - ROWS_SHOWN_MAX
    note = _note(f"and {left:,} more") if left > 0 else ""
    return (
        f"<h2>{escape(table.title)}</h2>"
        f'<div class="rows"><table><tr>{head}</tr>{rows}</table></div>{note}'
    )


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _kind(is_number: bool) -> str:
    return ' class="number"' if is_number else ""
