"""`python -m benchmarks.page FILE`: puts the figures of a result into the performance page."""

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.figures import EMBERQ, OFFICIAL, Figures, Row
from benchmarks.page_part import goal_table, write_part

PAGE = Path(__file__).parents[1] / "docs" / "operations" / "performance.md"


def main() -> None:
    figures = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Figures)
    write_part(PAGE, "figures", markdown(figures, Path(sys.argv[1]).name))


def markdown(figures: Figures, file_name: str) -> Iterator[str]:
    facts = figures.facts
    yield (
        f"Measured on {facts.date} at commit {facts.commit}: Python {facts.python}, {facts.loop}, "
        f"{facts.twin} kernel, {facts.cores} cores of an {facts.cpu}, Linux {facts.kernel}, load "
        f"average before the run {facts.load_average}. Official: {figures.official}. All figures: "
        f"[{file_name}](../../benchmarks/results/{file_name})."
    )
    yield ""
    yield from goal_table(figures.goals)
    yield ""
    yield from _starts(figures)
    yield from _rows(figures)


def _starts(figures: Figures) -> Iterator[str]:
    yield "| | First answer | Resident, idle | Anonymous, idle | Resident, 10,000 topics |"
    yield "|---|---|---|---|---|"
    for start in figures.starts:
        loaded = [one.memory for one in figures.loaded if one.server == start.server][-1]
        idle = start.idle_memory
        yield (
            f"| {start.server} | {start.first_answer_median_s:.3f} s | {idle.resident_mb:.1f} MB "
            f"| {idle.anonymous_mb:.1f} MB | {loaded.resident_mb:.1f} MB |"
        )
    yield ""


def _rows(figures: Figures) -> Iterator[str]:
    yield "| Row | EmberQ/s | Official/s | Ratio | CPU µs | Official | Ratio | p50 / p99 / max ms |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for row in figures.rows:
        if row.server == EMBERQ:
            yield _pair(row, figures.row_of(OFFICIAL, row))


def _pair(ours: Row, theirs: Row | None) -> str:
    latencies = ours.latencies_ms or {}
    cells = [
        ours.name,
        f"{ours.per_s:,.0f}",
        "" if theirs is None else f"{theirs.per_s:,.0f}",
        "" if theirs is None else f"{ours.per_s / theirs.per_s:.2f}",
        f"{ours.server_cpu_us:,.1f}",
        "" if theirs is None else f"{theirs.server_cpu_us:,.1f}",
        "" if theirs is None else f"{ours.server_cpu_us / theirs.server_cpu_us:.2f}",
        " / ".join(f"{ms:.2f}" for ms in latencies.values()),
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
