"""Tables that Spark cannot open by itself."""

from pathlib import Path

import pyarrow as pa
import pytest

from emberq.errors import ConfigError
from emberq.pipelines.archive import Archive
from emberq.pipelines.archived import existing_table, file_rows
from emberq.pipelines.tables.parquet import ParquetTable
from tests.unit.pipelines.tables.lake import written


def test_a_table_in_an_object_store_needs_a_checkpoint_elsewhere() -> None:
    job = Archive(topics="orders", path="s3://lake/orders")

    with pytest.raises(ConfigError, match="needs checkpoint"):
        _ = job.checkpoint_path
    assert Archive(topics="orders", path="/lake").checkpoint_path == "/lake/_checkpoint"


def test_rows_have_the_columns_of_all_files_whichever_is_the_first(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path))
    table.append("audit", 0, [written(tmp_path, 0, topic="audit")])
    table.append("orders", 0, [written(tmp_path, 1, topic="orders", has_tags=True)])
    names = [each.path for each in table.files()]
    schema = existing_table("parquet", str(tmp_path)).schema()
    assert schema is not None

    read = file_rows(str(tmp_path), schema)
    batches = read(iter([pa.record_batch({"name": names})]))

    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["topic"], row["tags"]) for row in rows] == [("audit", None), ("orders", "new")]


def test_a_column_of_any_type_that_a_file_lacks_is_null(tmp_path: Path) -> None:
    name = written(tmp_path, 0).path
    kind = pa.map_(pa.string(), pa.string())
    schema = pa.schema([("properties", kind), ("queueId", pa.int32())])

    (rows,) = file_rows(str(tmp_path), schema)(iter([pa.record_batch({"name": [name]})]))

    assert rows.to_pylist() == [{"properties": None, "queueId": None}]
