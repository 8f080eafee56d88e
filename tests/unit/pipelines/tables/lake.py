"""Archives for tests: files as tasks leave them, committed to a table, as old as wanted."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from emberq.pipelines.tables import DataFile, Table, open_table
from emberq.spark.archive.layout import partition_path

ROWS = pa.schema([("queueOffset", pa.int64()), ("body", pa.binary())])
PARTITION_BY = ("topic", "date")
DAY = "2026-11-17"
DAY_S = 86_400


def opened(kind: str, folder: Path) -> Table:
    return open_table(kind, str(folder), ROWS, PARTITION_BY)


def file_name(first: int) -> str:
    """As tasks name files."""
    return f"broker-a-0-{first:020d}-{first + 1:020d}-0123abcd-0123456789ab-0.parquet"


def written(
    folder: Path,
    first: int,
    count: int = 1,
    *,
    topic: str = "orders",
    day: str = DAY,
    is_partitioned: bool = True,
    keeps_partition_columns: bool = False,
    has_tags: bool = False,
) -> DataFile:
    """A file with `count` rows, as a task of an archive leaves it."""
    partition = {"topic": topic, "date": day} if is_partitioned else {}
    columns = {
        "queueOffset": pa.array(range(first, first + count), pa.int64()),
        "body": pa.array([b"x"] * count, pa.binary()),
    }
    if has_tags:
        columns["tags"] = pa.array(["new"] * count)
    if keeps_partition_columns:
        columns |= {name: pa.array([value] * count) for name, value in partition.items()}
    name = f"{partition_path(partition)}/{file_name(first)}".lstrip("/")
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return DataFile(
        path=name,
        rows=count,
        size_bytes=path.stat().st_size,
        partition=partition,
        first_offset=first,
    )


def leave(folder: Path, name: str, *, days: float = 0) -> Path:
    """A file that nobody commits, written so many days ago."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    age(path, days)
    return path


def age(path: Path, days: float) -> None:
    moment = time.time() - days * DAY_S
    os.utime(path, (moment, moment))


def names_below(folder: Path) -> list[str]:
    """All files that are no log."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not path.relative_to(folder).parts[0].startswith("_")
    )


def offsets(folder: Path, table: Table) -> list[int]:
    """What is in the files that count."""
    return sorted(
        offset
        for each in table.files()
        for offset in pq.read_table(folder / each.path, partitioning=None)[
            "queueOffset"
        ].to_pylist()
    )


def store_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an object store that is a folder."""

    def from_uri(_: str) -> tuple[fs.FileSystem, str]:
        return fs.LocalFileSystem(), str(folder)

    # In its place: the class itself is one of C.
    arrow = SimpleNamespace(
        FileSelector=fs.FileSelector,
        FileType=fs.FileType,
        FileSystem=SimpleNamespace(from_uri=from_uri),
        LocalFileSystem=fs.LocalFileSystem,
    )
    monkeypatch.setattr("emberq.spark.archive.folder.fs", arrow)
    return "s3://lake"
