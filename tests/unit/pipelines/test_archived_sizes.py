"""Sizes of archived messages, by the footers of their files."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from emberq.errors import TableError
from emberq.pipelines import archived_sizes as sizes_of
from emberq.pipelines.archived_sizes import archived_sizes
from emberq.spark.archive.data_file import DataFile


def written(folder: Path, name: str, rows: dict[str, list[object]], **place: str) -> DataFile:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    # Of bodies, archives have neither dictionaries nor statistics.
    plain = {"use_dictionary": False, "write_statistics": False}
    pq.write_table(pa.table(rows), path, row_group_size=100, **plain)
    count = len(next(iter(rows.values())))
    size = path.stat().st_size
    return DataFile(path=name, rows=count, size_bytes=size, partition=place)


def bodies(*sizes: int) -> dict[str, list[object]]:
    return {"body": [bytes(size) for size in sizes], "tags": ["a"] * len(sizes)}


def test_bodies_are_as_large_as_files_say_on_average(tmp_path: Path) -> None:
    files = [
        written(tmp_path, "a.parquet", bodies(*[1_000] * 300)),
        written(tmp_path, "b.parquet", bodies(*[4_000] * 100)),
    ]

    sizes = archived_sizes(str(tmp_path), files)

    assert (sizes.files, sizes.bytes) == (2, sum(each.size_bytes for each in files))
    assert sizes.body_bytes == pytest.approx(1_750, rel=0.05)


def test_files_of_other_topics_do_not_count(tmp_path: Path) -> None:
    files = [
        written(tmp_path, "topic=a/1.parquet", bodies(*[1_000] * 10), topic="a"),
        written(tmp_path, "topic=b/1.parquet", bodies(*[9_000] * 10), topic="b"),
        written(tmp_path, "2.parquet", bodies(*[1_000] * 10)),  # may have messages of each
    ]

    sizes = archived_sizes(str(tmp_path), files, ["a"])

    assert sizes.files == 2
    assert sizes.body_bytes == pytest.approx(1_000, rel=0.05)


def test_an_archive_without_bodies_says_nothing_of_them(tmp_path: Path) -> None:
    files = [written(tmp_path, "a.parquet", {"tags": ["a"]})]

    assert archived_sizes(str(tmp_path), files).body_bytes is None


def test_no_more_footers_are_read_than_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes_of, "FOOTERS_MAX", 2)
    there = written(tmp_path, "a.parquet", bodies(1_000))
    gone = DataFile(path="gone.parquet", rows=1, size_bytes=7, partition={})

    sizes = archived_sizes(str(tmp_path), [there, gone, there, gone])

    assert sizes.files == 4
    assert sizes.body_bytes == pytest.approx(1_000, rel=0.05)


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    gone = DataFile(path="gone.parquet", rows=1, size_bytes=7, partition={})

    with pytest.raises(TableError, match=r"gone\.parquet"):
        archived_sizes(str(tmp_path), [gone])
