"""The tables of a run beside Kafka: printed, and between two marks of benchmarks/README.md."""

from collections.abc import Iterator

from benchmarks.page_part import README, goal_table, write_part
from benchmarks.spark.rounds import Figures, Row, pairs


def publish(figures: Figures, file_name: str) -> None:
    write_part(README, "spark beside kafka", lines(figures, file_name))


def lines(figures: Figures, file_name: str | None = None) -> Iterator[str]:
    where = "" if file_name is None else f" All rounds: [{file_name}](results/{file_name})."
    yield f"{_about(figures)}{where}"
    yield ""
    yield (
        "| EmberQ, Kafka, ratio | rows/s | CPU µs per row, Spark | the same with the broker | "
        "of which broker |"
    )
    yield "|---|--:|--:|--:|--:|"
    for ours, theirs in pairs(figures.rows):
        yield _compared(ours, theirs)
    yield ""
    yield "| once per query, EmberQ, Kafka | seconds | CPU s, Spark |"
    yield "|---|--:|--:|"
    for ours, theirs in pairs(figures.few):
        yield (
            f"| {ours.work} of {ours.count:,} rows | {ours.seconds:.2f}, {theirs.seconds:.2f} "
            f"| {ours.spark_cpu_s:.2f}, {theirs.spark_cpu_s:.2f} |"
        )
    yield ""
    yield from goal_table(figures.goals)


def _about(figures: Figures) -> str:
    facts = figures.facts
    modified = " with changes" if facts.is_modified else ""
    counts = sorted({(row.size, row.count, len(row.rounds)) for row in figures.rows})
    rows = ", ".join(f"{count:,} of {size:,} B" for size, count, _ in counts)
    return (
        f"{facts.date}, commit {facts.commit}{modified}, Python {facts.python}, "
        f"{figures.versions}, {facts.cores} × {facts.cpu}, Linux {facts.kernel}, load average "
        f"before the run {facts.load_average}. Rows: {rows}, in {figures.partitions} queues or "
        f"partitions; {counts[0][2]} rounds."
    )


def _compared(ours: Row, theirs: Row) -> str:
    brokers = (_broker_us(ours), _broker_us(theirs))
    return (
        f"| {ours.work}, {ours.size:,} B "
        f"| {ours.per_s:,.0f}, {theirs.per_s:,.0f}, {ours.per_s / theirs.per_s:.2f} "
        f"| {_cpu(ours.spark_cpu_us, theirs.spark_cpu_us)} "
        f"| {_cpu(ours.cpu_us, theirs.cpu_us)} "
        f"| {brokers[0]:.2f}, {brokers[1]:.2f} |"
    )


def _cpu(ours_us: float, theirs_us: float) -> str:
    """The ratio is of rows per CPU-second, so that more is better in every column."""
    return f"{ours_us:.2f}, {theirs_us:.2f}, {theirs_us / ours_us:.2f}"


def _broker_us(row: Row) -> float:
    return min(each.broker_cpu_s for each in row.rounds) / row.count * 1e6
