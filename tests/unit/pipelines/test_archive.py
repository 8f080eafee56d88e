"""A dry run of `archive` refuses what the run refuses, and neither makes anything then."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from emberq.errors import ConfigError, PipelineError
from emberq.pipelines import archive as archive_of
from emberq.pipelines.archive import COLUMNS, Archive
from emberq.pipelines.backlog import Backlog
from emberq.pipelines.checkpointed_table import check_table, note_table, table_of
from emberq.pipelines.checkpoints import checkpoint_at
from emberq.pipelines.tables import FORMATS, Table, open_table
from emberq.spark.archive.data_file import DataFile
from emberq.spark.columns import find_column
from emberq.spark.decode.shape import arrow_schema
from tests.unit.pipelines.tables.lake import names_below

EARLY_COLUMNS = tuple(name for name in COLUMNS if name != "flag")
FILE = "topic=orders/date=2026-11-17/a.parquet"


@pytest.fixture(autouse=True)
def without_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is in the topics, and no Spark is started."""

    @contextlib.contextmanager
    def no_session(*_: object) -> Iterator[None]:
        yield None

    monkeypatch.setattr(archive_of, "job_session", no_session)
    monkeypatch.setattr(archive_of, "backlog_of", lambda *_, **__: Backlog([], False))
    monkeypatch.setattr(archive_of, "checkpoint_at", lambda address, _: checkpoint_at(address))


def job(lake: Path, **options: Any) -> Archive:
    return Archive(**{"topics": "orders", "path": str(lake), "name_server": "h:1", **options})


def table_with(
    kind: str,
    lake: Path,
    names: Sequence[str] = COLUMNS,
    partition_by: Sequence[str] = ("topic", "date"),
) -> Table:
    """A table that an archive of these columns wrote once."""
    schema = arrow_schema([find_column("messages", name) for name in names])
    table = open_table(kind, str(lake), schema, partition_by)
    kept = schema if table.keeps_partition_columns else without(schema, partition_by)
    if table.keeps_partition_columns:
        kept = kept.append(pa.field("date", pa.string()))
    rows = {field.name: pa.nulls(1, field.type) for field in kept}
    if table.keeps_partition_columns:
        rows |= {"topic": pa.array(["orders"]), "date": pa.array(["2026-11-17"])}
    path = lake / FILE
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table(rows, schema=kept), path)
    partition = {"topic": "orders", "date": "2026-11-17"}
    size_bytes = path.stat().st_size
    table.append(
        "early", 0, [DataFile(path=FILE, rows=1, size_bytes=size_bytes, partition=partition)]
    )
    return table


