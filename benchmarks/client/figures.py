"""What a run found, as it is stored, and whether it reaches the goals."""

from collections.abc import Iterator, Sequence
from statistics import median

from msgspec import Struct

from benchmarks.client.programs import Outcome
from benchmarks.client.rows import Program
from benchmarks.figures import Goal
from benchmarks.machine import Facts

AIOKAFKA_RATIO_MIN = 2.0
CONSUMED_PER_CORE_MIN = 100_000
CONSUMED_SYNC_PER_CORE_MIN = 30_000
PROCESS_TO_FIRST_MAX_S = 0.3
START_TO_FIRST_MAX_S = 0.02
# Goals name small messages.
SMALL_BYTES = 128


class Row(Struct, frozen=True, kw_only=True):
    """One way to use one client: the medians of its rounds."""

    program: Program
    verb: str
    mode: str
    size: int
    per_s: float
    cpu_us: float  # of the client's process, per message
    per_s_range: tuple[float, float]
    cpu_us_range: tuple[float, float]

    @property
    def per_cpu_s(self) -> float:
        return 1e6 / self.cpu_us


class Start(Struct, frozen=True, kw_only=True):
    """Seconds until the first message was acknowledged, the broker being warm."""

    program: Program
    from_process_s: list[float]
    from_client_s: list[float]


class Figures(Struct, kw_only=True):
    facts: Facts
    clients: str
    brokers: str
    is_quick: bool
    absent: dict[str, str]
    rows: list[Row] = []
    starts: list[Start] = []
    goals: list[Goal] = []

    def row(self, program: Program, verb: str, mode: str, size: int) -> Row | None:
        wanted = (program, verb, mode, size)
        for row in self.rows:
            if (row.program, row.verb, row.mode, row.size) == wanted:
                return row
        return None


def row_from(program: Program, verb: str, mode: str, size: int, outcomes: Sequence[Outcome]) -> Row:
    per_s = [each.messages / each.seconds for each in outcomes]
    cpu_us = [each.cpu_s / each.messages * 1e6 for each in outcomes]
    return Row(
        program=program,
        verb=verb,
        mode=mode,
        size=size,
        per_s=round(median(per_s), 1),
        cpu_us=round(median(cpu_us), 2),
        per_s_range=(round(min(per_s), 1), round(max(per_s), 1)),
        cpu_us_range=(round(min(cpu_us), 2), round(max(cpu_us), 2)),
    )


def judge(figures: Figures) -> list[Goal]:
    return [*_producing(figures), *_consuming(figures), *_starting(figures)]


def _producing(figures: Figures) -> Iterator[Goal]:
    for size in sorted({row.size for row in figures.rows}):
        ours = figures.row(Program.EMBERQ, "produce", "in-flight", size)
        theirs = figures.row(Program.JAVA, "produce", "in-flight", size)
        if ours is not None:
            measured = f"{ours.cpu_us:.1f} µs"
            yield Goal(
                name=f"producer, 64 in flight, {size} B",
                target="CPU per message at most the Java client's",
                measured=measured if theirs is None else f"{measured} to {theirs.cpu_us:.1f} µs",
                is_met=None if theirs is None else ours.cpu_us <= theirs.cpu_us,
            )
        yield from _beside_aiokafka(figures, size)


def _beside_aiokafka(figures: Figures, size: int) -> Iterator[Goal]:
    """Used in the same way, and in its own cheapest way."""
    ours = figures.row(Program.EMBERQ, "produce", "lingering", size)
    if ours is None:
        return
    for mode, manner in (("lingering", "used alike"), ("futures", "in its cheapest way")):
        theirs = figures.row(Program.AIOKAFKA, "produce", mode, size)
        ratio = None if theirs is None else ours.per_cpu_s / theirs.per_cpu_s
        yield Goal(
            name=f"producer, automatic batches, {size} B, aiokafka {manner}",
            target=f"messages per CPU-second at least {AIOKAFKA_RATIO_MIN:g} × aiokafka's",
            measured=f"{ours.per_cpu_s:,.0f}"
            if theirs is None
            else f"{ours.per_cpu_s:,.0f} to {theirs.per_cpu_s:,.0f}: {ratio:.2f} ×",
            is_met=None if ratio is None else ratio >= AIOKAFKA_RATIO_MIN,
        )


def _consuming(figures: Figures) -> Iterator[Goal]:
    for mode, wanted in (
        ("async", CONSUMED_PER_CORE_MIN),
        ("batch", CONSUMED_PER_CORE_MIN),
        ("sync", CONSUMED_SYNC_PER_CORE_MIN),
    ):
        ours = figures.row(Program.EMBERQ, "consume", mode, SMALL_BYTES)
        if ours is not None:
            yield Goal(
                name=f"consumer, {mode} handler, {SMALL_BYTES} B",
                target=f"at least {wanted:,} messages/s per core",
                measured=f"{ours.per_cpu_s:,.0f}",
                is_met=ours.per_cpu_s >= wanted,
            )


def _starting(figures: Figures) -> Iterator[Goal]:
    for start in figures.starts:
        if start.program is Program.EMBERQ:
            whole_s, client_s = median(start.from_process_s), median(start.from_client_s)
            yield Goal(
                name="process start to the first acknowledged send",
                target=f"at most {PROCESS_TO_FIRST_MAX_S} s",
                measured=f"{whole_s:.3f} s",
                is_met=whole_s <= PROCESS_TO_FIRST_MAX_S,
            )
            yield Goal(
                name="start() to the first acknowledged send",
                target=f"at most {START_TO_FIRST_MAX_S * 1000:.0f} ms",
                measured=f"{client_s * 1000:.1f} ms",
                is_met=client_s <= START_TO_FIRST_MAX_S,
            )
