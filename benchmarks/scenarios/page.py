"""The table of a run: printed, and as Markdown between two marks of benchmarks/README.md."""

from collections.abc import Iterator
from statistics import median

from benchmarks.figures import EMBERQ, OFFICIAL
from benchmarks.page_part import README, goal_table, verdict, write_part
from benchmarks.scenarios.figures import Figures, Row

_HEADINGS = (
    "Row",
    "EmberQ/s",
    "official/s",
    "ratio",
    "CPU µs",
    "official",
    "ratio",
    "p50 / p99 / p99.9 ms",
    "official",
    "load µs",
)


def publish(figures: Figures, file_name: str) -> None:
    write_part(README, "scenarios", markdown(figures, file_name))


def markdown(figures: Figures, file_name: str) -> Iterator[str]:
    yield f"{about(figures)} All figures: [{file_name}](results/{file_name})."
    yield ""
    yield f"| {' | '.join(_HEADINGS)} |"
    yield "|---" + "|--:" * (len(_HEADINGS) - 1) + "|"
    for ours in figures.rows:
        if ours.server == EMBERQ:
            yield f"| {' | '.join(_cells(ours, figures.row_of(OFFICIAL, ours.shape)))} |"
    yield ""
    yield "| | First accepted message | Resident, idle | Anonymous, idle |"
    yield "|---|--:|--:|--:|"
    for start in figures.starts:
        memory = start.idle_memory
        yield (
            f"| {start.server} | {median(start.first_message_s):.2f} s "
            f"| {memory.resident_mb:.0f} MB | {memory.anonymous_mb:.0f} MB |"
        )
    yield ""
    yield from goal_table(figures.goals)


def lines(figures: Figures) -> Iterator[str]:
    yield about(figures)
    widths = (44, 10, 10, 6, 8, 8, 6, 22, 22, 8)
    rows = [
        _cells(ours, figures.row_of(OFFICIAL, ours.shape))
        for ours in figures.rows
        if ours.server == EMBERQ
    ]
    for cells in (list(_HEADINGS), *rows):
        first, *others = zip(cells, widths, strict=True)
        yield f"{first[0]:<{first[1]}}" + "".join(f" {text:>{width}}" for text, width in others)
    for start in figures.starts:
        memory = start.idle_memory
        yield (
            f"{start.server:<10} first message after {median(start.first_message_s):.2f} s; idle "
            f"{memory.resident_mb:.1f} MB resident, {memory.anonymous_mb:.1f} MB anonymous"
        )
    for goal in figures.goals:
        yield f"{verdict(goal.is_met):<10} {goal.name:<44} {goal.measured:<40} {goal.target}"


def about(figures: Figures) -> str:
    facts = figures.facts
    modified = " with changes" if facts.is_modified else ""
    return (
        f"{facts.date}, commit {facts.commit}{modified}, kernel {figures.kernel}, Python "
        f"{facts.python}, {facts.loop}, {facts.cores} × {facts.cpu}, Linux {facts.kernel}, load "
        f"average before the run {facts.load_average}. Official: {figures.official}."
    )


def _cells(ours: Row, theirs: Row | None) -> list[str]:
    return [
        ours.shape.name,
        f"{ours.per_s:,.0f}",
        "" if theirs is None else f"{theirs.per_s:,.0f}",
        "" if theirs is None else f"{ours.per_s / theirs.per_s:.2f}",
        f"{ours.broker_cpu_us:,.1f}",
        "" if theirs is None else f"{theirs.broker_cpu_us:,.1f}",
        "" if theirs is None else f"{ours.broker_cpu_us / theirs.broker_cpu_us:.2f}",
        _latencies(ours),
        "" if theirs is None else _latencies(theirs),
        f"{ours.load_cpu_us:.1f}",
    ]


def _latencies(row: Row) -> str:
    refused = f" ({row.refused} refused)" if row.refused else ""
    return " / ".join(f"{ms:.2f}" for ms in row.latencies_ms.values()) + refused
