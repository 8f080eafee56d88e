"""What the name server has to reach, and whether a run shows it."""

from collections.abc import Callable, Iterator
from statistics import median

from benchmarks.figures import EMBERQ, OFFICIAL, Figures, Goal, Row, Start
from benchmarks.load import Kind
from benchmarks.plan import SHAPES, TOPIC_COUNTS

THROUGHPUT_RATIO_MIN = 1.0
CPU_RATIO_MAX = 0.5
IDLE_RESIDENT_MAX_MB = 40
IDLE_ANONYMOUS_MAX_MB = 20
FIRST_ANSWER_MAX_S = 0.25
FLAT_RATIO_MAX = 1.15


def judge(figures: Figures) -> list[Goal]:
    return [
        *_against_official(figures),
        *_flatness(figures),
        *_idle(figures),
    ]


def _against_official(figures: Figures) -> Iterator[Goal]:
    targets = (
        (
            "look-ups per second",
            f"at least {THROUGHPUT_RATIO_MIN:g} × official",
            lambda ours, theirs: ours.per_s / theirs.per_s,
            lambda ratio: ratio >= THROUGHPUT_RATIO_MIN,
        ),
        (
            "CPU per look-up",
            f"at most {CPU_RATIO_MAX:g} × official",
            lambda ours, theirs: ours.server_cpu_us / theirs.server_cpu_us,
            lambda ratio: ratio <= CPU_RATIO_MAX,
        ),
    )
    for name, target, ratio_of, is_met in targets:
        for connections, in_flight in SHAPES:
            yield _compared(figures, name, target, (connections, in_flight), ratio_of, is_met)


def _compared(
    figures: Figures,
    name: str,
    target: str,
    shape: tuple[int, int],
    ratio_of: Callable[[Row, Row], float],
    is_met: Callable[[float], bool],
) -> Goal:
    """Every table size must reach it; the median and the range are shown."""
    pairs = [
        (ours, theirs)
        for ours in _lookups(figures, shape)
        if (theirs := figures.row_of(OFFICIAL, ours)) is not None
    ]
    title = f"{name}, {shape[0]} × {shape[1]}"
    if not pairs:
        return Goal(name=title, target=target, measured="no official server", is_met=None)
    ratios = [ratio_of(ours, theirs) for ours, theirs in pairs]
    met = all(map(is_met, ratios))
    return Goal(
        name=title,
        target=target,
        measured=f"{median(ratios):.2f} × ({min(ratios):.2f} to {max(ratios):.2f})",
        is_met=met,
        cause=None if met else _cpu_split(pairs),
    )


def _cpu_split(pairs: list[tuple[Row, Row]]) -> str:
    """Where the time goes: ours and theirs, program and kernel."""
    parts = []
    for who, rows in zip(("EmberQ", "official"), zip(*pairs, strict=True), strict=True):
        total = median(row.server_cpu_us for row in rows)
        kernel = median(row.server_system_us for row in rows)
        parts.append(f"{who} {total:.1f} µs per look-up, {kernel:.1f} of them in the kernel")
    return "; ".join(parts)


def _flatness(figures: Figures) -> Iterator[Goal]:
    for shape in SHAPES:
        rows = _lookups(figures, shape)
        if len(rows) < len(TOPIC_COUNTS):
            continue
        costs = {row.topic_count: row.server_cpu_us for row in rows}
        ratio = max(costs.values()) / costs[TOPIC_COUNTS[0]]
        met = ratio <= FLAT_RATIO_MAX
        spread = max(row.server_cpu_us_range[1] / row.server_cpu_us_range[0] for row in rows)
        yield Goal(
            name=f"cost per look-up from 10 to 10,000 topics, {shape[0]} × {shape[1]}",
            target=f"at most {FLAT_RATIO_MAX:g} × the smallest table",
            measured=f"{ratio:.2f} × ("
            + ", ".join(f"{cost:.1f}" for cost in costs.values())
            + " µs)",
            is_met=met,
            cause=None if met else f"rounds of one table differ by up to {spread:.2f} ×",
        )


def _idle(figures: Figures) -> Iterator[Goal]:
    start = next((start for start in figures.starts if start.server == EMBERQ), None)
    if start is None:
        return
    memory = start.idle_memory
    yield _at_most("resident memory when idle", memory.resident_mb, IDLE_RESIDENT_MAX_MB, "MB")
    yield _at_most("anonymous memory when idle", memory.anonymous_mb, IDLE_ANONYMOUS_MAX_MB, "MB")
    yield _first_answer(start)


def _first_answer(start: Start) -> Goal:
    measured_s = start.first_answer_median_s
    met = measured_s <= FIRST_ANSWER_MAX_S
    return Goal(
        name="first answer after start",
        target=f"at most {FIRST_ANSWER_MAX_S:g} s",
        measured=f"{measured_s:.3f} s ({min(start.first_answer_s):.3f} to "
        f"{max(start.first_answer_s):.3f})",
        is_met=met,
        cause=None if met else "start of the interpreter and imports",
    )


def _at_most(name: str, measured: float, limit: float, unit: str) -> Goal:
    return Goal(
        name=name,
        target=f"at most {limit:g} {unit}",
        measured=f"{measured:.1f} {unit}",
        is_met=measured <= limit,
    )


def _lookups(figures: Figures, shape: tuple[int, int]) -> list[Row]:
    return [
        row
        for row in figures.rows
        if row.server == EMBERQ
        and row.kind is Kind.LOOKUP
        and (row.connections, row.in_flight) == shape
    ]
