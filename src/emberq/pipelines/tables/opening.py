"""Which class serves which format."""

from collections.abc import Sequence

import pyarrow as pa

from emberq.errors import TableError
from emberq.pipelines.tables.columns import with_partitions
from emberq.pipelines.tables.parquet import ParquetTable
from emberq.pipelines.tables.table import Table
from emberq.spark.archive.folder import Folder
from emberq.spark.archive.layout import partition_columns

FORMATS = ("parquet", "delta", "iceberg")


def open_table(
    kind: str,
    root: str,
    rows: pa.Schema,
    partition_by: Sequence[str],
    *,
    catalog: dict[str, str] | None = None,
) -> Table:
    """The table at `root`, which need not exist yet; `rows` is what is written to it."""
    partition_by = partition_columns(partition_by)
    if kind == "parquet":
        return ParquetTable(root, rows, partition_by)
    schema = with_partitions(rows, partition_by)
    if kind == "delta":
        from emberq.pipelines.tables.delta import DeltaLakeTable  # noqa: PLC0415 - an extra

        return DeltaLakeTable(root, schema, partition_by)
    if kind == "iceberg":
        from emberq.pipelines.tables.iceberg import IcebergTable  # noqa: PLC0415 - an extra

        return IcebergTable(root, schema, partition_by, catalog)
    raise TableError(f"{kind!r} is no table format: {', '.join(FORMATS)}")


def live_files(
    root: str, kind: str = "parquet", catalog: dict[str, str] | None = None
) -> list[str]:
    """The files of an archive that count now, for tools that take lists of files.

    Paths where the table is in a local folder, addresses elsewhere. What the log has removed stays
    in the folder for a while, so a tool that reads all of it sees messages twice:

        pyarrow.dataset.dataset(live_files("lake/orders"), partitioning="hive")

    Raises TableError where there is no such table, or nothing in it.
    """
    folder = Folder(root)
    files = open_table(kind, root, pa.schema([]), (), catalog=catalog).files()
    if not files:
        raise TableError(f"there is no {kind} table with messages at {root}")
    named = folder.path_of if folder.is_local else folder.address_of
    return [named(each.path) for each in files]
