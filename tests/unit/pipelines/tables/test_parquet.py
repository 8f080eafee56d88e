"""The log of a Parquet table knows when files were removed, and which may be deleted."""

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from emberq.errors import TableError
from emberq.pipelines.tables.parquet import SNAPSHOT_EVERY, ParquetTable
from emberq.spark.archive.folder import Folder
from tests.unit.pipelines.tables.lake import (
    DAY_S,
    ROWS,
    age,
    file_name,
    leave,
    names_below,
    written,
)

LOG = "_emberq_log"


def a_day_ago() -> float:
    return time.time() - DAY_S


def table_with(folder: Path, count: int) -> ParquetTable:
    table = ParquetTable(str(folder))
    table.append("query", 0, [written(folder, first) for first in range(count)])
    return table


def log_name(number: int, kind: str = "") -> str:
    return f"{LOG}/{number:020d}{kind}.json"


def test_a_file_that_was_just_removed_stays_however_old_it_is(tmp_path: Path) -> None:
    table = table_with(tmp_path, 2)
    old = [each.path for each in table.files()]
    for name in old:
        age(tmp_path / name, days=2)
    table.replace(old, [written(tmp_path, 7, 2)])

    assert ParquetTable(str(tmp_path)).leftovers(a_day_ago()) == []
    assert ParquetTable(str(tmp_path)).leftovers(time.time()) == sorted(old)


def test_a_file_that_the_log_never_named_goes_by_its_own_age(tmp_path: Path) -> None:
    table_with(tmp_path, 1)
    draft_name = f"topic=orders/.{file_name(51)}.{0:032x}"
    old = leave(tmp_path, f"topic=orders/{file_name(50)}", days=2)
    draft = leave(tmp_path, draft_name, days=2)
    young = leave(tmp_path, f"topic=orders/{file_name(60)}")
    others = [
        leave(tmp_path, name, days=2)
        for name in ("_checkpoint/x.parquet", "notes.txt", "a/_b/c.parquet", "ck/offsets/0")
    ]

    deleted = ParquetTable(str(tmp_path)).delete_leftovers(a_day_ago())

    assert deleted == [draft_name, f"topic=orders/{file_name(50)}"]
    assert [path.exists() for path in (old, draft, young)] == [False, False, True]
    assert all(path.exists() for path in others)


def test_a_file_that_is_written_anew_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_with(tmp_path, 1)
    repeated = leave(tmp_path, f"topic=orders/{file_name(50)}", days=2)
    listed = table.folder.modified_times()
    monkeypatch.setattr(table.folder, "modified_times", lambda: listed)
    age(repeated, days=0)  # a task writes it under the same name

    assert table.delete_leftovers(a_day_ago()) == []
    assert repeated.exists()


def test_what_is_deleted_is_forgotten(tmp_path: Path) -> None:
    table = table_with(tmp_path, 3)
    first, second, third = (each.path for each in table.files())
    table.replace([first, second], [])
    (tmp_path / second).unlink()  # by hand

    assert table.delete_leftovers(time.time()) == [first]

    commit = json.loads((tmp_path / log_name(2)).read_text())
    assert commit["deleted"] == [first, second]
    for batch in range(1, SNAPSHOT_EVERY - 2):
        table.append("query", batch, [])
    snapshot = json.loads((tmp_path / log_name(SNAPSHOT_EVERY - 1, ".snapshot")).read_text())
    assert (list(snapshot["files"]), snapshot["removed"]) == ([third], {})


def test_nothing_to_forget_is_no_commit(tmp_path: Path) -> None:
    table = table_with(tmp_path, 1)

    table.delete_leftovers(time.time())

    assert len(list((tmp_path / LOG).iterdir())) == 1


def test_snapshots_keep_when_files_were_removed(tmp_path: Path) -> None:
    table = table_with(tmp_path, 2)
    (removed, _) = (each.path for each in table.files())
    table.replace([removed], [])
    for batch in range(1, SNAPSHOT_EVERY - 1):
        table.append("query", batch, [])
    for number in range(SNAPSHOT_EVERY):
        (tmp_path / log_name(number)).unlink()
    age(tmp_path / removed, days=2)
    fresh = ParquetTable(str(tmp_path))

    assert fresh.leftovers(a_day_ago()) == []
    assert fresh.delete_leftovers(time.time()) == [removed]


