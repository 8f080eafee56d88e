"""Writes a range of one queue into Parquet files, and says which files there are."""

import uuid
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from emberq.model.queue import MessageQueue
from emberq.spark.archive.data_file import DataFile
from emberq.spark.archive.folder import Folder
from emberq.spark.archive.layout import ArchiveLayout, partition_path
from emberq.spark.archive.parquet_file import ROW_GROUP_BYTES, ParquetDraft
from emberq.spark.planning import QueueSlice

OFFSET_COLUMN = "queueOffset"
TIME_COLUMN = "storeTimestamp"
_HOUR_US = 3_600_000_000
# Files that a task has open at the same time, each with a row group in memory. Messages are stored
# in the order of time, so hardly ever more than two are written to in turn.
OPEN_FILES_MAX = 16


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
        self._open: dict[str, _OpenFile] = {}  # the one that waits longest is the first
        self._stem = layout.file_stem(each, uuid.uuid4().hex[:12])
        self._parts = 0
        self._finished: list[DataFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        if not self._layout.is_timed:
            self._add_hour(0, batch)
            return
        for hour, rows in _split_by_hour(batch):
            self._add_hour(hour, rows)

    def _add_hour(self, hour: int, batch: pa.RecordBatch) -> None:
        partition = self._layout.partition(self._slice.queue, hour)
        place = partition_path(partition)
        file = self._open.get(place)
        if file is None:
            if len(self._open) >= OPEN_FILES_MAX:
                self._finish(next(iter(self._open)))  # later rows of it go to another part
            file = self._new_file(place, partition, batch.schema)
        else:
            del self._open[place]
        self._open[place] = file
        file.add(batch)
        if file.size_bytes >= self._layout.file_size_bytes:
            self._finish(place)

    def _new_file(self, place: str, partition: dict[str, str], rows: pa.Schema) -> "_OpenFile":
        name = f"{place}/{self._stem}-{self._parts}.parquet".lstrip("/")
        self._parts += 1
        schema = _stored_schema(rows, self._layout)
        return _OpenFile(self._folder, name, partition, schema, self._layout)

    def _finish(self, place: str) -> None:
        self._finished.append(self._open[place].finish(self._slice.queue))
        del self._open[place]  # not before: what could not be finished is discarded

    def finish(self) -> list[DataFile]:
        for place in list(self._open):
            self._finish(place)
        return self._finished

    def discard(self) -> None:
        """After a failure: nothing half-written stays."""
        for file in self._open.values():
            file.discard()
        self._open.clear()


class _OpenFile:
    """A file that is being written, and which offsets are in it."""

    def __init__(
        self,
        folder: Folder,
        name: str,
        partition: dict[str, str],
        schema: pa.Schema,
        layout: ArchiveLayout,
    ) -> None:
        self._partition = partition
        self._schema = schema
        self._draft = ParquetDraft(
            folder,
            name,
            schema,
            compression=layout.compression,
            row_group_bytes=min(ROW_GROUP_BYTES, layout.file_size_bytes),
        )
        self._first: int | None = None
        self._last = -1

    @property
    def size_bytes(self) -> int:
        return self._draft.size_bytes

    def add(self, batch: pa.RecordBatch) -> None:
        offsets = pc.min_max(batch.column(OFFSET_COLUMN)).as_py()
        self._first = offsets["min"] if self._first is None else min(self._first, offsets["min"])
        self._last = max(self._last, offsets["max"])
        self._draft.add(_conform(batch, self._schema, self._partition))

    def finish(self, queue: MessageQueue) -> DataFile:
        return DataFile(
            path=self._draft.name,
            rows=self._draft.rows,
            size_bytes=self._draft.finish(),
            partition=self._partition,
            topic=queue.topic,
            broker_name=queue.broker_name,
            queue_id=queue.queue_id,
            first_offset=-1 if self._first is None else self._first,
            next_offset=self._last + 1,
        )

    def discard(self) -> None:
        self._draft.discard()


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
