"""Compaction of a Parquet table: files joined with Arrow, exchanged in one commit of its log."""

import time
import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from emberq.errors import TableError
from emberq.pipelines.tables.columns import footers
from emberq.pipelines.tables.compaction import (
    CompactionPlan,
    CompactionTerms,
    groups_to_join,
    older_files,
)
from emberq.pipelines.tables.parquet import ParquetTable
from emberq.spark.archive.data_file import DataFile
from emberq.spark.archive.folder import Folder
from emberq.spark.archive.parquet_file import ROW_GROUP_BYTES, ParquetDraft

# A file of this share of the wanted size is large enough to be left alone.
LARGE_ENOUGH = 0.75
# Read together: about so many bytes as they stand in the file, and never more rows than that,
# because values that repeat are larger in memory.
READ_BYTES = 8 * 1024 * 1024
READ_ROWS_MAX = 10_000


class ParquetCompaction:
    """Joins what is small, drops what is old, deletes what has not counted for long."""

    def __init__(self, table: ParquetTable, terms: CompactionTerms) -> None:
        self._table = table
        self._terms = terms

    def plan(self) -> CompactionPlan:
        files = self._table.files()
        dropped = older_files(files, self._terms.oldest_day)
        paths = {each.path for each in dropped}
        return CompactionPlan(
            files=files,
            dropped=dropped,
            groups=self._groups([each for each in files if each.path not in paths]),
            deleted=self._table.leftovers(self._before_s()),
        )

    def run(self, say: Callable[[str], None]) -> Mapping[str, int]:
        before = self._table.files()
        dropped = older_files(before, self._terms.oldest_day)
        if dropped:
            self._table.replace([each.path for each in dropped], [])
            say(f"{len(dropped)} files of old days dropped")
        joined = 0
        for group in self._groups(self._table.files()):
            file = self._join(group)
            joined += len(group)
            say(f"{len(group)} files, {file.rows:,} messages, into {file.path}")
        # Opened anew, to go by what the log says and not by what this object believes: in an
        # object store somebody may have written over a commit of ours.
        again = ParquetTable(self._table.root)
        deleted = again.delete_leftovers(self._before_s())
        return {
            "files before": len(before),
            "files after": len(again.files()),
            "files joined": joined,
            "files of dropped days": len(dropped),
            "files deleted": len(deleted),
        }

    def _before_s(self) -> float:
        return time.time() - self._terms.orphans_after_s

    def _groups(self, files: list[DataFile]) -> list[list[DataFile]]:
        wanted = self._terms.file_size_bytes
        return groups_to_join(files, wanted * LARGE_ENOUGH, wanted, self._columns_of)

    def _columns_of(self, files: Sequence[DataFile]) -> Iterator[Hashable]:
        """The columns of an archive may be others from one day on."""
        folder = self._table.folder
        found = dict(footers(folder, [each.path for each in files]))
        for each in files:  # one that is gone is like no other; who joins it says so
            schema = found.get(folder.path_of(each.path), ())
            yield tuple((field.name, str(field.type), field.nullable) for field in schema)

    def _join(self, group: list[DataFile]) -> DataFile:
        folder = self._table.folder
        place, _, _ = group[0].path.rpartition("/")
        name = f"{place}/joined-{uuid.uuid4().hex}.parquet".lstrip("/")
        draft = ParquetDraft(
            folder,
            name,
            _schema_of(folder, group[0]),
            compression=self._terms.compression,
            row_group_bytes=min(ROW_GROUP_BYTES, self._terms.file_size_bytes),
        )
        try:
            for each in group:
                for batch in _batches(folder, each):
                    draft.add(batch)
            expected = sum(each.rows for each in group)
            if draft.rows != expected:
                place = folder.path_of(place)
                raise TableError(f"{place}: {draft.rows} messages in files that have {expected}")
            size_bytes = draft.finish()
        finally:
            draft.discard()
        joined = DataFile(
            path=name, rows=draft.rows, size_bytes=size_bytes, partition=group[0].partition
        )
        try:
            self._table.replace([each.path for each in group], [joined])
        except TableError:  # and no other failure: after those the commit may be there
            folder.delete(name)
            raise
        return joined


def rows_together(metadata: pq.FileMetaData) -> int:
    """How many rows of a file may be in memory at once, by the row group whose rows are largest."""
    rows = READ_ROWS_MAX
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows:
            rows = min(rows, READ_BYTES * group.num_rows // (group.total_byte_size or 1))
    return max(1, rows)


def _schema_of(folder: Folder, file: DataFile) -> pa.Schema:
    with _opened(folder, file) as source:
        return source.schema_arrow.remove_metadata()


def _batches(folder: Folder, file: DataFile) -> Iterator[pa.RecordBatch]:
    with _opened(folder, file) as source:
        yield from source.iter_batches(rows_together(source.metadata))


@contextmanager
def _opened(folder: Folder, file: DataFile) -> Iterator[pq.ParquetFile]:
    """For reading only: what fails inside is told of this file."""
    path = folder.path_of(file.path)
    try:
        with folder.filesystem.open_input_file(path) as stream, pq.ParquetFile(stream) as source:
            yield source
    except (OSError, pa.ArrowInvalid) as error:
        raise TableError(f"{path}: {error}") from error
