"""Delta tables are compacted by deltalake, and only what is ours is deleted."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from emberq.errors import TableError
from emberq.pipelines.tables.compaction import CompactionTerms
from emberq.pipelines.tables.delta import DeltaLakeTable
from emberq.pipelines.tables.delta_compaction import DeltaCompaction
from emberq.spark.archive.layout import COMPRESSIONS
from tests.unit.pipelines.tables.lake import (
    DAY_S,
    age,
    file_name,
    leave,
    names_below,
    offsets,
    opened,
    written,
)

MIB = 1024 * 1024
DRAFT = f".{file_name(51)}.{0:032x}"
JOINED = "part-00000-11fa26d3-a0b5-45ab-8bb0-b69bd6d77423-c000.zstd.parquet"
TOPICS = ("orders", "%DLQ%a|b")


@pytest.fixture
def table(tmp_path: Path) -> DeltaLakeTable:
    """Three batches of two topics, two days old."""
    made = opened("delta", tmp_path)
    assert isinstance(made, DeltaLakeTable)
    for batch in range(3):
        files = [written(tmp_path, 10 * n + batch, topic=topic) for n, topic in enumerate(TOPICS)]
        made.append("query", batch, files)
    for name in names_below(tmp_path):
        age(tmp_path / name, days=2)
    return made


def compaction(table: DeltaLakeTable, kept_s: float = DAY_S) -> DeltaCompaction:
    terms = CompactionTerms(file_size_bytes=64 * MIB, compression="zstd", orphans_after_s=kept_s)
    return DeltaCompaction(table, terms)


def test_files_of_every_topic_are_joined(table: DeltaLakeTable, tmp_path: Path) -> None:
    plan = compaction(table).plan()

    facts = compaction(table).run(lambda _: None)

    assert [len(group) for group in plan.groups] == [3, 3]
    assert facts == {
        "files before": 6,
        "files after": 2,
        "files joined": 6,
        "files of dropped days": 0,
        "files deleted": 0,
    }
    assert offsets(tmp_path, table) == [0, 1, 2, 10, 11, 12]
    assert {each.partition["topic"] for each in table.files()} == set(TOPICS)


def test_files_that_were_just_joined_stay_however_old_they_are(
    table: DeltaLakeTable, tmp_path: Path
) -> None:
    before = names_below(tmp_path)

    compaction(table).run(lambda _: None)

    assert set(before) <= set(names_below(tmp_path))
    assert compaction(table, kept_s=0).plan().deleted == before
    assert compaction(table, kept_s=0).run(lambda _: None)["files deleted"] == 6
    assert names_below(tmp_path) == sorted(each.path for each in table.files())


def test_files_that_were_never_logged_go_when_they_are_old(
    table: DeltaLakeTable, tmp_path: Path
) -> None:
    old = [
        leave(tmp_path, f"topic=orders/date=2026-11-17/{name}", days=2)
        for name in (file_name(50), DRAFT, JOINED)
    ]
    leave(tmp_path, f"topic=%25DLQ%25a%7Cb/date=2026-11-17/{file_name(50)}", days=2)
    spared = [
        leave(tmp_path, f"topic=orders/date=2026-11-17/{file_name(60)}"),
        leave(tmp_path, f"topic=orders/date=2026-11-17/.{file_name(60)}.{0:032x}"),
        leave(tmp_path, "journeys/batch=7/part-0.parquet", days=2),
        leave(tmp_path, "my-own.parquet", days=2),
        leave(tmp_path, f"orders/topic=a/{file_name(0)}", days=2),
        leave(tmp_path, "_checkpoint/offsets/0", days=2),
        leave(tmp_path, f"_events/{file_name(0)}", days=2),
        leave(tmp_path, "ck/offsets/0", days=2),  # a checkpoint at another place
        leave(tmp_path, "ck/emberq-writer", days=2),
        leave(tmp_path, "catalog.db", days=2),
    ]
    planned = table.leftovers(DAY_S)

    deleted = table.delete_leftovers(DAY_S)

    assert len(deleted) == 4
    assert deleted == planned
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in spared)
    assert offsets(tmp_path, table) == [0, 1, 2, 10, 11, 12]


def test_part_of_an_hour_is_an_hour(table: DeltaLakeTable, tmp_path: Path) -> None:
    leave(tmp_path, f"topic=orders/{file_name(60)}", days=10 / (24 * 60))
    leave(tmp_path, f"topic=orders/{file_name(50)}", days=70 / (24 * 60))
    table.compact(64 * MIB, "zstd")

    assert table.delete_leftovers(59 * 60) == [f"topic=orders/{file_name(50)}"]


def test_a_file_that_is_written_anew_meanwhile_stays(
    table: DeltaLakeTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeated = leave(tmp_path, f"topic=orders/{file_name(50)}", days=2)
    listed = table.leftovers(DAY_S)
    monkeypatch.setattr(table, "leftovers", lambda _: listed)
    age(repeated, days=0)

    assert listed == [f"topic=orders/{file_name(50)}"]
    assert table.delete_leftovers(DAY_S) == []
    assert repeated.exists()


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_joined_files_are_compressed_as_wanted(
    compression: str, table: DeltaLakeTable, tmp_path: Path
) -> None:
    table.compact(64 * MIB, compression)

    found = pq.read_metadata(tmp_path / table.files()[0].path).row_group(0).column(0).compression
    # Arrow calls both of its forms LZ4.
    assert found.lower() == {"none": "uncompressed"}.get(compression, compression)


def test_row_groups_of_joined_files_have_an_even_size(
    table: DeltaLakeTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size_bytes = sum(each.size_bytes for each in table.files())
    monkeypatch.setattr("emberq.pipelines.tables.delta.ROW_GROUP_BYTES", size_bytes // 3)

    table.compact(64 * MIB, "zstd")

    found = pq.read_metadata(tmp_path / table.files()[0].path)
    assert [found.row_group(n).num_rows for n in range(found.num_row_groups)] == [2, 1]


def test_versions_before_are_readable_until_their_files_go(
    table: DeltaLakeTable, tmp_path: Path
) -> None:
    version = DeltaTable(str(tmp_path)).version()
    compaction(table).run(lambda _: None)

    assert DeltaTable(str(tmp_path), version=version).to_pyarrow_table().num_rows == 6
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().num_rows == 6


def test_a_table_is_there_when_something_was_appended(tmp_path: Path) -> None:
    table = opened("delta", tmp_path)
    assert isinstance(table, DeltaLakeTable)
    assert not table.is_made

    table.append("query", 0, [written(tmp_path, 0)])

    assert table.is_made


def test_a_damaged_log_is_told_in_a_sentence(table: DeltaLakeTable, tmp_path: Path) -> None:
    (tmp_path / "_delta_log" / f"{0:020d}.json").write_text("{bad")
    again = opened("delta", tmp_path)

    for act in (again.files, again.schema, again.check, lambda: again.last_batch("query")):
        with pytest.raises(TableError, match=str(tmp_path)) as caught:
            act()
        assert "\n" not in str(caught.value)


def test_a_commit_that_was_overtaken_is_a_failed_batch(
    table: DeltaLakeTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zombie, before = opened("delta", tmp_path), table._opened()
    zombie.append("query", 3, [written(tmp_path, 30)])
    monkeypatch.setattr(table, "_opened", lambda: before)

    with pytest.raises(TableError, match="Concurrent"):
        table.append("query", 3, [written(tmp_path, 40)])
    assert 40 not in offsets(tmp_path, opened("delta", tmp_path))


def test_folders_that_delta_would_not_find_again_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="give another path"):
        opened("delta", tmp_path / "a%20b")
    opened("delta", tmp_path / "100% #?[1]")
