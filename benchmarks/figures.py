"""What a run found, as it is stored."""

from statistics import median

from msgspec import Struct

from benchmarks.codecs import CodecFigure
from benchmarks.load import Kind, Outcome
from benchmarks.machine import Facts
from benchmarks.process_facts import Memory

EMBERQ, OFFICIAL = "emberq", "official"


class Row(Struct, frozen=True, kw_only=True):
    """One measurement on one server: the medians of its rounds."""

    server: str
    kind: Kind
    topic_count: int
    connections: int
    in_flight: int
    per_s: float
    server_cpu_us: float
    server_system_us: float
    load_cpu_us: float
    rounds: int
    per_s_range: tuple[float, float]
    server_cpu_us_range: tuple[float, float]
    latencies_ms: dict[str, float] | None = None

    @property
    def name(self) -> str:
        shape = f"{self.connections} × {self.in_flight}"
        return f"{self.kind.replace('_', ' ')}, {shape}" + (
            f", {self.topic_count:,} topics" if self.topic_count else ""
        )

    def matches(self, other: "Row") -> bool:
        return self.name == other.name


class Start(Struct, frozen=True, kw_only=True):
    """Times from process start to the first answer, and what the process then holds."""

    server: str
    first_answer_s: list[float]
    idle_memory: Memory

    @property
    def first_answer_median_s(self) -> float:
        return median(self.first_answer_s)


class Loaded(Struct, frozen=True, kw_only=True):
    """Memory after the look-ups of one table."""

    server: str
    topic_count: int
    memory: Memory


class Goal(Struct, frozen=True, kw_only=True):
    name: str
    target: str
    measured: str
    is_met: bool | None  # None: nothing to compare with
    cause: str | None = None
    share: float | None = None  # of the goal that was reached; 1 and more: it is met


class Figures(Struct, kw_only=True):
    facts: Facts
    is_quick: bool
    official: str
    notes: list[str]
    codecs: list[CodecFigure]
    starts: list[Start]
    loaded: list[Loaded]
    rows: list[Row]
    goals: list[Goal]

    def row_of(self, server: str, like: Row) -> Row | None:
        return next((row for row in self.rows if row.server == server and row.matches(like)), None)


def row_from(server: str, outcomes: list[Outcome]) -> Row:
    """One row from the rounds of one measurement."""
    measurement = outcomes[0].measurement
    per_s = [outcome.requests / outcome.duration_s for outcome in outcomes]
    cpu_us = [_per_request_us(o.server_cpu.total_s, o) for o in outcomes]
    latencies = [o.latencies_ms for o in outcomes if o.latencies_ms is not None]
    return Row(
        server=server,
        kind=measurement.kind,
        topic_count=measurement.topic_count,
        connections=measurement.connections,
        in_flight=measurement.in_flight,
        per_s=round(median(per_s), 1),
        server_cpu_us=round(median(cpu_us), 2),
        server_system_us=round(
            median(_per_request_us(o.server_cpu.system_s, o) for o in outcomes), 2
        ),
        load_cpu_us=round(median(_per_request_us(o.load_cpu_s, o) for o in outcomes), 2),
        rounds=len(outcomes),
        per_s_range=(round(min(per_s), 1), round(max(per_s), 1)),
        server_cpu_us_range=(round(min(cpu_us), 2), round(max(cpu_us), 2)),
        latencies_ms={
            point: round(median(entry[point] for entry in latencies), 3) for point in latencies[0]
        }
        if latencies
        else None,
    )


def _per_request_us(seconds: float, outcome: Outcome) -> float:
    return seconds / max(outcome.requests, 1) * 1e6
