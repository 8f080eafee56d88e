"""Files of a Parquet table are joined, and nobody who reads notices."""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from emberq.errors import TableError
from emberq.pipelines.tables import DataFile, parquet_compaction
from emberq.pipelines.tables.compaction import CompactionTerms
from emberq.pipelines.tables.parquet import ParquetTable
from emberq.pipelines.tables.parquet_compaction import (
    READ_BYTES,
    READ_ROWS_MAX,
    ParquetCompaction,
    rows_together,
)
from emberq.spark.archive.parquet_file import ParquetDraft
from tests.unit.pipelines.tables.lake import (
    DAY_S,
    age,
    file_name,
    names_below,
    offsets,
    store_of,
    written,
)

MIB = 1024 * 1024


def compaction(root: object, **terms: Any) -> ParquetCompaction:
    given = {"file_size_bytes": 64 * MIB, "compression": "zstd", "orphans_after_s": DAY_S, **terms}
    return ParquetCompaction(ParquetTable(str(root)), CompactionTerms(**given))


def run(root: object, **terms: Any) -> dict[str, int]:
    return dict(compaction(root, **terms).run(lambda _: None))


def archive(folder: Path, files: list[DataFile]) -> ParquetTable:
    table = ParquetTable(str(folder))
    table.append("query", 0, files)
    return table


def joined_file(folder: Path) -> Path:
    (found,) = ParquetTable(str(folder)).files()
    return folder / found.path


