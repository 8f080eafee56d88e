"""What tasks do, without Spark around it: decoding, pulling, encoding."""

import time
from collections.abc import Callable
from itertools import islice

from benchmarks.spark.goal_figures import InProcess
from benchmarks.spark.sink import encoding_us
from emberq.spark.batch_reader import BatchReader, slices_of
from emberq.spark.columns import chosen_columns
from emberq.spark.decode.shape import RowShape
from emberq.spark.decode.vector import HAS_COMPILED, decode_compiled, decode_vector
from emberq.spark.kept_memory import keep_memory
from emberq.spark.options import SourceOptions, parse_source
from emberq.spark.planning import QueueSlice
from emberq.spark.pulling import pulled
from emberq.spark.reading import read_slices

PARTS = 8  # of records, each what one pull brings
DECODER_ROUNDS = 10
SINK_COLUMNS = "body, keys, tags"


def measure(address: str, topic: str, count: int, rounds: int) -> InProcess:
    """`topic` has `count` messages in one queue."""
    keep_memory()
    given = {"nameServer": address, "subscribe": topic, "maxBytesPerPartition": "2g"}
    options = parse_source(given)
    [each] = slices_of(BatchReader(options, ()).partitions()[0])
    parts = list(islice(pulled(each, options), PARTS))
    encoder_us, row_encoder_us = encoding_us(SINK_COLUMNS, rounds * 4)
    return InProcess(
        compiled_decoder=_decoded(decode_compiled, parts, each, options) if HAS_COMPILED else None,
        numpy_decoder=_decoded(decode_vector, parts, each, options),
        pulls=_pulled(given, count, rounds),
        encoder=1e6 / encoder_us,
        row_encoder=1e6 / row_encoder_us,
    )


def _decoded(
    decode: Callable[..., object], parts: list[bytes], each: QueueSlice, options: SourceOptions
) -> float:
    """Rows per second of CPU; all default columns."""
    queue, columns = each.queue, tuple(chosen_columns(options))
    shape = RowShape(columns, queue.topic, queue.broker_name, each.first, each.stop, options.decode)
    rows: int = sum(decode_compiled(part, shape).num_rows for part in parts)
    times = []
    for _ in range(DECODER_ROUNDS):
        began = time.process_time()
        for part in parts:
            decode(part, shape)
        times.append(time.process_time() - began)
    return rows / min(times)


def _pulled(given: dict[str, str], count: int, rounds: int) -> float:
    """Rows per second: pulls of 1 MiB, the next one under way while numpy decodes."""
    options = parse_source({**given, "pull.maxBytes": "1m", "decoder": "vector"})
    columns = chosen_columns(options)
    times = []
    for _ in range(rounds):
        [partition] = BatchReader(options, columns).partitions()
        began = time.perf_counter()
        rows = sum(batch.num_rows for batch in read_slices(slices_of(partition), columns, options))
        times.append(time.perf_counter() - began)
        if rows != count:
            raise RuntimeError(f"{rows:,} of {count:,} rows")
    return count / min(times)
