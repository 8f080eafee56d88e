"""A report as one HTML file that opens without a network."""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from msgspec import Struct

from emberq.pipelines.job import ReportTable

ROWS_SHOWN_MAX = 500
_STYLE = """
:root { color-scheme: light dark; --ink: #212529; --soft: #868e96; --line: #dee2e6; --paper: #fff }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e9ecef; --soft: #909296; --line: #373a40; --paper: #1a1b1e }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 900px; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; margin-bottom: 0 } h2 { font-size: 1.1rem; margin-top: 2rem }
.facts { display: flex; flex-wrap: wrap; gap: 1.5rem; margin: 1.5rem 0 }
.facts div { min-width: 7rem } .facts b { display: block; font-size: 1.3rem; font-weight: 600 }
.facts span, footer, .note { color: var(--soft) }
svg { width: 100%; height: auto } svg text { font-size: 11px; fill: var(--soft) }
svg .grid { stroke: var(--line) } svg .value { fill: var(--ink) }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line) }
td.number, th.number { text-align: right }
"""


class Section(Struct, frozen=True):
    """A heading with a chart or a note below it; `content` is HTML already."""

    title: str
    content: str


def write_report(
    path: str,
    title: str,
    facts: dict[str, Any],
    sections: Sequence[Section],
    tables: Sequence[ReportTable],
) -> Path:
    """Write the file and say where it is; folders are made."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(render(title, facts, sections, tables), encoding="utf-8")
    return target


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
            ),
            "</div>",
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
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"
    if isinstance(value, datetime):
        # One without a zone is of somebody's own query: which zone it is in, they know.
        zone = "Z" if value.tzinfo else ""
        return f"{value.astimezone(UTC) if zone else value:%Y-%m-%d %H:%M:%S}{zone}"
    return str(value)


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
    note = f'<p class="note">and {left:,} more</p>' if left > 0 else ""
    return f"<h2>{escape(table.title)}</h2><table><tr>{head}</tr>{rows}</table>{note}"


def _kind(is_number: bool) -> str:
    return ' class="number"' if is_number else ""
