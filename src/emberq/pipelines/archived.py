"""Reading a table of the job `archive` back into Spark."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from emberq.errors import PipelineError
from emberq.pipelines.tables import Table, open_table
from emberq.spark.archive.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Of a file, read together by a task.
ROWS_TOGETHER = 10_000
# However many files there are: a task reads several of them then.
TASKS_MAX = 1_000
# What paths say as text, and files as a number.
_NUMBERS = {"queueId": pa.int32()}


def existing_table(kind: str, root: str, catalog: dict[str, str] | None = None) -> Table:
    """A table that is only read: what its files hold stands in them."""
    return open_table(kind, root, pa.schema([]), (), catalog=catalog)


def read_archive(
    session: "SparkSession", kind: str, root: str, catalog: dict[str, str] | None = None
) -> "DataFrame":
    """The rows that count: those of the files in the table's log, with their partition columns."""
    names = [each.path for each in existing_table(kind, root, catalog).files()]
    if not names:
        raise PipelineError(f"there is no {kind} table with messages at {root}")
    folder = Folder(root)
    if not folder.is_local:
        return read_by_tasks(session, root, names)
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - an extra

    # With types that Spark finds by itself a topic `007` is the number 7.
    schema = from_arrow_schema(_schema_of(folder, names[0]))
    reader = session.read.schema(schema).option("basePath", folder.address_of("").rstrip("/"))
    return reader.parquet(*(folder.address_of(name) for name in names))


def read_by_tasks(session: "SparkSession", root: str, names: list[str]) -> "DataFrame":
    """The rows of Parquet files of a folder, read with Arrow inside tasks: it has clients for
    object stores, and Spark has none unless somebody adds their jars."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - an extra

    schema = _schema_of(Folder(root), names[0])
    files = session.createDataFrame([(name,) for name in names], "name string")
    spread = files.repartition(min(len(names), TASKS_MAX))
    return spread.mapInArrow(file_rows(root, schema), from_arrow_schema(schema))


def file_rows(
    root: str, schema: pa.Schema
) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """What makes rows of names of files."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        folder = Folder(root)
        for name in (name for batch in batches for name in batch.column(0).to_pylist()):
            partition = partition_of(name)
            with folder.filesystem.open_input_file(folder.path_of(name)) as stream:
                for rows in pq.ParquetFile(stream).iter_batches(ROWS_TOGETHER):
                    columns = [_column(rows, field, partition) for field in schema]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return read


def partition_of(name: str) -> dict[str, str]:
    """What the folders of a file say: `topic=orders/date=2026-11-17/…`."""
    pairs = (folder.partition("=") for folder in name.split("/")[:-1])
    return {key: unquote(value) for key, equals, value in pairs if equals}


def _schema_of(folder: Folder, name: str) -> pa.Schema:
    with folder.filesystem.open_input_file(folder.path_of(name)) as stream:
        schema = pq.read_schema(stream).remove_metadata()
    for key in partition_of(name):
        if key not in schema.names:
            schema = schema.append(pa.field(key, _NUMBERS.get(key, pa.string())))
    return schema


def _column(rows: pa.RecordBatch, field: pa.Field, partition: dict[str, str]) -> Any:
    if field.name in rows.schema.names:
        return rows.column(field.name)
    value = pa.scalar(partition.get(field.name), pa.string()).cast(field.type)
    return pa.repeat(value, rows.num_rows)