def test_what_an_early_snapshot_does_not_say_is_as_old_as_the_snapshot(tmp_path: Path) -> None:
    """Versions that did not keep removals wrote no `removed` and no `removalsSinceMs`."""
    kept, gone = written(tmp_path, 0), written(tmp_path, 1)
    age(tmp_path / gone.path, days=9)
    commits = [
        {"atMs": 1, "writer": "query", "batch": 0, "added": [as_early(kept.path)], "removed": []},
        {"atMs": 2, "writer": "", "batch": -1, "added": [], "removed": [gone.path]},
    ]
    snapshot = {"files": {kept.path: as_early(kept.path)}, "batches": {"query": 0}}
    leave(tmp_path, log_name(1, ".snapshot")).write_text(json.dumps(snapshot))
    for number, commit in enumerate(commits):
        leave(tmp_path, log_name(number)).write_text(json.dumps(commit))

    assert [each.path for each in ParquetTable(str(tmp_path)).files()] == [kept.path]
    assert ParquetTable(str(tmp_path)).last_batch("query") == 0
    assert ParquetTable(str(tmp_path)).leftovers(a_day_ago()) == []
    age(tmp_path / log_name(1, ".snapshot"), days=2)
    assert ParquetTable(str(tmp_path)).leftovers(a_day_ago()) == [gone.path]


def as_early(path: str) -> dict[str, object]:
    return {
        "path": path,
        "rows": 1,
        "sizeBytes": 700,
        "partition": {"topic": "orders", "date": "2026-11-17"},
        "topic": "orders",
        "brokerName": "broker-a",
        "queueId": 0,
        "firstOffset": 0,
        "nextOffset": 1,
    }


def test_early_commits_tell_when_files_were_removed(tmp_path: Path) -> None:
    table = table_with(tmp_path, 1)
    gone = written(tmp_path, 1)
    age(tmp_path / gone.path, days=9)
    added = {"atMs": 1, "added": [as_early(gone.path)]}
    removed = {"atMs": int(time.time() * 1000), "removed": [gone.path]}
    for number, commit in enumerate((added, removed), start=1):
        leave(tmp_path, log_name(number)).write_text(json.dumps(commit))

    assert len(table.files()) == 1
    assert table.leftovers(a_day_ago()) == []
    assert table.leftovers(time.time()) == [gone.path]


def test_a_name_that_counts_again_is_not_removed(tmp_path: Path) -> None:
    table = table_with(tmp_path, 1)
    (file,) = table.files()
    table.replace([file.path], [])
    table.append("query", 1, [file])

    table.delete_leftovers(time.time())

    assert names_below(tmp_path) == [file.path]


def test_two_that_clean_at_once_lose_nothing(tmp_path: Path) -> None:
    table = table_with(tmp_path, 2)
    old = [each.path for each in table.files()]
    table.replace(old, [written(tmp_path, 7, 2)])
    other = ParquetTable(str(tmp_path))
    before_s = time.time()
    other.leftovers(before_s)

    assert table.delete_leftovers(before_s) == sorted(old)
    assert other.delete_leftovers(before_s) == []

    assert [each.rows for each in ParquetTable(str(tmp_path)).files()] == [2]


def with_columns(folder: Path, rows: pa.Schema = ROWS) -> ParquetTable:
    return ParquetTable(str(folder), rows, ("topic", "date"))


def columns_of(folder: Path) -> list[str]:
    schema = ParquetTable(str(folder)).schema()
    assert schema is not None
    return list(schema.names)


def test_the_log_says_what_files_hold_and_none_of_them_is_opened(tmp_path: Path) -> None:
    tagged = ROWS.append(pa.field("topic", pa.string())).append(pa.field("tags", pa.string()))
    with_columns(tmp_path).append("one", 0, [written(tmp_path, 0)])
    with_columns(tmp_path, tagged).append("two", 0, [written(tmp_path, 1, has_tags=True)])
    with_columns(tmp_path).append("one", 1, [written(tmp_path, 2)])
    for path in (tmp_path / "topic=orders").rglob("*.parquet"):
        path.write_bytes(b"no footer")

    assert columns_of(tmp_path) == ["queueOffset", "body", "tags", "topic", "date"]
    assert json.loads((tmp_path / log_name(2)).read_text())["columns"] == {
        "queueOffset": "bigint",
        "body": "binary",
        "tags": "string",
    }


def test_snapshots_keep_the_columns(tmp_path: Path) -> None:
    table = with_columns(tmp_path)
    for batch in range(SNAPSHOT_EVERY):
        table.append("query", batch, [written(tmp_path, batch)])
    for path in (tmp_path / "topic=orders").rglob("*.parquet"):
        path.write_bytes(b"no footer")
    for number in range(SNAPSHOT_EVERY):
        (tmp_path / log_name(number)).unlink()

    assert columns_of(tmp_path) == ["queueOffset", "body", "topic", "date"]


