"""Ranges of a queue become files that name what they hold."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from emberq.errors import ConfigError
from emberq.model.queue import MessageQueue
from emberq.spark.archive import writer
from emberq.spark.archive.layout import ArchiveLayout
from emberq.spark.archive.parquet_file import ParquetDraft
from emberq.spark.archive.writer import OPEN_FILES_MAX, write_range
from emberq.spark.planning import QueueSlice

HOUR_US = 3_600_000_000
SLICE = QueueSlice(MessageQueue("broker-a", 3, "orders"), 100, 200)


def batch(offsets: range, stored_at_us: list[int]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "topic": pa.array(["orders"] * len(offsets)),
            "queueOffset": pa.array(offsets, pa.int64()),
            "storeTimestamp": pa.array(stored_at_us, pa.timestamp("us", "UTC")),
            "body": pa.array([b"x" * 100] * len(offsets), pa.binary()),
        }
    )


def layout(folder: Path, **options: object) -> ArchiveLayout:
    return ArchiveLayout(root=str(folder), writer="query", **options)  # type: ignore[arg-type] # each test names its own


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_range_is_one_file_that_says_what_is_in_it(tmp_path: Path) -> None:
    batches = [batch(range(100, 110), [HOUR_US] * 10), batch(range(110, 120), [HOUR_US] * 10)]

    (written,) = write_range(batches, SLICE, layout(tmp_path))

    assert written.partition == {"topic": "orders", "date": "1970-01-01"}
    assert (written.rows, written.first_offset, written.next_offset) == (20, 100, 120)
    assert written.size_bytes == (tmp_path / written.path).stat().st_size
    table = pq.read_table(tmp_path / written.path, partitioning=None)
    assert table.column_names == ["queueOffset", "storeTimestamp", "body"]
    assert table["queueOffset"].to_pylist() == list(range(100, 120))


def test_rows_of_two_days_go_to_two_partitions(tmp_path: Path) -> None:
    rows = batch(range(100, 104), [23 * HOUR_US, 24 * HOUR_US, 23 * HOUR_US, 25 * HOUR_US])

    written = write_range([rows], SLICE, layout(tmp_path))

    assert {each.partition["date"]: each.rows for each in written} == {
        "1970-01-01": 2,
        "1970-01-02": 2,
    }


def test_no_attempt_writes_over_the_files_of_another(tmp_path: Path) -> None:
    rows = [batch(range(100, 110), [0] * 10)]

    first = write_range(rows, SLICE, layout(tmp_path))
    second = write_range(rows, SLICE, layout(tmp_path))

    assert files_below(tmp_path) == sorted([first[0].path, second[0].path])


def test_ranges_alike_of_two_topics_are_two_files_in_one_partition(tmp_path: Path) -> None:
    one = layout(tmp_path, partition_by=("date",))
    other = QueueSlice(MessageQueue("broker-a", 3, "refunds"), 100, 200)

    written = [
        *write_range([batch(range(100, 110), [0] * 10)], SLICE, one),
        *write_range([batch(range(100, 110), [0] * 10)], other, one),
    ]

    assert len({each.path for each in written}) == 2
    assert sum(pq.read_metadata(tmp_path / each.path).num_rows for each in written) == 20


def test_small_batches_are_gathered_into_one_row_group(tmp_path: Path) -> None:
    batches = [batch(range(n, n + 10), [0] * 10) for n in range(100, 150, 10)]

    (written,) = write_range(batches, SLICE, layout(tmp_path))

    found = pq.ParquetFile(tmp_path / written.path)
    assert [found.metadata.row_group(n).num_rows for n in range(found.num_row_groups)] == [50]


def test_dictionaries_and_statistics_are_made_where_they_help(tmp_path: Path) -> None:
    rows = batch(range(100, 110), [0] * 10)
    properties = pa.array([[("region", "eu")]] * 10, pa.map_(pa.string(), pa.string()))

    (written,) = write_range(
        [rows.append_column("properties", properties)], SLICE, layout(tmp_path)
    )

    group = pq.ParquetFile(tmp_path / written.path).metadata.row_group(0)
    columns = [group.column(n) for n in range(group.num_columns)]
    with_dictionary = {each.path_in_schema for each in columns if each.has_dictionary_page}
    assert with_dictionary == {"storeTimestamp", "properties.key_value.key"}
    with_statistics = {each.path_in_schema for each in columns if each.is_stats_set}
    assert with_statistics == {"queueOffset", "storeTimestamp"}


def test_large_ranges_become_several_files(tmp_path: Path) -> None:
    batches = [batch(range(n, n + 10), [0] * 10) for n in range(100, 150, 10)]

    written = write_range(batches, SLICE, layout(tmp_path, file_size_bytes=1))

    assert [each.rows for each in written] == [10] * 5
    assert len(files_below(tmp_path)) == 5


def test_partition_columns_stay_where_a_format_wants_them(tmp_path: Path) -> None:
    rows = [batch(range(100, 110), [0] * 10)]
    wanted = layout(tmp_path, partition_by=("topic", "hour"), keeps_partition_columns=True)

    (written,) = write_range(rows, SLICE, wanted)

    table = pq.read_table(tmp_path / written.path, partitioning=None)
    assert set(table["topic"].to_pylist()) == {"orders"}
    assert set(table["hour"].to_pylist()) == {"00"}


def test_a_failed_read_leaves_nothing_behind(tmp_path: Path) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield batch(range(100, 110), [0] * 10)
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        write_range(broken(), SLICE, layout(tmp_path))
    assert files_below(tmp_path) == []


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)

    with pytest.raises(OSError, match="No space left"):
        write_range([batch(range(100, 110), [0] * 10)], SLICE, layout(tmp_path))
    assert files_below(tmp_path) == []


def test_without_partitions_all_files_are_in_the_folder_itself(tmp_path: Path) -> None:
    rows = [batch(range(100, 102), [0, 24 * HOUR_US])]

    (written,) = write_range(rows, SLICE, layout(tmp_path, partition_by=("none",)))

    assert files_below(tmp_path) == [written.path]
    assert "/" not in written.path
    assert written.partition == {}
    assert pq.read_table(tmp_path / written.path)["topic"].to_pylist() == ["orders"] * 2


def test_an_empty_range_is_no_file(tmp_path: Path) -> None:
    assert write_range([], SLICE, layout(tmp_path)) == []


def test_a_column_that_cannot_partition_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="partitionBy='body'"):
        layout(tmp_path, partition_by=("body",))


def test_however_many_hours_there_are_few_files_are_open_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 0
    add = ParquetDraft.add

    def watched(draft: ParquetDraft, rows: pa.RecordBatch) -> None:
        nonlocal most
        add(draft, rows)
        most = max(most, sum(Path(name).name.startswith(".") for name in files_below(tmp_path)))

    monkeypatch.setattr(ParquetDraft, "add", watched)
    hours = 3 * OPEN_FILES_MAX
    rows = batch(range(100, 100 + hours), [hour * HOUR_US for hour in range(hours)])

    written = write_range([rows], SLICE, layout(tmp_path, partition_by=("date", "hour")))

    assert most == OPEN_FILES_MAX
    assert [each.first_offset for each in written] == list(range(100, 100 + hours))
    assert sorted(each.path for each in written) == files_below(tmp_path)


def test_an_hour_that_comes_again_goes_on_where_it_was_or_in_another_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "OPEN_FILES_MAX", 2)
    order = [0, 1, 0, 2, 0, 1]  # when the third hour comes, the second one waits longest
    batches = [batch(range(n, n + 1), [hour * HOUR_US]) for n, hour in enumerate(order)]

    written = write_range(batches, SLICE, layout(tmp_path, partition_by=("hour",)))

    found = [
        (each.partition["hour"], pq.read_table(tmp_path / each.path)["queueOffset"].to_pylist())
        for each in written
    ]
    assert found == [("01", [1]), ("02", [3]), ("00", [0, 2, 4]), ("01", [5])]
    assert sorted(each.path for each in written) == files_below(tmp_path)
