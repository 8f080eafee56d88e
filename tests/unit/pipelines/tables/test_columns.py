"""Columns of several files, as one table has them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from emberq.errors import TableError
from emberq.pipelines.tables import columns as columns_of
from emberq.pipelines.tables.columns import (
    as_words,
    footers,
    from_words,
    plain,
    unified,
    with_partitions,
)
from emberq.spark.archive.folder import Folder
from emberq.spark.decode.shape import ARROW_TYPES

TAGS = pa.schema([("queueOffset", pa.int64()), ("tags", pa.string())])
BODY = pa.schema([("queueOffset", pa.int64()), ("body", pa.binary())])
BODY_TEXT = pa.schema([("body", pa.string())])
ALL = pa.schema([(f"c{number}", kind) for number, kind in enumerate(ARROW_TYPES.values())])


def test_together_they_are_all_columns_of_each() -> None:
    assert unified([("a", TAGS), ("b", BODY)]).names == ["queueOffset", "tags", "body"]
    assert unified([]).names == []


def test_two_types_of_one_column_are_named_with_both_files() -> None:
    with pytest.raises(TableError, match=r"body is binary in b\.parquet, and string in c\.parquet"):
        unified([("b.parquet", BODY), ("c.parquet", BODY_TEXT)])


def test_every_type_of_archives_has_a_word_for_logs_and_survives_a_file(tmp_path: Path) -> None:
    pq.write_table(ALL.empty_table(), tmp_path / "a.parquet")
    ((path, found),) = footers(Folder(str(tmp_path)), ["a.parquet"])

    assert path == f"{tmp_path}/a.parquet"
    words = as_words(found)
    assert words is not None
    assert list(words.values()) == list(ARROW_TYPES)
    assert from_words(words) == ALL


def test_other_types_have_no_word() -> None:
    assert as_words(pa.schema([("a", pa.float64())])) is None
    with pytest.raises(TableError, match="column a is double, and this version knows no such type"):
        from_words({"a": "double"})


def test_large_types_are_the_same_ones() -> None:
    large = pa.map_(pa.large_string(), pa.large_string())
    schema = pa.schema([("a", pa.large_string()), ("b", pa.large_binary()), ("c", large)])

    assert plain(schema).types == [
        pa.string(),
        pa.binary(),
        pa.map_(pa.string(), pa.string()),
    ]


def test_columns_of_paths_are_texts_but_for_numbers_of_queues() -> None:
    schema = with_partitions(BODY, ["body", "queueId", "date"])

    assert schema.names == ["queueOffset", "body", "queueId", "date"]
    assert schema.types[2:] == [pa.int32(), pa.string()]


def test_however_many_files_there_are_some_footers_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns_of, "FOOTERS_TOGETHER", 2)
    names = [f"{number}.parquet" for number in range(9)]
    for name in names:
        pq.write_table(BODY.empty_table(), tmp_path / name)

    found = list(footers(Folder(str(tmp_path)), [*names, "gone.parquet"]))

    assert [(Path(path).name, schema) for path, schema in found] == [(n, BODY) for n in names]


def test_a_damaged_footer_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no footer")

    with pytest.raises(TableError, match=r"a\.parquet"):
        list(footers(Folder(str(tmp_path)), ["a.parquet"]))
