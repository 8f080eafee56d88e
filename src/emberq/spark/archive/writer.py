"""Writes a range of one queue into Parquet files, and says which files there are."""

import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from emberq.model.queue import MessageQueue
from emberq.spark.archive.data_file import DataFile
from emberq.spark.archive.folder import Folder
from emberq.spark.archive.layout import ArchiveLayout, partition_path
from emberq.spark.planning import QueueSlice

OFFSET_COLUMN = "queueOffset"
TIME_COLUMN = "storeTimestamp"
_HOUR_US = 3_600_000_000
# Batches are gathered into row groups of about so many bytes in memory.
ROW_GROUP_BYTES = 32 * 1024 * 1024
# Columns whose values hardly ever repeat: building dictionaries of them would be work for nothing.
_UNIQUE_COLUMNS = frozenset(
    {OFFSET_COLUMN, "body", "msgId", "uniqKey", "bodyCrc", "commitLogOffset"}
)
# Columns that no reader looks for by range: their least and greatest values help nobody.
_UNORDERED_COLUMNS = frozenset({"body", "properties", "msgId", "uniqKey", "bodyCrc"})


def write_range(
    batches: Iterable[pa.RecordBatch], each: QueueSlice, layout: ArchiveLayout
) -> list[DataFile]:
    """Write all batches; the files are complete and under their names when this returns.

    Batches must have `queueOffset`, and `storeTimestamp` where the layout goes by time.
    """
    writer = _RangeWriter(each, layout)
    try:
        for batch in batches:
            if batch.num_rows:
                writer.add(batch)
        return writer.finish()
    finally:
        writer.discard()


class _RangeWriter:
    def __init__(self, each: QueueSlice, layout: ArchiveLayout) -> None:
        self._slice = each
        self._layout = layout
        self._folder = Folder(layout.root)
        self._open: dict[str, _OpenFile] = {}
        self._parts = 0
        self._finished: list[DataFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        if not self._layout.is_timed:
            self._add_hour(0, batch)
            return
        for hour, rows in _split_by_hour(batch):
            self._add_hour(hour, rows)

    def _add_hour(self, hour: int, batch: pa.RecordBatch) -> None:
        queue = self._slice.queue
        partition = self._layout.partition(queue, hour)
        place = partition_path(partition)
        file = self._open.get(place)
        if file is None:
            stem = self._layout.file_stem(self._slice)
            name = f"{place}/{stem}-{self._parts}.parquet".lstrip("/")
            self._parts += 1
            schema = _stored_schema(batch.schema, self._layout)
            file = self._open[place] = _OpenFile(
                self._folder, name, partition, schema, self._layout
            )
        file.add(batch)
        if file.size_bytes >= self._layout.file_size_bytes:
            self._finished.append(self._open.pop(place).finish(queue))

    def finish(self) -> list[DataFile]:
        for place in list(self._open):
            self._finished.append(self._open.pop(place).finish(self._slice.queue))
        return self._finished

    def discard(self) -> None:
        """After a failure: nothing half-written stays."""
        for file in self._open.values():
            file.discard()
        self._open.clear()


class _OpenFile:
    """A file that is being written: under a hidden name where a rename is cheap and atomic."""

    def __init__(
        self,
        folder: Folder,
        name: str,
        partition: dict[str, str],
        schema: pa.Schema,
        layout: ArchiveLayout,
    ) -> None:
        self._folder = folder
        self._name = name
        self._partition = partition
        self._schema = schema
        self._path = folder.path_of(name)
        self._draft = self._path
        if folder.is_local:
            target = Path(self._path)
            target.parent.mkdir(parents=True, exist_ok=True)
            self._draft = str(target.with_name(f".{target.name}.{uuid.uuid4().hex}"))
        self._sink = folder.filesystem.open_output_stream(self._draft)
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression=layout.compression,
            use_dictionary=_leaves(schema, _UNIQUE_COLUMNS),
            write_statistics=_leaves(schema, _UNORDERED_COLUMNS),
        )
        self._group_bytes_max = min(ROW_GROUP_BYTES, layout.file_size_bytes)
        self._group: list[pa.RecordBatch] = []
        self._group_bytes = 0
        self._rows = 0
        self._first: int | None = None
        self._last = -1

    @property
    def size_bytes(self) -> int:
        """Of what is written; the group that is being gathered is not in it."""
        return int(self._sink.tell())

    def add(self, batch: pa.RecordBatch) -> None:
        offsets = pc.min_max(batch.column(OFFSET_COLUMN)).as_py()
        self._first = offsets["min"] if self._first is None else min(self._first, offsets["min"])
        self._last = max(self._last, offsets["max"])
        self._rows += batch.num_rows
        self._group.append(_conform(batch, self._schema, self._partition))
        self._group_bytes += batch.nbytes
        if self._group_bytes >= self._group_bytes_max:
            self._write_group()

    def _write_group(self) -> None:
        if self._group:
            rows = pa.Table.from_batches(self._group)
            self._writer.write_table(rows, row_group_size=rows.num_rows)
            self._group, self._group_bytes = [], 0

    def finish(self, queue: MessageQueue) -> DataFile:
        self._write_group()
        self._writer.close()
        size_bytes = self.size_bytes
        self._sink.close()
        if self._draft != self._path:
            os.replace(self._draft, self._path)  # noqa: PTH105 - both are text already
        return DataFile(
            path=self._name,
            rows=self._rows,
            size_bytes=size_bytes,
            partition=self._partition,
            topic=queue.topic,
            broker_name=queue.broker_name,
            queue_id=queue.queue_id,
            first_offset=-1 if self._first is None else self._first,
            next_offset=self._last + 1,
        )

    def discard(self) -> None:
        self._writer.close()
        self._sink.close()
        self._folder.filesystem.delete_file(self._draft)


def _conform(batch: pa.RecordBatch, schema: pa.Schema, partition: dict[str, str]) -> pa.RecordBatch:
    """The batch with the columns of the file: partition columns dropped or filled in."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        batch.column(name)
        if name in batch.schema.names
        else pa.repeat(pa.scalar(partition[name]), batch.num_rows)
        for name in schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _leaves(schema: pa.Schema, left_out: frozenset[str]) -> list[str]:
    """The columns of a file without some, as Parquet calls them."""
    leaves: list[str] = []
    for field in schema:
        if field.name in left_out:
            continue
        if pa.types.is_map(field.type):
            leaves += [f"{field.name}.key_value.{each}" for each in ("key", "value")]
        else:
            leaves.append(field.name)
    return leaves


def _stored_schema(rows: pa.Schema, layout: ArchiveLayout) -> pa.Schema:
    """What files hold: the rows' columns without, or with, those that stand in paths."""
    for name in layout.partition_by:
        if name in rows.names and not layout.keeps_partition_columns:
            rows = rows.remove(rows.get_field_index(name))
        elif name not in rows.names and layout.keeps_partition_columns:
            rows = rows.append(pa.field(name, pa.string()))
    return rows


def _split_by_hour(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows of one hour each, in order; nearly always the whole batch."""
    hours = pc.divide(batch.column(TIME_COLUMN).cast(pa.int64()), _HOUR_US)
    bounds = pc.min_max(hours).as_py()
    if bounds["min"] == bounds["max"]:
        yield bounds["min"] or 0, batch
        return
    for hour in sorted(hours.unique().to_pylist()):
        yield hour, batch.filter(pc.equal(hours, hour))
