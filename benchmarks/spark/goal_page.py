"""The tables of a run of the goals: printed, and between two marks of benchmarks/README.md."""

from collections.abc import Iterator

from benchmarks.page_part import README, goal_table, write_part
from benchmarks.spark.goal_figures import LARGE, SMALL, Figures, Measured, Query

_PEERS = {
    Query.SOURCE: Query.PARQUET,
    Query.NUMPY: Query.PARQUET,
    Query.PREPARED: Query.PARQUET,
    Query.LOCAL: Query.PARQUET,
    Query.TUPLES: Query.PARQUET,
    Query.SOURCE_NO_MAP: Query.PARQUET_NO_MAP,
    Query.NUMPY_NO_MAP: Query.PARQUET_NO_MAP,
    Query.PREPARED_NO_MAP: Query.PARQUET_NO_MAP,
    Query.WRITTEN: Query.COPY,
    Query.ARCHIVE: Query.COPY,
    Query.FRAMES: Query.ROW_FRAMES,
}


def publish(figures: Figures, file_name: str) -> None:
    write_part(README, "spark goals", lines(figures, file_name))


def lines(figures: Figures, file_name: str | None = None) -> Iterator[str]:
    where = "" if file_name is None else f" All rounds: [{file_name}](results/{file_name})."
    yield f"{_about(figures)}{where}"
    yield ""
    yield "| On one core | rows/s | CPU µs per row | of its peer |"
    yield "|---|--:|--:|--:|"
    for each in figures.queries:
        yield (
            f"| {each.size:,} B: {each.query} | {each.per_s:,.0f} | {each.cpu_us:.2f} "
            f"| {_of_peer(figures, each)} |"
        )
    yield ""
    found = figures.micro_batches
    yield (
        f"A micro-batch takes {found.source_ms:.0f} ms, one of Spark's rate source "
        f"{found.rate_ms:.0f}, and {found.async_ms:.0f} with asynchronous progress tracking."
    )
    yield ""
    yield from goal_table(figures.goals)


def _about(figures: Figures) -> str:
    facts = figures.facts
    modified = " with changes" if facts.is_modified else ""
    rows = ", ".join(
        f"{max(each.count for each in figures.queries if each.size == size):,} of {size:,} B"
        for size in (SMALL, LARGE)
    )
    return (
        f"{facts.date}, commit {facts.commit}{modified}, Python {facts.python}, "
        f"{figures.versions}, {facts.cores} × {facts.cpu}, Linux {facts.kernel}, load average "
        f"before the run {facts.load_average}. Rows: {rows}; "
        f"best of {max(len(each.rounds) for each in figures.queries)} rounds."
    )


def _of_peer(figures: Figures, each: Measured) -> str:
    peer = _PEERS.get(each.query)
    return "–" if peer is None else f"{figures.found(peer, each.size).cpu_us / each.cpu_us:.2f}"
