"""What does not fit a table is refused before anything is written to it."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from emberq.errors import ConfigError
from emberq.pipelines.tables import FORMATS, DataFile, open_table
from tests.unit.pipelines.tables.lake import PARTITION_BY, ROWS, file_name, names_below, written

TAGGED = ROWS.append(pa.field("tags", pa.string()))
TEXTS = pa.schema([("queueOffset", pa.int64()), ("body", pa.string())])


@pytest.fixture(params=FORMATS)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a table with one batch."""
    kind = str(request.param)
    made = open_table(kind, str(tmp_path), ROWS, PARTITION_BY)
    keeps = made.keeps_partition_columns
    made.append("query", 0, [written(tmp_path, 0, keeps_partition_columns=keeps)])
    return kind


def check(
    kind: str,
    folder: Path,
    rows: pa.Schema = ROWS,
    partition_by: tuple[str, ...] = PARTITION_BY,
) -> None:
    open_table(kind, str(folder), rows, partition_by).check()


def test_the_same_again_fits(kind: str, tmp_path: Path) -> None:
    check(kind, tmp_path)


@pytest.mark.parametrize(
    ("partition_by", "said"),
    [
        (("topic",), "topic"),
        (("topic", "date", "hour"), "topic,date,hour"),
        (("date", "topic"), "date,topic"),
        (("none",), "none"),
    ],
)
def test_other_partitions_are_refused(
    partition_by: tuple[str, ...], said: str, kind: str, tmp_path: Path
) -> None:
    message = f"{tmp_path} is partitioned by topic,date, not by {said}: give partitionBy=topic,date"
    with pytest.raises(ConfigError, match=message):
        check(kind, tmp_path, partition_by=partition_by)


def test_another_type_is_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the column body is binary there, not string"):
        check(kind, tmp_path, TEXTS)


def test_new_columns_are_for_parquet_tables(kind: str, tmp_path: Path) -> None:
    if kind == "parquet":
        check(kind, tmp_path, TAGGED)
        return
    with pytest.raises(ConfigError, match="has no column tags, and only parquet tables"):
        check(kind, tmp_path, TAGGED)


def test_fewer_columns_are_read_as_null(kind: str, tmp_path: Path) -> None:
    check(kind, tmp_path, pa.schema([("queueOffset", pa.int64())]))


@pytest.mark.parametrize("kind", FORMATS)
def test_everything_fits_where_there_is_no_table_and_nothing_is_made(
    kind: str, tmp_path: Path
) -> None:
    table = open_table(kind, str(tmp_path / "lake"), ROWS, PARTITION_BY)

    table.check()

    assert (table.schema(), table.files(), table.last_batch("query")) == (None, [], None)
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_says_what_its_rows_are(kind: str, tmp_path: Path) -> None:
    table = open_table(kind, str(tmp_path), ROWS, ("queueId", "date"))
    names = {"queueId": pa.array([3], pa.int32()), "date": pa.array(["2026-11-17"])}
    rows = {"queueOffset": pa.array([0], pa.int64()), "body": pa.array([b"x"], pa.binary())}
    name = f"queueId=3/date=2026-11-17/{file_name(0)}"
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    kept = names if table.keeps_partition_columns else {}
    pq.write_table(pa.table({**rows, **kept}), path)
    partition = {"queueId": "3", "date": "2026-11-17"}
    size_bytes = path.stat().st_size
    table.append(
        "query", 0, [DataFile(path=name, rows=1, size_bytes=size_bytes, partition=partition)]
    )

    schema = open_table(kind, str(tmp_path), pa.schema([]), ()).schema()

    assert schema is not None
    assert dict(zip(schema.names, schema.types, strict=True)) == {
        "queueOffset": pa.int64(),
        "body": pa.binary(),
        "queueId": pa.int32(),
        "date": pa.string(),
    }


def test_the_order_of_partitions_is_that_of_folders(tmp_path: Path) -> None:
    """Spark answers with maps, and those have none."""
    file = written(tmp_path, 0)
    shuffled = msgspec.structs.replace(file, partition=dict(reversed(list(file.partition.items()))))
    open_table("parquet", str(tmp_path), ROWS, PARTITION_BY).append("query", 0, [shuffled])

    check("parquet", tmp_path)


def test_a_folder_that_an_early_version_partitioned_in_two_ways_goes_on_in_either(
    tmp_path: Path,
) -> None:
    table = open_table("parquet", str(tmp_path), ROWS, PARTITION_BY)
    table.append("one", 0, [written(tmp_path, 0), written(tmp_path, 1, is_partitioned=False)])

    check("parquet", tmp_path)
    check("parquet", tmp_path, partition_by=())
    with pytest.raises(ConfigError, match="by topic,date and by none, not by topic: "):
        check("parquet", tmp_path, partition_by=("topic",))


def test_a_table_whose_days_are_all_dropped_is_laid_out_anew(tmp_path: Path) -> None:
    table = open_table("parquet", str(tmp_path), ROWS, PARTITION_BY)
    table.append("query", 0, [written(tmp_path, 0)])
    table.replace(names_below(tmp_path), [])

    check("parquet", tmp_path, partition_by=("topic",))
