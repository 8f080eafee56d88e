"""Every table format takes each batch once."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset

from emberq.errors import TableError
from emberq.pipelines.tables import FORMATS, DataFile, Table, live_files, open_table
from emberq.pipelines.tables.parquet import SNAPSHOT_EVERY, ParquetTable
from emberq.spark.archive.layout import partition_path

ROWS = pa.schema([("queueOffset", pa.int64()), ("body", pa.binary())])
PARTITION_BY = ("topic", "date")


@pytest.fixture(params=FORMATS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return opened(request.param, tmp_path)


def opened(kind: str, folder: Path) -> Table:
    return open_table(kind, str(folder / "lake"), ROWS, PARTITION_BY)


def written(table: Table, first: int, count: int, topic: str = "orders") -> DataFile:
    """A file with `count` rows, as a task of an archive leaves it."""
    partition = {"topic": topic, "date": "2026-11-17"}
    columns = {
        "queueOffset": pa.array(range(first, first + count), pa.int64()),
        "body": pa.array([b"x"] * count, pa.binary()),
    }
    if table.keeps_partition_columns:
        columns |= {name: pa.array([value] * count) for name, value in partition.items()}
    name = f"{partition_path(partition)}/{first}.parquet"
    path = Path(table.root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return DataFile(path=name, rows=count, size_bytes=path.stat().st_size, partition=partition)


def test_a_new_table_has_no_files_and_no_batches(table: Table) -> None:
    assert table.files() == []
    assert table.last_batch("query") is None


def test_a_batch_that_is_repeated_is_appended_once(table: Table) -> None:
    assert table.append("query", 0, [written(table, 0, 10)])
    assert not table.append("query", 0, [written(table, 0, 10)])
    assert table.append("query", 1, [written(table, 10, 5), written(table, 15, 5)])

    assert sum(each.rows for each in table.files()) == 20
    assert table.last_batch("query") == 1


@pytest.mark.parametrize("topic", ["%DLQ%billing", "%RETRY%x", "a|b", "a b+c", "007"])
def test_files_of_any_topic_are_found_where_they_are(table: Table, topic: str) -> None:
    file = written(table, 0, 3, topic)
    table.append("query", 0, [file])

    (found,) = table.files()

    assert found.path == file.path
    assert Path(table.root, found.path).exists()
    assert found.partition.get("topic", topic) == topic


@pytest.mark.parametrize("names", [("none",), ()])
@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_may_have_no_partitions(kind: str, names: tuple[str, ...], tmp_path: Path) -> None:
    table = open_table(kind, str(tmp_path / "lake"), ROWS, names)
    path = tmp_path / "lake" / "0.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist([{"queueOffset": 0, "body": b"x"}], ROWS), path)
    size_bytes = path.stat().st_size

    table.append(
        "query", 0, [DataFile(path="0.parquet", rows=1, size_bytes=size_bytes, partition={})]
    )

    assert [(each.path, each.partition) for each in table.files()] == [("0.parquet", {})]


@pytest.mark.parametrize("kind", FORMATS)
def test_other_tools_are_given_the_files_that_count(kind: str, tmp_path: Path) -> None:
    table = opened(kind, tmp_path)
    table.append("query", 0, [written(table, 0, 2, "%DLQ%a"), written(table, 2, 3)])
    written(table, 9, 1)  # in the folder only

    files = live_files(table.root, kind)

    rows = dataset.dataset(files, partitioning="hive").to_table()
    assert sorted(rows["queueOffset"].to_pylist()) == [0, 1, 2, 3, 4]
    assert set(rows["topic"].to_pylist()) == {"orders", "%DLQ%a"}


@pytest.mark.parametrize("kind", FORMATS)
def test_no_table_has_no_files_to_give(kind: str, tmp_path: Path) -> None:
    with pytest.raises(TableError, match=f"there is no {kind} table with messages"):
        live_files(str(tmp_path / "lake"), kind)


def test_a_batch_whose_files_are_gone_is_not_committed(table: Table) -> None:
    table.append("query", 0, [written(table, 0, 1)])
    kept, gone = written(table, 1, 1), written(table, 2, 1)
    Path(table.root, gone.path).unlink()

    with pytest.raises(
        TableError, match=r"1 of 2 files .*/2\.parquet is not there.* machines share"
    ):
        table.append("query", 1, [kept, gone])
    assert table.last_batch("query") == 0
    assert table.append("query", 1, [kept, written(table, 2, 1)])


def test_a_file_that_was_written_to_elsewhere_is_not_committed(table: Table) -> None:
    file = written(table, 0, 1)
    Path(table.root, file.path).write_bytes(b"half")

    with pytest.raises(TableError, match="has 4 bytes"):
        table.append("query", 0, [file])
    assert table.files() == []


def test_writers_do_not_share_their_batches(table: Table) -> None:
    table.append("one", 7, [written(table, 0, 1)])

    assert table.append("two", 0, [written(table, 1, 1)])
    assert (table.last_batch("one"), table.last_batch("two")) == (7, 0)


@pytest.mark.parametrize("kind", FORMATS)
def test_another_process_sees_what_was_committed(kind: str, tmp_path: Path) -> None:
    first, second = opened(kind, tmp_path), opened(kind, tmp_path)
    first.append("query", 0, [written(first, 0, 3)])

    assert second.last_batch("query") == 0
    assert [each.rows for each in second.files()] == [3]


def test_an_unknown_format_is_named(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="'orc' is no table format: parquet, delta, iceberg"):
        opened("orc", tmp_path)


def test_of_two_writers_that_commit_together_none_is_lost(tmp_path: Path) -> None:
    one, two = ParquetTable(str(tmp_path)), ParquetTable(str(tmp_path))
    one.files()  # both know the same end of the log
    two.files()

    one.append("one", 0, [written(one, 0, 1)])
    two.append("two", 0, [written(two, 1, 1)])

    assert len(ParquetTable(str(tmp_path)).files()) == 2


def test_a_long_log_is_read_from_its_snapshot(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path))
    for batch in range(SNAPSHOT_EVERY + 3):
        table.append("query", batch, [written(table, batch, 1)])
    for number in range(SNAPSHOT_EVERY - 1):  # what the snapshot says needs no commits
        Path(tmp_path, "_emberq_log", f"{number:020d}.json").unlink()

    fresh = ParquetTable(str(tmp_path))

    assert len(fresh.files()) == SNAPSHOT_EVERY + 3
    assert fresh.last_batch("query") == SNAPSHOT_EVERY + 2


def test_files_that_somebody_else_replaced_are_not_replaced_again(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path))
    table.append("query", 0, [written(table, 0, 1), written(table, 1, 1)])
    old = [each.path for each in table.files()]
    table.replace(old, [written(table, 2, 2)])

    with pytest.raises(TableError, match="was replaced by somebody else"):
        table.replace(old, [written(table, 4, 2)])
    assert [each.rows for each in table.files()] == [2]


def test_a_damaged_commit_is_named(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path))
    table.append("query", 0, [written(table, 0, 1)])
    Path(tmp_path, "_emberq_log", f"{0:020d}.json").write_bytes(b"{")

    with pytest.raises(TableError, match=r"0\.json is damaged"):
        ParquetTable(str(tmp_path)).files()


def test_a_draft_whose_writer_was_killed_is_no_commit(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path))
    table.append("query", 0, [written(table, 0, 10)])
    (commit,) = (tmp_path / "_emberq_log").iterdir()
    commit.with_name(f".{commit.name}.0123abcd").write_bytes(b"half a com")
    again = ParquetTable(str(tmp_path))

    assert again.append("query", 1, [written(again, 10, 10)])
    assert sum(each.rows for each in ParquetTable(str(tmp_path)).files()) == 20


def test_values_of_partitions_cannot_leave_their_folder() -> None:
    assert partition_path({"topic": "../a=b/%RETRY%x"}) == "topic=..%2Fa%3Db%2F%25RETRY%25x"
