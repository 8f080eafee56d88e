"""Iceberg tables: two who commit at once, snapshots that expired, catalogs that fail."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from emberq.errors import TableError
from emberq.pipelines.tables import DataFile, iceberg, open_table
from emberq.pipelines.tables.iceberg import BATCH_KEY, WRITER_KEY, IcebergTable
from tests.unit.pipelines.tables.lake import offsets, opened, written


def iceberg_in(folder: Path) -> IcebergTable:
    table = opened("iceberg", folder)
    assert isinstance(table, IcebergTable)
    return table


def file(folder: Path, first: int, count: int = 1) -> DataFile:
    return written(folder, first, count, keeps_partition_columns=True)


def before_the_next_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act once a table is opened and its last batch known, before anything is committed to it."""
    asked = iceberg._last_batch
    acts = [act]

    def last_batch(table: Table, writer: str) -> int | None:
        found = asked(table, writer)
        while acts:
            acts.pop()()
        return found

    monkeypatch.setattr(iceberg, "_last_batch", last_batch)


@pytest.mark.parametrize("first_batch", [0, 1])
def test_of_two_drivers_that_commit_one_batch_one_does(
    first_batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zombie, table = iceberg_in(tmp_path), iceberg_in(tmp_path)
    for batch in range(first_batch):
        table.append("query", batch, [file(tmp_path, batch)])
    theirs, ours = file(tmp_path, 10), file(tmp_path, 20)
    before_the_next_commit(monkeypatch, lambda: zombie.append("query", first_batch, [theirs]))

    assert not table.append("query", first_batch, [ours])

    assert offsets(tmp_path, iceberg_in(tmp_path)) == [*range(first_batch), 10]


def test_a_commit_of_somebody_else_in_between_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, table = iceberg_in(tmp_path), iceberg_in(tmp_path)
    table.append("query", 0, [file(tmp_path, 0)])
    theirs = file(tmp_path, 10)
    before_the_next_commit(monkeypatch, lambda: other.append("other", 0, [theirs]))

    assert table.append("query", 1, [file(tmp_path, 1)])

    again = iceberg_in(tmp_path)
    assert offsets(tmp_path, again) == [0, 1, 10]
    assert (again.last_batch("query"), again.last_batch("other")) == (1, 0)


def test_a_table_that_others_never_leave_alone_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = iceberg_in(tmp_path)
    table.append("query", 0, [file(tmp_path, 0)])
    monkeypatch.setattr(iceberg, "COMMIT_ATTEMPTS_MAX", 3)
    monkeypatch.setattr(IcebergTable, "_commit", lambda *_: False)

    with pytest.raises(TableError, match="3 commits of others came first"):
        table.append("query", 1, [file(tmp_path, 1)])


def test_how_others_commit_to_the_table_stays_theirs(tmp_path: Path) -> None:
    table = iceberg_in(tmp_path)
    table.append("query", 0, [file(tmp_path, 0)])
    table.append("query", 1, [file(tmp_path, 1)])

    found = table._opened()

    assert found is not None
    assert not any(name.startswith("commit.") for name in found.properties)


def test_a_writer_whose_snapshots_expired_is_still_known(tmp_path: Path) -> None:
    table = iceberg_in(tmp_path)
    for batch in range(3):
        table.append("query", batch, [file(tmp_path, batch)])
    table.append("other", 0, [file(tmp_path, 9)])
    found = table._opened()
    assert found is not None
    old = [each.snapshot_id for each in found.snapshots()[:-1]]
    found.maintenance.expire_snapshots().by_ids(old).commit()

    assert not table.append("query", 2, [file(tmp_path, 2)])
    assert table.append("query", 3, [file(tmp_path, 3)])
    assert offsets(tmp_path, table) == [0, 1, 2, 3, 9]


def test_writers_of_early_versions_are_known_by_their_snapshots(tmp_path: Path) -> None:
    table = iceberg_in(tmp_path)
    early = file(tmp_path, 0)
    table._made().add_files(
        [str(tmp_path / early.path)], snapshot_properties={WRITER_KEY: "query", BATCH_KEY: "7"}
    )

    assert table.last_batch("query") == 7
    assert not table.append("query", 7, [file(tmp_path, 1)])


def test_a_table_that_somebody_else_makes_meanwhile_is_taken(tmp_path: Path) -> None:
    iceberg_in(tmp_path)._made()

    assert iceberg_in(tmp_path)._made().snapshots() == []


@pytest.mark.parametrize("name", ["my lake", "a%20b", "ä[1]", "{b}*"])
def test_folders_are_called_as_they_like(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    table = iceberg_in(folder)

    table.append("query", 0, [file(folder, 0)])

    assert offsets(folder, iceberg_in(folder)) == [0]
    assert not (tmp_path / "a b").exists()


@pytest.mark.parametrize("name", ["a#b", "a?b"])
def test_folders_that_iceberg_would_not_find_again_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"with # or \? in their name: give another path"):
        iceberg_in(tmp_path / name)


@pytest.mark.parametrize(
    "catalog", [{"type": "rest"}, {"type": "nonsense"}, {"type": "rest", "uri": "http://[::1"}]
)
def test_a_catalog_that_cannot_be_asked_is_told_in_a_sentence(
    catalog: dict[str, str], tmp_path: Path
) -> None:
    table = open_table("iceberg", str(tmp_path), pa.schema([]), (), catalog=catalog)

    with pytest.raises(TableError, match=str(tmp_path)) as caught:
        table.files()
    assert "\n" not in str(caught.value)