def test_what_an_early_log_does_not_say_is_in_the_files(tmp_path: Path) -> None:
    tagged = written(tmp_path, 0, has_tags=True)
    commit = {"atMs": 1, "writer": "query", "batch": 0, "added": [as_early(tagged.path)]}
    leave(tmp_path, log_name(0)).write_text(json.dumps(commit))
    assert columns_of(tmp_path) == ["queueOffset", "body", "tags", "topic", "date"]

    with_columns(tmp_path).append("query", 1, [written(tmp_path, 1)])
    for path in (tmp_path / "topic=orders").rglob("*.parquet"):
        path.write_bytes(b"no footer")

    assert columns_of(tmp_path) == ["queueOffset", "body", "tags", "topic", "date"]


def test_an_early_version_that_appends_later_is_noticed(tmp_path: Path) -> None:
    with_columns(tmp_path).append("query", 0, [written(tmp_path, 0)])
    tagged = written(tmp_path, 1, has_tags=True)
    commit = {"atMs": 1, "writer": "query", "batch": 1, "added": [as_early(tagged.path)]}
    leave(tmp_path, log_name(1)).write_text(json.dumps(commit))

    assert "tags" in columns_of(tmp_path)


def test_an_exchange_of_files_changes_no_columns(tmp_path: Path) -> None:
    with_columns(tmp_path).append("query", 0, [written(tmp_path, 0)])
    table = ParquetTable(str(tmp_path))
    table.replace([table.files()[0].path], [written(tmp_path, 1)])
    for path in (tmp_path / "topic=orders").rglob("*.parquet"):
        path.write_bytes(b"no footer")

    assert columns_of(tmp_path) == ["queueOffset", "body", "topic", "date"]


def test_two_that_begin_with_different_types_do_not_both_write(tmp_path: Path) -> None:
    one = with_columns(tmp_path)
    other = with_columns(tmp_path, pa.schema([("body", pa.string())]))
    one.check()
    other.check()
    one.append("one", 0, [written(tmp_path, 0)])

    with pytest.raises(TableError, match=r"body is binary in .*, and string in what is archived"):
        other.append("other", 0, [written(tmp_path, 1)])


def test_a_long_log_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = table_with(tmp_path, 1), ParquetTable(str(tmp_path))
    two.append("other", 0, [written(tmp_path, 7)])
    monkeypatch.setattr(Folder, "names", lambda *_, **__: pytest.fail("the log was listed"))

    assert (one.last_batch("other"), one.last_batch("query")) == (0, 0)
    assert one.append("query", 1, [written(tmp_path, 8)])
    assert two.last_batch("query") == 1


def test_a_batch_that_is_slower_than_a_clean_up_fails_and_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_with(tmp_path, 1)
    late = written(tmp_path, 7)
    age(tmp_path / late.path, days=2)

    def delete_meanwhile(name: str) -> None:
        """The batch comes to its end when its files are chosen and not deleted yet."""
        assert name == late.path
        with pytest.raises(TableError, match="is being deleted"):
            ParquetTable(str(tmp_path)).append("query", 1, [late])
        (tmp_path / name).unlink()

    cleaning = ParquetTable(str(tmp_path))
    monkeypatch.setattr(cleaning.folder, "delete", delete_meanwhile)
    assert cleaning.delete_leftovers(a_day_ago()) == [late.path]

    with pytest.raises(TableError, match="is not there"):
        table.append("query", 1, [late])
    assert table.append("query", 1, [written(tmp_path, 7)])
    assert all((tmp_path / each.path).exists() for each in table.files())


def test_a_batch_that_comes_just_before_a_clean_up_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_with(tmp_path, 1)
    late = written(tmp_path, 7)
    age(tmp_path / late.path, days=2)
    cleaning = ParquetTable(str(tmp_path))
    chosen = cleaning._leftovers

    def choose(written_s: Mapping[str, float], before_s: float) -> list[str]:
        names = chosen(written_s, before_s)
        table.append("query", 1, [late])
        return names

    monkeypatch.setattr(cleaning, "_leftovers", choose)

    assert cleaning.delete_leftovers(a_day_ago()) == []
    assert (tmp_path / late.path).exists()


def test_what_was_condemned_before_a_crash_is_deleted_and_forgotten(tmp_path: Path) -> None:
    table_with(tmp_path, 1)
    left = leave(tmp_path, f"topic=orders/{file_name(50)}", days=2)
    crashed = ParquetTable(str(tmp_path))
    crashed._condemned(crashed.folder.modified_times(), a_day_ago())

    again = ParquetTable(str(tmp_path))

    assert again.delete_leftovers(a_day_ago()) == [str(left.relative_to(tmp_path))]
    assert again._state.condemned == set()
    assert len(again.folder.names(LOG)) == 3
