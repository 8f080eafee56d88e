"""The tables of a run: printed, and as Markdown between two marks of benchmarks/README.md."""

from collections.abc import Iterator
from statistics import median

from benchmarks.client.figures import Figures, Row
from benchmarks.client.rows import WAYS, Program
from benchmarks.page_part import README, goal_table, write_part


def publish(figures: Figures, file_name: str) -> None:
    write_part(README, "client", lines(figures, file_name))


def lines(figures: Figures, file_name: str | None = None) -> Iterator[str]:
    where = "" if file_name is None else f" All figures: [{file_name}](results/{file_name})."
    yield f"{about(figures)}{where}"
    for name, reason in figures.absent.items():
        yield f"{name}: {reason}."
    sizes = sorted({row.size for row in figures.rows})
    for size in sizes:
        yield from _table(figures, size)
    yield ""
    yield "| To the first acknowledged send | from the process's start | from the client's start |"
    yield "|---|--:|--:|"
    for start in figures.starts:
        yield (
            f"| {start.program} | {median(start.from_process_s):.3f} s "
            f"| {median(start.from_client_s) * 1000:.1f} ms |"
        )
    yield ""
    yield from goal_table(figures.goals)


def about(figures: Figures) -> str:
    facts = figures.facts
    modified = " with changes" if facts.is_modified else ""
    return (
        f"{facts.date}, commit {facts.commit}{modified}, Python {facts.python}, {facts.loop}, "
        f"kernel {facts.twin}, {facts.cores} × {facts.cpu}, Linux {facts.kernel}, load average "
        f"before the run {facts.load_average}. Clients: {figures.clients}. Brokers: "
        f"{figures.brokers}."
    )


def _table(figures: Figures, size: int) -> Iterator[str]:
    programs = [
        program for program in Program if any(row.program is program for row in figures.rows)
    ]
    yield ""
    yield f"| {size:,} B: messages/s, CPU µs per message | {' | '.join(programs)} |"
    yield "|---" + "|--:" * len(programs) + "|"
    for way in WAYS:
        cells = [_cell(figures.row(each, way.verb, way.mode, size)) for each in programs]
        if any(cells):
            yield f"| {way.title} | {' | '.join(cells)} |"


def _cell(row: Row | None) -> str:
    return "" if row is None else f"{row.per_s:,.0f}, {row.cpu_us:.1f}"
