"""A task's work: records of its ranges to Arrow batches of the columns that are wanted."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import chain
from typing import Any

import pyarrow as pa

from emberq.errors import CompressionUnavailable, DataLost, RecordError
from emberq.spark.columns import Column
from emberq.spark.decode.scalar import decode_scalar, decode_sound_records, record_edges
from emberq.spark.decode.shape import RowShape, UnfoldsTooFar
from emberq.spark.decode.vector import decode_compiled, decode_vector
from emberq.spark.options import DecodeOptions, SourceOptions
from emberq.spark.places import Place, place_of
from emberq.spark.planning import Partition, QueueSlice

log = logging.getLogger(__name__)

# Bytes that are decoded together: enough for columns to pay, little enough to stay in the cache.
DECODED_TOGETHER_BYTES = 2 * 1024 * 1024
# Bodies that are unpacked together, as so many times `batchBytes`: text is seldom packed to less
# than an eighth, and half a batch of records is decoded at once, so hardly any is unpacked twice.
UNFOLDED_BATCHES = 4
# However large batches are: a column of Arrow has room for 2 GiB.
UNFOLDED_MAX_BYTES = 1 << 30
_DECODERS: dict[str, Callable[[bytes, RowShape], Any]] = {
    "auto": decode_compiled,
    "vector": decode_vector,
    "scalar": decode_scalar,
}


def message_batches(
    partition: Partition, columns: Sequence[Column], options: SourceOptions
) -> Iterator[Any]:
    transform, place = _loaded(options.transform), place_of(options)
    ranges = batches_in_turn(place, partition, columns, options)
    batches = chain.from_iterable(own for _, own in ranges)
    for batch in gathered(batches, options.decode):
        yield batch if transform is None else transform(batch)


def batches_in_turn(
    place: Place, partition: Partition, columns: Sequence[Column], options: SourceOptions
) -> Iterator[tuple[QueueSlice, Iterator[Any]]]:
    """Batches of each range. All of one must be taken before the next one is asked for."""
    for each, contents in place.contents_in_turn(partition):
        yield each, _batches(each, contents, columns, options)


def _batches(
    each: QueueSlice, contents: Iterator[bytes], columns: Sequence[Column], options: SourceOptions
) -> Iterator[Any]:
    queue = each.queue
    shape = RowShape(
        *(tuple(columns), queue.topic, queue.broker_name, each.first, each.stop, options.decode),
        unfolded_max_bytes=min(UNFOLDED_BATCHES * options.decode.batch_bytes, UNFOLDED_MAX_BYTES),
    )
    size_max = min(options.decode.batch_bytes // 2, DECODED_TOGETHER_BYTES)
    count = 0
    for content in _joined(contents, size_max):
        for batch in decoded(content, shape):
            count += batch.num_rows
            rows_max = options.decode.batch_rows
            for first in range(0, batch.num_rows, rows_max):
                yield batch.slice(first, rows_max)
    if options.expression == "*" and count < each.count:
        _tell_loss(each, count, options)


def gathered(batches: Iterable[Any], limits: DecodeOptions) -> Iterator[Any]:
    """Small batches of neighbouring ranges as one, as of each batch Spark makes vectors anew; no
    batch has more bytes than the limit but a single row.

    Joining copies, and a batch that is half full gains nothing by it.
    """
    rows_max, joined_max = limits.batch_rows, limits.batch_bytes // 2
    waiting: list[Any] = []
    rows = size = 0
    for batch in batches:
        own_size = batch.nbytes  # asked for once: Arrow adds it up
        is_full = rows + batch.num_rows > rows_max or size + own_size > joined_max
        if waiting and is_full:
            yield from _together(waiting)
            waiting, rows, size = [], 0, 0
        if own_size > limits.batch_bytes:
            yield from _cut(batch, limits.batch_bytes)
            continue
        waiting.append(batch)
        rows += batch.num_rows
        size += own_size
    if waiting:
        yield from _together(waiting)


def _together(batches: list[Any]) -> list[Any]:
    """One batch; several only where Arrow cannot hold it as one."""
    if len(batches) == 1:
        return batches
    made: list[Any] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return made


def _cut(batch: Any, bytes_max: int) -> Iterator[Any]:
    """Halves, and halves of halves, that are as small as they have to be; nothing is copied."""
    middle = batch.num_rows // 2
    if middle == 0 or batch.nbytes <= bytes_max:
        yield batch
        return
    yield from _cut(batch.slice(0, middle), bytes_max)
    yield from _cut(batch.slice(middle), bytes_max)


def decoded(content: bytes, shape: RowShape) -> Iterator[Any]:
    """One batch, or several where bodies unfold to more than may be in memory at once; raises as
    `decode` does."""
    waiting = [content]
    while waiting:
        piece = waiting.pop()
        try:
            batch = decode(piece, shape)
        except UnfoldsTooFar:
            halves = _halves(piece)
            if len(halves) > 1:
                waiting += reversed(halves)
                continue
            batch = decode(piece, shape._replace(unfolded_max_bytes=None))
        yield batch


def _halves(content: bytes) -> list[bytes]:
    """Two, cut between records about the middle; one if it is a single record."""
    edges = [edge for edge in record_edges(memoryview(content)) if 0 < edge < len(content)]
    if not edges:
        return [content]
    cut = min(edges, key=lambda edge: abs(edge - len(content) // 2))
    return [content[:cut], content[cut:]]


def decode(content: bytes, shape: RowShape) -> Any:
    """One batch.

    Raises:
        RecordError: unless damage is to be passed over.
        CompressionUnavailable: in any case; nothing is wrong with the messages.
        UnfoldsTooFar
    """
    try:
        return _decode(content, shape)
    except CompressionUnavailable as error:
        raise CompressionUnavailable(
            f"{_place(shape)}: {error} on every machine that runs tasks, or read with "
            "decompress=false"
        ) from error


def _decode(content: bytes, shape: RowShape) -> Any:
    try:
        return _DECODERS[shape.options.decoder](content, shape)
    except CompressionUnavailable:
        raise
    except RecordError as error:
        if shape.options.fails_on_damage:
            raise RecordError(f"{_place(shape)}: {error}") from error
        log.warning("records_damaged topic=%s reason=%s", shape.topic, error)
        return decode_sound_records(content, shape)


def _place(shape: RowShape) -> str:
    return f"{shape.topic} {shape.broker_name}, offsets {shape.first} to {shape.stop}"


def _joined(parts: Iterable[bytes], size_max: int) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        if waiting and size + len(part) > size_max:
            yield b"".join(waiting)
            waiting, size = [], 0
        waiting.append(part)
        size += len(part)
    if waiting:
        yield waiting[0] if len(waiting) == 1 else b"".join(waiting)


def _tell_loss(each: QueueSlice, count: int, options: SourceOptions) -> None:
    queue = each.queue
    text = (
        f"{count} of the {each.count} messages {each.first} to {each.stop} of {queue.topic} "
        f"{queue.broker_name}/{queue.queue_id} could be read"
    )
    if options.fails_on_loss:
        raise DataLost(f"{text}; failOnDataLoss=false goes on without the others")
    log.warning("messages_missing %s", text)


def _loaded(name: str | None) -> Callable[[Any], Any] | None:
    if name is None:
        return None
    module, _, function = name.partition(":")
    loaded: Callable[[Any], Any] = getattr(import_module(module), function)
    return loaded
