"""The view `archive`: tasks write what they read as Parquet and answer with a row per file."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from emberq.spark.archive.data_file import DataFile
from emberq.spark.archive.writer import write_range
from emberq.spark.columns import Column, archived_columns
from emberq.spark.decode.shape import arrow_schema
from emberq.spark.options import SourceOptions
from emberq.spark.places import place_of
from emberq.spark.planning import Partition
from emberq.spark.rows import batches_in_turn


def archive_batches(
    partition: Partition, columns: Sequence[Column], options: SourceOptions
) -> Iterator[Any]:
    """One batch with a row per file of all ranges of a task."""
    layout = options.archive
    assert layout is not None, "the view has its options"
    written = archived_columns(options)
    files: list[DataFile] = []
    for each, batches in batches_in_turn(place_of(options), partition, written, options):
        files += write_range(batches, each, layout)
    if not files:
        return
    rows: list[Mapping[str, Any]] = [msgspec.to_builtins(file) for file in files]
    schema = arrow_schema(columns)
    arrays = [
        pa.array([_value(row[name]) for row in rows], schema.field(name).type)
        for name in schema.names
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _value(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value
