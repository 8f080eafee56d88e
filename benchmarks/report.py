"""The printed table of a run."""

from collections.abc import Iterator

from benchmarks.figures import EMBERQ, OFFICIAL, Figures, Row

_WIDTHS = (52, 10, 10, 7, 9, 9, 7, 7, 16)
_HEADINGS = (
    "",
    "EmberQ/s",
    "official/s",
    "ratio",
    "CPU µs",
    "official",
    "ratio",
    "load µs",
    "p50/p99/max ms",
)


def lines(figures: Figures) -> Iterator[str]:
    facts = figures.facts
    modified = " + changes" if facts.is_modified else ""
    yield (
        f"EmberQ {facts.emberq} ({facts.commit}{modified}), Python {facts.python}, {facts.loop}, "
        f"{facts.twin} kernel, {facts.cores} × {facts.cpu}, Linux {facts.kernel}, "
        f"load average {facts.load_average}"
    )
    yield f"Official: {figures.official}"
    yield from figures.notes
    yield ""
    yield from _codecs(figures)
    yield from _starts(figures)
    yield _cells(_HEADINGS)
    for row in figures.rows:
        if row.server == EMBERQ:
            yield _pair(row, figures.row_of(OFFICIAL, row))
    yield ""
    yield from _goals(figures)


def _codecs(figures: Figures) -> Iterator[str]:
    for figure in figures.codecs:
        yield f"{figure.name:<52} {figure.mean_us:>8.3f} µs ± {figure.deviation_us:.3f}"
    if figures.codecs:
        yield ""


def _starts(figures: Figures) -> Iterator[str]:
    for start in figures.starts:
        memory = start.idle_memory
        yield (
            f"{start.server:<10} first answer after {start.first_answer_median_s:.3f} s; idle "
            f"{memory.resident_mb:.1f} MB resident, {memory.anonymous_mb:.1f} MB anonymous"
        )
    for loaded in figures.loaded:
        yield (
            f"{loaded.server:<10} after look-ups of {loaded.topic_count:,} topics "
            f"{loaded.memory.resident_mb:.1f} MB resident, "
            f"{loaded.memory.anonymous_mb:.1f} MB anonymous"
        )
    yield ""


def _pair(ours: Row, theirs: Row | None) -> str:
    latencies = ours.latencies_ms
    return _cells(
        (
            ours.name,
            f"{ours.per_s:,.0f}",
            "–" if theirs is None else f"{theirs.per_s:,.0f}",
            "–" if theirs is None else f"{ours.per_s / theirs.per_s:.2f}",
            f"{ours.server_cpu_us:,.1f}",
            "–" if theirs is None else f"{theirs.server_cpu_us:,.1f}",
            "–" if theirs is None else f"{ours.server_cpu_us / theirs.server_cpu_us:.2f}",
            f"{ours.load_cpu_us:,.1f}",
            "–" if latencies is None else "/".join(f"{ms:.2f}" for ms in latencies.values()),
        )
    )


def _cells(texts: tuple[str, ...]) -> str:
    first, *rest = zip(texts, _WIDTHS, strict=True)
    return f"{first[0]:<{first[1]}}" + "".join(f" {text:>{width}}" for text, width in rest)


def _goals(figures: Figures) -> Iterator[str]:
    words = {True: "met", False: "MISSED", None: "open"}
    for goal in figures.goals:
        yield f"{words[goal.is_met]:<7} {goal.name:<55} {goal.measured:<36} goal: {goal.target}"
        if goal.cause:
            yield f"        because: {goal.cause}"