def test_old_files_that_were_just_joined_can_still_be_read(tmp_path: Path) -> None:
    table = archive(tmp_path, [written(tmp_path, first, 2) for first in (0, 2, 4)])
    listed = [tmp_path / each.path for each in table.files()]
    for path in listed:
        age(path, days=2)

    facts = run(tmp_path)

    assert (facts["files joined"], facts["files after"], facts["files deleted"]) == (3, 1, 0)
    assert [pq.read_table(path, partitioning=None).num_rows for path in listed] == [2, 2, 2]
    assert offsets(tmp_path, table) == [0, 1, 2, 3, 4, 5]
    assert run(tmp_path, orphans_after_s=0)["files deleted"] == 3
    assert names_below(tmp_path) == [each.path for each in table.files()]


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()])
def test_a_join_that_fails_leaves_the_folder_as_it_was(
    failure: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = archive(tmp_path, [written(tmp_path, first) for first in (0, 1)])
    before = names_below(tmp_path)

    def fail(_: ParquetDraft) -> int:
        raise failure

    monkeypatch.setattr(ParquetDraft, "finish", fail)

    with pytest.raises(type(failure)):
        run(tmp_path)
    assert names_below(tmp_path) == before
    assert offsets(tmp_path, table) == [0, 1]


def test_while_files_are_joined_others_see_whole_ones_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(tmp_path, [written(tmp_path, first) for first in (0, 1)])
    seen: list[list[str]] = []
    add = ParquetDraft.add

    def watched(draft: ParquetDraft, batch: pa.RecordBatch) -> None:
        add(draft, batch)
        names = (Path(name).name for name in names_below(tmp_path))
        seen.append([name for name in names if not name.startswith(".")])

    monkeypatch.setattr(ParquetDraft, "add", watched)

    run(tmp_path)

    assert seen == [[file_name(0), file_name(1)]] * 2


def test_files_of_different_columns_are_not_joined_together(tmp_path: Path) -> None:
    early = [written(tmp_path, first) for first in (0, 1)]
    later = [written(tmp_path, first, has_tags=True) for first in (2, 3)]
    table = archive(tmp_path, [*early, *later, written(tmp_path, 9, day="2026-11-18")])

    facts = run(tmp_path)

    assert (facts["files joined"], facts["files after"]) == (4, 3)
    assert offsets(tmp_path, table) == [0, 1, 2, 3, 9]
    schemas = [pq.read_schema(tmp_path / each.path).names for each in table.files()]
    assert sorted(len(names) for names in schemas) == [2, 2, 3]


def test_many_tiny_files_become_one_row_group(tmp_path: Path) -> None:
    archive(tmp_path, [written(tmp_path, first) for first in range(40)])

    run(tmp_path)

    found = pq.ParquetFile(joined_file(tmp_path))
    assert [found.metadata.row_group(n).num_rows for n in range(found.num_row_groups)] == [40]
    assert found.read()["queueOffset"].to_pylist() == list(range(40))


def test_row_groups_end_when_they_have_enough_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(tmp_path, [written(tmp_path, 100 * each, 100) for each in range(4)])
    monkeypatch.setattr(parquet_compaction, "ROW_GROUP_BYTES", 2500)

    run(tmp_path)

    found = pq.ParquetFile(joined_file(tmp_path))
    assert [found.metadata.row_group(n).num_rows for n in range(found.num_row_groups)] == [200, 200]


def test_joined_files_have_the_dictionaries_statistics_and_compression_of_archives(
    tmp_path: Path,
) -> None:
    files = [written(tmp_path, first, 5, has_tags=True) for first in (0, 5)]
    archive(tmp_path, files)

    run(tmp_path, compression="snappy")

    group = pq.ParquetFile(joined_file(tmp_path)).metadata.row_group(0)
    columns = [group.column(n) for n in range(group.num_columns)]
    assert {each.compression for each in columns} == {"SNAPPY"}
    assert {each.path_in_schema for each in columns if each.has_dictionary_page} == {"tags"}
    with_statistics = {each.path_in_schema for each in columns if each.is_stats_set}
    assert with_statistics == {"queueOffset", "tags"}


def test_large_rows_are_read_few_at_a_time(tmp_path: Path) -> None:
    schema = pa.schema([("body", pa.binary())])
    with pq.ParquetWriter(
        tmp_path / "a.parquet", schema, compression="none", use_dictionary=False
    ) as file:
        file.write_table(pa.Table.from_pylist([{"body": b"x"}] * 1000, schema))
        file.write_table(pa.Table.from_pylist([{"body": b"x" * MIB}] * 4, schema))
    metadata = pq.read_metadata(tmp_path / "a.parquet")

    assert rows_together(metadata) == READ_BYTES // MIB - 1
    pq.write_table(schema.empty_table(), tmp_path / "b.parquet")
    assert rows_together(pq.read_metadata(tmp_path / "b.parquet")) == READ_ROWS_MAX


def test_a_join_has_few_rows_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(tmp_path, [written(tmp_path, 1000 * each, 1000) for each in range(2)])
    monkeypatch.setattr(parquet_compaction, "READ_BYTES", 2000)
    monkeypatch.setattr(parquet_compaction, "ROW_GROUP_BYTES", 5000)
    held: list[tuple[int, int]] = []
    add = ParquetDraft.add

    def watched(draft: ParquetDraft, batch: pa.RecordBatch) -> None:
        add(draft, batch)
        held.append((batch.num_rows, draft._group_bytes))

    monkeypatch.setattr(ParquetDraft, "add", watched)

    run(tmp_path)

    assert sum(rows for rows, _ in held) == 2000
    assert max(rows for rows, _ in held) <= 500
    assert max(size_bytes for _, size_bytes in held) < 5000


def test_files_that_somebody_else_joins_meanwhile_are_left_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = archive(tmp_path, [written(tmp_path, first) for first in (0, 1)])
    finish = ParquetDraft.finish

    def late(draft: ParquetDraft) -> int:
        monkeypatch.setattr(ParquetDraft, "finish", finish)
        run(tmp_path)
        return finish(draft)

    monkeypatch.setattr(ParquetDraft, "finish", late)

    with pytest.raises(TableError, match="was replaced by somebody else meanwhile"):
        run(tmp_path)
    assert offsets(tmp_path, table) == [0, 1]
    joined = [name for name in names_below(tmp_path) if "joined" in name]
    assert joined == [each.path for each in table.files()]


def test_a_commit_that_failed_in_doubt_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = archive(tmp_path, [written(tmp_path, first) for first in (0, 1)])
    replace = ParquetTable.replace

    def late(of: ParquetTable, removed: list[str], added: list[DataFile]) -> None:
        replace(of, removed, added)
        raise OSError("the disk is full, after the commit")

    monkeypatch.setattr(ParquetTable, "replace", late)

    with pytest.raises(OSError, match="after the commit"):
        run(tmp_path)
    assert offsets(tmp_path, table) == [0, 1]


def test_a_file_that_has_fewer_messages_than_the_log_says_is_not_replaced(tmp_path: Path) -> None:
    short = msgspec.structs.replace(written(tmp_path, 0, 3), rows=4)
    table = archive(tmp_path, [short, written(tmp_path, 3)])
    before = names_below(tmp_path)

    with pytest.raises(TableError, match="4 messages in files that have 5"):
        run(tmp_path)
    assert names_below(tmp_path) == before
    assert len(table.files()) == 2


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    archive(tmp_path, [written(tmp_path, first) for first in (0, 1)])
    (tmp_path / "topic=orders" / "date=2026-11-17" / file_name(1)).write_bytes(b"no footer")

    with pytest.raises(TableError, match=file_name(1)):
        run(tmp_path)


def test_a_commit_that_was_written_over_deletes_nothing_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an object store, where an archive may be first by being last."""
    archive(tmp_path, [written(tmp_path, first) for first in (0, 1)])
    root = store_of(tmp_path, monkeypatch)
    commit = tmp_path / "_emberq_log" / f"{1:020d}.json"
    replace = ParquetTable.replace

    def overwritten(of: ParquetTable, removed: list[str], added: list[DataFile]) -> None:
        replace(of, removed, added)
        commit.unlink()
        archive_once(tmp_path, written(tmp_path, 2))

    monkeypatch.setattr(ParquetTable, "replace", overwritten)

    facts = run(root, orphans_after_s=0)

    assert offsets(tmp_path, ParquetTable(str(tmp_path))) == [0, 1, 2]
    assert facts["files after"] == 3


def archive_once(folder: Path, file: DataFile) -> None:
    ParquetTable(str(folder)).append("query", 1, [file])


def test_a_plan_is_what_a_run_does(tmp_path: Path) -> None:
    table = archive(tmp_path, [written(tmp_path, first) for first in (0, 1, 2)])
    before = names_below(tmp_path)

    plan = compaction(tmp_path).plan()

    assert [len(group) for group in plan.groups] == [3]
    assert names_below(tmp_path) == before
    run(tmp_path)
    plan = compaction(tmp_path, orphans_after_s=0).plan()
    assert (plan.groups, plan.deleted) == ([], before)
    assert [each.path for each in plan.files] == [each.path for each in table.files()]
