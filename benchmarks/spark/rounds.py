"""What a run beside Kafka found, as it is stored, and what it says about the goals."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from benchmarks.figures import Goal
from benchmarks.machine import Facts

AHEAD = 1.0
ARCHIVE_RATIO_MIN = 2.0


class Work(StrEnum):
    BATCH = "batch"
    STREAM = "stream"
    ARCHIVE = "archive"


class Round(Struct, frozen=True, kw_only=True):
    """Once through all rows. Spark is its driver, its JVM and its Python workers."""

    seconds: float
    spark_cpu_s: float
    broker_cpu_s: float

    @property
    def cpu_s(self) -> float:
        return self.spark_cpu_s + self.broker_cpu_s


class Row(Struct, frozen=True, kw_only=True):
    """All rounds of one side; the best one counts, of each figure."""

    side: str
    work: Work
    size: int
    count: int
    rounds: list[Round]

    @property
    def per_s(self) -> float:
        return self.count / self.seconds

    @property
    def seconds(self) -> float:
        return min(each.seconds for each in self.rounds)

    @property
    def spark_cpu_s(self) -> float:
        return min(each.spark_cpu_s for each in self.rounds)

    @property
    def spark_cpu_us(self) -> float:
        return self.spark_cpu_s / self.count * 1e6

    @property
    def cpu_us(self) -> float:
        """With the broker's."""
        return min(each.cpu_s for each in self.rounds) / self.count * 1e6


class Figures(Struct, kw_only=True):
    facts: Facts
    versions: str
    is_quick: bool
    partitions: int
    rows: list[Row]
    few: list[Row]  # of a topic with few rows: what a query costs once
    goals: list[Goal]


def pairs(rows: list[Row]) -> Iterator[tuple[Row, Row]]:
    """Ours and theirs."""
    for ours in rows:
        for theirs in rows:
            is_same = (ours.work, ours.size) == (theirs.work, theirs.size)
            if is_same and ours.side == "emberq" != theirs.side:
                yield ours, theirs


def judge(figures: Figures) -> list[Goal]:
    return [_judged(ours, theirs) for ours, theirs in pairs(figures.rows)]


def _judged(ours: Row, theirs: Row) -> Goal:
    name = f"{ours.work}, full rows of {ours.size:,} B"
    if ours.work is Work.ARCHIVE:
        ratio = ours.per_s / theirs.per_s
        return Goal(
            name=name,
            target=f"at least {ARCHIVE_RATIO_MIN:g} × the rows per second",
            measured=f"{ours.per_s:,.0f} to {theirs.per_s:,.0f}: {ratio:.2f} ×",
            is_met=ratio >= ARCHIVE_RATIO_MIN,
            share=ratio / ARCHIVE_RATIO_MIN,
        )
    ratio = theirs.spark_cpu_us / ours.spark_cpu_us
    return Goal(
        name=name,
        target="more rows per CPU-second of Spark",
        measured=f"{1e6 / ours.spark_cpu_us:,.0f} to {1e6 / theirs.spark_cpu_us:,.0f}: "
        f"{ratio:.2f} ×",
        is_met=ratio > AHEAD,
        share=ratio / AHEAD,
    )
