"""What the Spark source, its sink and its archive have to reach, and whether a run shows it."""

from collections.abc import Iterator

from benchmarks.figures import Goal
from benchmarks.spark.goal_figures import LARGE, SMALL, Figures, Query

# Rows per CPU second, in relation to those of a peer: query, peer, size, at least.
RATIOS = (
    (Query.SOURCE, Query.PARQUET, SMALL, 0.85),
    (Query.NUMPY, Query.PARQUET, SMALL, 0.65),
    (Query.SOURCE_NO_MAP, Query.PARQUET_NO_MAP, SMALL, 0.8),
    (Query.NUMPY_NO_MAP, Query.PARQUET_NO_MAP, SMALL, 0.55),
    (Query.SOURCE, Query.PARQUET, LARGE, 0.8),
    (Query.NUMPY, Query.PARQUET, LARGE, 0.8),
    (Query.SOURCE, Query.TUPLES, SMALL, 8.0),
    (Query.WRITTEN, Query.COPY, SMALL, 1.0),
    (Query.WRITTEN, Query.COPY, LARGE, 1.0),
    (Query.ARCHIVE, Query.COPY, SMALL, 2.5),
    (Query.ARCHIVE, Query.COPY, LARGE, 3.5),
    (Query.FRAMES, Query.ROW_FRAMES, SMALL, 4.0),
)
INDEX_MIN = 1_300_000
COUNT_MAX_S = 1.0
COMPILED_DECODER_MIN, NUMPY_DECODER_MIN = 4_000_000, 1_200_000
ENCODER_MIN, ENCODER_RATIO_MIN = 1_400_000, 4.0
PULLS_MIN = 800_000
MICRO_BATCH_MORE_MAX_MS, MICRO_BATCH_ASYNC_MAX_MS = 150, 120
IDLE_REQUESTS_MAX_PER_S = 5
OFFSET_VISIBLE_MAX_S = 1.0


def judge(figures: Figures) -> list[Goal]:
    return [*_ratios(figures), *_alone(figures), *_micro_batches(figures)]


def _ratios(figures: Figures) -> Iterator[Goal]:
    for query, peer, size, least in RATIOS:
        ours, theirs = figures.found(query, size), figures.found(peer, size)
        ratio = theirs.cpu_us / ours.cpu_us
        yield Goal(
            name=f"{size:,} B: {query}",
            target=f"at least {least:g} × the rows per CPU second: {peer}",
            measured=f"{ratio:.2f} ×",
            is_met=ratio >= least,
            share=ratio / least,
        )


def _alone(figures: Figures) -> Iterator[Goal]:
    found = figures.in_process
    index = 1e6 / figures.found(Query.INDEX, SMALL).cpu_us
    yield _at_least("view `index`, rows per CPU second", index, INDEX_MIN)
    yield _at_most("`count` of a topic without reading it", figures.count_s, COUNT_MAX_S, "s")
    if found.compiled_decoder is not None:
        name = "compiled decoder alone, rows per CPU second"
        yield _at_least(name, found.compiled_decoder, COMPILED_DECODER_MIN)
    name = "numpy's decoder alone, rows per CPU second"
    yield _at_least(name, found.numpy_decoder, NUMPY_DECODER_MIN)
    name = "one reader with pulls of 1 MiB and numpy's decoder, rows per second"
    yield _at_least(name, found.pulls, PULLS_MIN)
    yield _at_least("encoder of the sink alone, rows per CPU second", found.encoder, ENCODER_MIN)
    ratio = found.encoder / found.row_encoder
    yield Goal(
        name="encoder of the sink",
        target=f"at least {ENCODER_RATIO_MIN:g} × rows that are encoded one by one",
        measured=f"{ratio:.1f} ×",
        is_met=ratio >= ENCODER_RATIO_MIN,
        share=ratio / ENCODER_RATIO_MIN,
    )


def _micro_batches(figures: Figures) -> Iterator[Goal]:
    found = figures.micro_batches
    more_ms = found.source_ms - found.rate_ms
    yield _at_most(
        "a micro-batch beyond one of Spark's rate source", more_ms, MICRO_BATCH_MORE_MAX_MS, "ms"
    )
    name = "a micro-batch with asynchronous progress tracking"
    yield _at_most(name, found.async_ms, MICRO_BATCH_ASYNC_MAX_MS, "ms")
    name = "requests of an idle stream to a broker of EmberQ, each second"
    yield _at_most(name, found.idle_requests_per_s, IDLE_REQUESTS_MAX_PER_S, "")
    name = "a group's offset visible after the end of a batch"
    yield _at_most(name, found.offset_visible_s, OFFSET_VISIBLE_MAX_S, "s")


def _at_least(name: str, measured: float, least: float) -> Goal:
    return Goal(
        name=name,
        target=f"at least {least:,.0f}",
        measured=f"{measured:,.0f}",
        is_met=measured >= least,
        share=measured / least,
    )


def _at_most(name: str, measured: float, most: float, unit: str) -> Goal:
    return Goal(
        name=name,
        target=f"at most {most:g} {unit}".strip(),
        measured=f"{measured:.3g} {unit}".strip(),
        is_met=measured <= most,
        share=most / measured if measured > 0 else 1.0,
    )
