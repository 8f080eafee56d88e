"""What a task reads, by the view that was asked for. Planners do without: each query starts some,
and what decodes takes as long to import as all that they need."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from emberq.spark.columns import Column, known_columns
from emberq.spark.decode.shape import arrow_schema
from emberq.spark.kept_memory import keep_memory
from emberq.spark.lasting_objects import keep_what_lasts
from emberq.spark.options import SourceOptions
from emberq.spark.planning import Partition
from emberq.spark.rows import message_batches
from emberq.spark.views import index_batches, queue_rows


def read_slices(
    slices: Partition, columns: Sequence[Column], options: SourceOptions
) -> Iterator[Any]:
    keep_memory()
    yield from _batches(slices, columns, options)
    keep_what_lasts()


def _batches(slices: Partition, columns: Sequence[Column], options: SourceOptions) -> Iterator[Any]:
    """With the names that Spark was told, which may be in any case."""
    known = known_columns(options.view, columns)
    made = _made(slices, known, options)
    return made if known is columns else _renamed(made, arrow_schema(columns))


def _renamed(batches: Iterator[Any], schema: Any) -> Iterator[Any]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _made(slices: Partition, columns: Sequence[Column], options: SourceOptions) -> Iterator[Any]:
    if options.view == "messages" or _needs_messages(columns, options):
        return message_batches(slices, columns, options)
    if options.view == "archive":
        from emberq.spark.archive.view import archive_batches  # noqa: PLC0415 - few write files

        return archive_batches(slices, columns, options)
    if options.view == "index":
        return index_batches(slices, columns, options)
    return queue_rows(columns, options)


def _needs_messages(columns: Sequence[Column], options: SourceOptions) -> bool:
    """Of an entry there is no store time, of its tags only a hash, and no property: who wants
    these reads the messages, which have all columns of the index."""
    is_filtered = options.expression != "*"
    has_times = any(column.name == "storeTimestamp" for column in columns)
    return options.view == "index" and (is_filtered or has_times)
