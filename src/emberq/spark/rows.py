"""A task's work: records of its ranges to Arrow batches of the columns that are wanted."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import chain
from typing import Any

import pyarrow as pa

from emberq.errors import DataLost, RecordError
from emberq.spark.columns import Column
from emberq.spark.decode.scalar import decode_scalar, decode_sound_records
from emberq.spark.decode.shape import RowShape
from emberq.spark.decode.vector import decode_compiled, decode_vector
from emberq.spark.options import SourceOptions
from emberq.spark.places import Place, place_of
from emberq.spark.planning import Partition, QueueSlice

log = logging.getLogger(__name__)

# Bytes that are decoded together: enough for columns to pay, little enough to stay in the cache.
DECODED_TOGETHER_BYTES = 2 * 1024 * 1024
_DECODERS: dict[str, Callable[[bytes, RowShape], Any]] = {
    "auto": decode_compiled,
    "vector": decode_vector,
    "scalar": decode_scalar,
}


def message_batches(
    partition: Partition, columns: Sequence[Column], options: SourceOptions
) -> Iterator[Any]:
    transform, place = _loaded(options.transform), place_of(options)
    batches = chain.from_iterable(
        slice_batches(place, each, columns, options) for each in partition
    )
    for batch in gathered(batches, options.decode.batch_rows):
        yield batch if transform is None else transform(batch)


def slice_batches(
    place: Place, each: QueueSlice, columns: Sequence[Column], options: SourceOptions
) -> Iterator[Any]:
    queue = each.queue
    shape = RowShape(
        tuple(columns), queue.topic, queue.broker_name, each.first, each.stop, options.decode
    )
    size_max = min(options.decode.batch_bytes, DECODED_TOGETHER_BYTES)
    count = 0
    for content in _joined(place.contents(each), size_max):
        batch = decode(content, shape)
        count += batch.num_rows
        rows_max = options.decode.batch_rows
        for first in range(0, batch.num_rows, rows_max):
            yield batch.slice(first, rows_max)
    if options.expression == "*" and count < each.count:
        _tell_loss(each, count, options)


def gathered(batches: Iterable[Any], rows_max: int) -> Iterator[Any]:
    """Small batches of neighbouring ranges as one: of each batch Spark makes vectors anew."""
    waiting: list[Any] = []
    rows = size = 0
    for batch in batches:
        is_full = rows + batch.num_rows > rows_max or size + batch.nbytes > DECODED_TOGETHER_BYTES
        if waiting and is_full:
            yield _one_of(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if waiting:
        yield _one_of(waiting)


def _one_of(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def decode(content: bytes, shape: RowShape) -> Any:
    """One batch. Raises RecordError unless damage is to be passed over."""
    try:
        return _DECODERS[shape.options.decoder](content, shape)
    except RecordError as error:
        if shape.options.fails_on_damage:
            raise RecordError(
                f"{shape.topic} {shape.broker_name}, offsets {shape.first} to {shape.stop}: {error}"
            ) from error
        log.warning("records_damaged topic=%s reason=%s", shape.topic, error)
        return decode_sound_records(content, shape)


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
