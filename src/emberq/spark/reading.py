"""What a task reads, by the view that was asked for. Planners do without: each query starts some,
and what decodes takes as long to import as all that they need."""

from collections.abc import Iterator, Sequence
from typing import Any

from emberq.spark.columns import Column
from emberq.spark.lasting_objects import keep_what_lasts
from emberq.spark.options import SourceOptions
from emberq.spark.planning import Partition
from emberq.spark.rows import message_batches
from emberq.spark.views import index_batches, queue_rows


def read_slices(
    slices: Partition, columns: Sequence[Column], options: SourceOptions
) -> Iterator[Any]:
    yield from _batches(slices, columns, options)
    keep_what_lasts()


def _batches(slices: Partition, columns: Sequence[Column], options: SourceOptions) -> Iterator[Any]:
    # Store times are in no entry, and all columns of the index are columns of messages too.
    has_times = any(column.name == "storeTimestamp" for column in columns)
    if options.view == "messages" or (options.view == "index" and has_times):
        return message_batches(slices, columns, options)
    if options.view == "archive":
        from emberq.spark.archive.view import archive_batches  # noqa: PLC0415 - few write files

        return archive_batches(slices, columns, options)
    if options.view == "index":
        return index_batches(slices, columns, options)
    return queue_rows(columns, options)
