"""A file appears when it is whole, and in row groups of an even size."""

import errno
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from emberq.spark.archive.folder import Folder
from emberq.spark.archive.parquet_file import ParquetDraft

SCHEMA = pa.schema([("queueOffset", pa.int64()), ("body", pa.binary())])


def rows(count: int) -> pa.RecordBatch:
    columns = [pa.array(range(count), pa.int64()), pa.array([b"x" * 100] * count, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def draft(folder: Path, **options: int) -> ParquetDraft:
    return ParquetDraft(Folder(str(folder)), "a/b.parquet", SCHEMA, compression="zstd", **options)


def files_below(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_file_has_its_name_when_it_is_whole(tmp_path: Path) -> None:
    file = draft(tmp_path)
    file.add(rows(10))
    (hidden,) = files_below(tmp_path)
    assert hidden.startswith(".b.parquet.")

    size_bytes = file.finish()
    file.discard()

    assert files_below(tmp_path) == ["b.parquet"]
    assert (tmp_path / "a" / "b.parquet").stat().st_size == size_bytes
    assert pq.read_table(tmp_path / "a" / "b.parquet").num_rows == file.rows == 10


def test_what_is_discarded_leaves_nothing(tmp_path: Path) -> None:
    file = draft(tmp_path)
    file.add(rows(10))

    file.discard()

    assert files_below(tmp_path) == []


def test_a_file_that_cannot_be_finished_can_be_discarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = draft(tmp_path)
    file.add(rows(10))
    monkeypatch.setattr(os, "replace", full)

    with pytest.raises(OSError, match="No space left"):
        file.finish()
    file.discard()

    assert files_below(tmp_path) == []


def test_batches_are_gathered_until_a_row_group_is_full(tmp_path: Path) -> None:
    file = draft(tmp_path, row_group_bytes=3 * rows(10).nbytes)
    for _ in range(7):
        file.add(rows(10))
    file.finish()

    found = pq.ParquetFile(tmp_path / "a" / "b.parquet").metadata
    assert [found.row_group(n).num_rows for n in range(found.num_row_groups)] == [30, 30, 10]
