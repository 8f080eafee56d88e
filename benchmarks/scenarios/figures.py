"""What a run found, as it is stored, and whether it reaches the goals."""

from collections.abc import Iterator
from statistics import median

from msgspec import Struct

from benchmarks.figures import EMBERQ, OFFICIAL, Goal
from benchmarks.machine import Facts
from benchmarks.process_facts import Memory
from benchmarks.scenarios.driver import Outcome
from benchmarks.scenarios.rows import TOPIC_COUNTS, Kind, RowShape

THROUGHPUT_RATIO_MIN = 1.0
CPU_RATIO_MAX = 0.6
IDLE_RESIDENT_MAX_MB = 60
FIRST_MESSAGE_MAX_S = 0.5
FLAT_RATIO_MAX = 1.15
TWO_BROKERS_RATIO_MAX = 1.1


class Row(Struct, frozen=True, kw_only=True):
    """One row on one broker: the medians of its rounds."""

    server: str
    shape: RowShape
    per_s: float
    broker_cpu_us: float  # per message
    broker_system_us: float
    load_cpu_us: float
    latencies_ms: dict[str, float]
    refused: int  # requests answered as busy, in all rounds
    per_s_range: tuple[float, float]
    memory: Memory


class Start(Struct, frozen=True, kw_only=True):
    server: str
    first_message_s: list[float]
    idle_memory: Memory


class Neighbours(Struct, frozen=True, kw_only=True):
    """CPU per message of a broker alone, and of each of two under the same load."""

    alone_us: float
    both_us: list[float]


class Figures(Struct, kw_only=True):
    facts: Facts
    kernel: str  # which twin ran
    official: str
    is_quick: bool
    starts: list[Start]
    rows: list[Row]
    neighbours: Neighbours | None = None
    goals: list[Goal] = []

    def row_of(self, server: str, shape: RowShape) -> Row | None:
        return next((row for row in self.rows if row.server == server and row.shape == shape), None)


def row_from(server: str, outcomes: list[Outcome]) -> Row:
    per_s = [outcome.messages / outcome.duration_s for outcome in outcomes]
    points = outcomes[0].latencies_ms
    return Row(
        server=server,
        shape=outcomes[0].row,
        per_s=round(median(per_s), 1),
        broker_cpu_us=round(median(_each(o, o.broker_cpu.total_s) for o in outcomes), 2),
        broker_system_us=round(median(_each(o, o.broker_cpu.system_s) for o in outcomes), 2),
        load_cpu_us=round(median(_each(o, o.load_cpu_s) for o in outcomes), 2),
        latencies_ms={
            point: round(median(o.latencies_ms[point] for o in outcomes), 3) for point in points
        },
        refused=sum(outcome.refused for outcome in outcomes),
        per_s_range=(round(min(per_s), 1), round(max(per_s), 1)),
        memory=outcomes[-1].memory,
    )


def _each(outcome: Outcome, seconds: float) -> float:
    return seconds / max(outcome.messages, 1) * 1e6


def judge(figures: Figures) -> list[Goal]:
    return [*_rows(figures), *_flat(figures), *_starts(figures), *_neighbours(figures)]


def _rows(figures: Figures) -> Iterator[Goal]:
    for ours in figures.rows:
        theirs = figures.row_of(OFFICIAL, ours.shape)
        if ours.server != EMBERQ or theirs is None:
            continue
        if ours.shape.kind is Kind.PUSH:  # its rate is given
            speed, wanted = theirs.latencies_ms["p99"] / ours.latencies_ms["p99"], "p99"
        else:
            speed, wanted = ours.per_s / theirs.per_s, "rate"
        cpu = ours.broker_cpu_us / theirs.broker_cpu_us
        met = speed >= THROUGHPUT_RATIO_MIN and cpu <= CPU_RATIO_MAX
        yield Goal(
            name=ours.shape.name,
            target=f"{wanted} at least as good as the official one's, CPU at most {CPU_RATIO_MAX}",
            measured=f"{wanted} {speed:.2f} ×, CPU {cpu:.2f} ×",
            is_met=met,
        )


def _flat(figures: Figures) -> Iterator[Goal]:
    costs = {
        row.shape.topics: row.broker_cpu_us
        for row in figures.rows
        if row.server == EMBERQ and row.shape.name.startswith("send 128 B, 8 × 16")
    }
    if TOPIC_COUNTS[0] in costs and TOPIC_COUNTS[-1] in costs:
        ratio = max(costs.values()) / min(costs.values())
        yield Goal(
            name="cost per message from 1 to 10,000 topics",
            target=f"at most {FLAT_RATIO_MAX} × the cheapest",
            measured=f"{ratio:.2f} × ({', '.join(f'{cost:.1f}' for cost in costs.values())} µs)",
            is_met=ratio <= FLAT_RATIO_MAX,
        )


def _starts(figures: Figures) -> Iterator[Goal]:
    for start in figures.starts:
        if start.server != EMBERQ:
            continue
        first = median(start.first_message_s)
        resident = start.idle_memory.resident_mb
        yield Goal(
            name="start to first accepted message",
            target=f"at most {FIRST_MESSAGE_MAX_S} s",
            measured=f"{first:.2f} s",
            is_met=first <= FIRST_MESSAGE_MAX_S,
        )
        yield Goal(
            name="resident memory when idle",
            target=f"at most {IDLE_RESIDENT_MAX_MB} MB",
            measured=f"{resident:.1f} MB",
            is_met=resident <= IDLE_RESIDENT_MAX_MB,
        )


def _neighbours(figures: Figures) -> Iterator[Goal]:
    neighbours = figures.neighbours
    if neighbours is not None:
        ratio = max(neighbours.both_us) / neighbours.alone_us
        yield Goal(
            name="two brokers side by side, CPU per message",
            target=f"at most {TWO_BROKERS_RATIO_MAX} × one alone",
            measured=f"{ratio:.2f} ×",
            is_met=ratio <= TWO_BROKERS_RATIO_MAX,
        )
