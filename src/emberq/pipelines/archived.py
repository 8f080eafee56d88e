"""Reading a table of the job `archive` back into Spark."""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from emberq.errors import PipelineError
from emberq.pipelines.tables import Table, open_table
from emberq.spark.archive.folder import Folder
from emberq.spark.archive.layout import partition_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Of a file, read together by a task.
ROWS_TOGETHER = 10_000
# However many files there are: a task reads several of them then.
TASKS_MAX = 1_000
# In an address they stand for other names, to Spark, unless a backslash is before them.
_GLOB_SIGNS = re.compile(r"[\[\]{}*?\\]")


def existing_table(kind: str, root: str, catalog: dict[str, str] | None = None) -> Table:
    """A table that is only read: what its files hold stands in them."""
    return open_table(kind, root, pa.schema([]), (), catalog=catalog)


def read_archive(
    session: "SparkSession", kind: str, root: str, catalog: dict[str, str] | None = None
) -> "DataFrame":
    """The rows that count: those of the files in the table's log, with their partition columns.

    Columns are those of all files: where one lacks a column, its rows have null. Raises
    PipelineError.
    """
    table = existing_table(kind, root, catalog)
    names = [each.path for each in table.files()]
    schema = table.schema()
    if not names or schema is None:
        raise PipelineError(f"there is no {kind} table with messages at {root}")
    folder = Folder(root)
    if not folder.is_local or not _are_alike(names):
        return read_by_tasks(session, folder.root, names, schema)
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - an extra

    # With types that Spark finds by itself a topic `007` is the number 7.
    reader = session.read.schema(from_arrow_schema(schema))
    reader = reader.option("basePath", folder.address_of("").rstrip("/"))
    return reader.parquet(*(_GLOB_SIGNS.sub(r"\\\g<0>", folder.address_of(name)) for name in names))


def read_by_tasks(
    session: "SparkSession", root: str, names: list[str], schema: pa.Schema
) -> "DataFrame":
    """The rows of Parquet files of a folder, read with Arrow inside tasks: it has clients for
    object stores, and Spark has none unless somebody adds their jars."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - an extra

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


def _are_alike(names: list[str]) -> bool:
    """Whether all are partitioned in one way: Spark refuses others, which early versions wrote."""
    return len({tuple(partition_of(name)) for name in names}) == 1


def _column(rows: pa.RecordBatch, field: pa.Field, partition: dict[str, str]) -> Any:
    if field.name in rows.schema.names:
        return rows.column(field.name)
    if field.name not in partition:
        return pa.nulls(rows.num_rows, field.type)
    value = pa.scalar(partition[field.name], pa.string()).cast(field.type)
    return pa.repeat(value, rows.num_rows)
