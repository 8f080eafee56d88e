"""Which class serves which format."""

from collections.abc import Sequence

import pyarrow as pa

from emberq.errors import TableError
from emberq.pipelines.tables.parquet import ParquetTable
from emberq.pipelines.tables.table import Table, table_schema

FORMATS = ("parquet", "delta", "iceberg")


def open_table(
    kind: str,
    root: str,
    rows: pa.Schema,
    partition_by: Sequence[str],
    *,
    catalog: dict[str, str] | None = None,
) -> Table:
    """The table at `root`, which need not exist yet; `rows` is what its files hold."""
    if kind == "parquet":
        return ParquetTable(root)
    schema = table_schema(rows, partition_by)
    if kind == "delta":
        from emberq.pipelines.tables.delta import DeltaLakeTable  # noqa: PLC0415 - an extra

        return DeltaLakeTable(root, schema, partition_by)
    if kind == "iceberg":
        from emberq.pipelines.tables.iceberg import IcebergTable  # noqa: PLC0415 - an extra

        return IcebergTable(root, schema, partition_by, catalog)
    raise TableError(f"{kind!r} is no table format: {', '.join(FORMATS)}")