def without(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([field for field in schema if field.name not in names])


def refused(job: Archive) -> str:
    """What both say."""
    texts = []
    for act in (job.plan, job.run):
        with pytest.raises((ConfigError, PipelineError)) as caught:
            act()
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    return texts[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "detla"}, "format='detla': expected one of parquet, delta, iceberg"),
        ({"partition_by": "tpic"}, "partitionBy='tpic': expected some of topic"),
        ({"columns": "bdy"}, "no column 'bdy': did you mean body?"),
        ({"every": "soon"}, "every='soon': expected a duration"),
        ({"every": "0s"}, "every='0s': expected a duration"),
        ({"compression": "zzz"}, "compression='zzz': expected one of zstd"),
        ({"file_size": "large"}, "fileSize='large': expected a size"),
        ({"source": {"nonsense": "1"}}, "there is no option 'nonsense'"),
        ({"source": {"endingOffsets": "latest"}}, "a stream has no end"),
        ({"path": "s3://lake/orders"}, "needs checkpoint"),
    ],
)
def test_a_dry_run_refuses_what_a_run_refuses(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    assert message in refused(job(tmp_path / "lake", **options))
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("kind", FORMATS)
def test_what_does_not_fit_the_table_is_refused(kind: str, tmp_path: Path) -> None:
    table_with(kind, tmp_path)
    before = names_below(tmp_path)

    assert "not by topic: give partitionBy=topic,date" in refused(
        job(tmp_path, format=kind, partition_by="topic")
    )
    assert "the column body is binary there, not string" in refused(
        job(tmp_path, format=kind, source={"bodyAs": "string"})
    )
    assert names_below(tmp_path) == before
    assert not (tmp_path / "_checkpoint").exists()


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_columns_that_a_table_cannot_be_given_are_refused(kind: str, tmp_path: Path) -> None:
    table_with(kind, tmp_path)

    assert "has no column size" in refused(job(tmp_path, format=kind, columns="body,size"))
    job(tmp_path, format=kind, columns="body").plan()


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_defaults_other_than_those_of_early_versions_are_not_left_out(
    kind: str, tmp_path: Path
) -> None:
    table_with(kind, tmp_path, ("topic", "brokerName", "queueId", "queueOffset", "storeTimestamp"))

    assert "has no column keys and tags and body" in refused(job(tmp_path, format=kind))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_plan_makes_nothing(kind: str, tmp_path: Path) -> None:
    assert job(tmp_path / "lake", format=kind).plan().facts["messages"] == 0
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("kind", FORMATS)
def test_the_flag_of_messages_is_kept(kind: str, tmp_path: Path) -> None:
    assert "flag" in job(tmp_path / "lake", format=kind).target().columns


@pytest.mark.parametrize(
    ("kind", "columns"),
    [("parquet", COLUMNS), ("delta", EARLY_COLUMNS), ("iceberg", EARLY_COLUMNS)],
)
def test_tables_of_early_versions_go_on(
    kind: str, columns: tuple[str, ...], tmp_path: Path
) -> None:
    table_with(kind, tmp_path, EARLY_COLUMNS)

    target = job(tmp_path, format=kind).target()

    assert target.columns == columns


def noted(
    lake: Path,
    kind: str = "parquet",
    checkpoint: Path | None = None,
    catalog: Mapping[str, str] | None = None,
) -> str:
    """The checkpoint of an archive that has run."""
    place = str(checkpoint or lake / "_checkpoint")
    note_table(checkpoint_at(place), place, table_of(kind, str(lake), place, catalog))
    return place


@pytest.mark.parametrize("is_beside", [True, False])
def test_a_checkpoint_of_another_table_is_refused(is_beside: bool, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    checkpoint = noted(one, checkpoint=tmp_path / "state" if is_beside else None)

    message = refused(job(two, checkpoint=checkpoint))

    assert f"not to the parquet table {two}" in message
    assert "give another checkpoint" in message
    assert not two.exists()


def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path) -> None:
    noted(tmp_path)

    assert f"the parquet table {tmp_path}, not to the delta table {tmp_path}," in refused(
        job(tmp_path, format="delta")
    )


@pytest.mark.parametrize(
    "catalog",
    [
        {},
        {"type": "rest", "uri": "https://catalog.example/v1", "table": "db.refunds"},
        {"type": "rest", "uri": "https://another.example/v1", "table": "db.orders"},
    ],
)
def test_a_checkpoint_of_another_table_of_a_catalog_is_refused(
    tmp_path: Path, catalog: dict[str, str]
) -> None:
    uri = "https://me:s3cret@catalog.example/v1"
    noted(tmp_path, "iceberg", catalog={"type": "rest", "uri": uri, "table": "db.orders"})

    message = refused(job(tmp_path, format="iceberg", catalog=catalog))

    assert "in the catalog rest https://catalog.example/v1 db.orders, not to" in message


def test_the_checkpoint_of_a_table_further_down_is_another_tables(tmp_path: Path) -> None:
    checkpoint = noted(tmp_path / "orders")

    assert "belongs to" in refused(job(tmp_path, checkpoint=checkpoint))


def test_a_table_may_be_moved_with_the_checkpoint_in_it(tmp_path: Path) -> None:
    noted(tmp_path / "one")
    (tmp_path / "one").rename(tmp_path / "two")

    job(tmp_path / "two").plan()
    job(tmp_path, path=f"file://{tmp_path}/two/").plan()


def test_a_checkpoint_from_before_tables_were_noted_goes_on(tmp_path: Path) -> None:
    place = str(tmp_path / "state")
    checkpoint_at(place).write_new("emberq-writer", b"early")

    job(tmp_path / "lake", checkpoint=place).plan()


def test_what_a_checkpoint_says_of_its_table_may_be_damaged(tmp_path: Path) -> None:
    place = str(tmp_path)
    checkpoint_at(place).write_new("emberq-table", b"{")

    with pytest.raises(ConfigError, match="emberq-table is damaged"):
        check_table(checkpoint_at(place), place, table_of("parquet", "s3://lake/a/", place))
