"""What a run of the goals found, as it is stored."""

from enum import StrEnum

from msgspec import Struct

from benchmarks.figures import Goal
from benchmarks.machine import Facts

SMALL, LARGE = 200, 1024  # bytes of bodies


class Query(StrEnum):
    PARQUET = "Parquet, all columns"
    SOURCE = "source, all columns"
    NUMPY = "source, all columns, numpy's decoder"
    PREPARED = "prepared batches, all columns"
    LOCAL = "source, all columns, `scan=local`"
    TUPLES = "a source that yields a tuple per message"
    PARQUET_NO_MAP = "Parquet, without the map"
    SOURCE_NO_MAP = "source, without the map"
    NUMPY_NO_MAP = "source, without the map, numpy's decoder"
    PREPARED_NO_MAP = "prepared batches, without the map"
    BODY = "source, body and offset"
    INDEX = "source, view `index`"
    COPY = "Parquet copied by Spark"
    WRITTEN = "source, written as Parquet by Spark"
    ARCHIVE = "archive, written as Parquet by its tasks"
    SINK = "Parquet into the sink: body, keys, tags"
    FRAMES = "Parquet into frames of the sink, sent nowhere"
    ROW_FRAMES = "a row writer that encodes row by row, sent nowhere"


class Round(Struct, frozen=True, kw_only=True):
    """Once through all rows; CPU of the driver, its JVM and its Python processes."""

    seconds: float
    cpu_s: float


class Measured(Struct, frozen=True, kw_only=True):
    """All rounds of a query; the best one counts, of each figure."""

    query: Query
    size: int
    count: int
    rounds: list[Round]

    @property
    def per_s(self) -> float:
        return self.count / min(each.seconds for each in self.rounds)

    @property
    def cpu_us(self) -> float:
        return min(each.cpu_s for each in self.rounds) / self.count * 1e6


class InProcess(Struct, frozen=True, kw_only=True):
    """Without Spark, in one process: rows per second of its CPU, but for pulls, where the broker
    counts too and it is a second of the clock."""

    compiled_decoder: float | None
    numpy_decoder: float
    pulls: float
    encoder: float
    row_encoder: float


class MicroBatches(Struct, frozen=True, kw_only=True):
    """Milliseconds of micro-batches with few rows, medians; and a stream that has nothing to do."""

    rate_ms: float  # Spark's own source
    source_ms: float
    async_ms: float  # with asynchronous progress tracking
    idle_requests_per_s: float  # to each broker
    offset_visible_s: float  # the longest, from the end of a batch


class Figures(Struct, kw_only=True):
    facts: Facts
    versions: str
    is_quick: bool
    queries: list[Measured]
    count_s: float  # of the topic, through Spark, without reading it
    in_process: InProcess
    micro_batches: MicroBatches
    goals: list[Goal]

    def found(self, query: Query, size: int) -> Measured:
        return next(each for each in self.queries if (each.query, each.size) == (query, size))
