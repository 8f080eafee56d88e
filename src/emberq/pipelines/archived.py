"""Reading a table of the job `archive` back into Spark."""

from typing import TYPE_CHECKING

import pyarrow as pa

from emberq.errors import PipelineError
from emberq.pipelines.tables import Table, open_table
from emberq.spark.archive.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def existing_table(kind: str, root: str, catalog: dict[str, str] | None = None) -> Table:
    """A table that is only read: what its files hold stands in them."""
    return open_table(kind, root, pa.schema([]), (), catalog=catalog)


def read_archive(
    session: "SparkSession", kind: str, root: str, catalog: dict[str, str] | None = None
) -> "DataFrame":
    """The rows that count: those of the files in the table's log, with their partition columns."""
    folder = Folder(root)
    files = existing_table(kind, root, catalog).files()
    if not files:
        raise PipelineError(f"there is no {kind} table with messages at {root}")
    reader = session.read.option("basePath", folder.address_of("").rstrip("/"))
    return reader.parquet(*(folder.address_of(each.path) for each in files))
