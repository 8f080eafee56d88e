"""Delta tables: batches as application transactions, committed by delta-rs."""

import math
import time
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Literal
from urllib.parse import unquote

import msgspec
import pyarrow as pa

from emberq.errors import TableError
from emberq.pipelines.tables.columns import plain
from emberq.pipelines.tables.failures import readable_failures
from emberq.pipelines.tables.fitting import check_columns, check_partitions
from emberq.pipelines.tables.leftovers import delete_files, left_behind
from emberq.pipelines.tables.presence import check_present
from emberq.spark.archive.data_file import DataFile
from emberq.spark.archive.folder import Folder
from emberq.spark.archive.parquet_file import ROW_GROUP_BYTES

try:
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction, WriterProperties
    from deltalake.transaction import AddAction, create_table_with_add_actions
except ImportError as error:  # pragma: no cover - depends on the environment
    raise TableError("Delta tables need more: pip install 'emberq[lake]'") from error


_Codec = Literal["ZSTD", "SNAPPY", "GZIP", "LZ4_RAW", "UNCOMPRESSED"]
# Our words for compressions → those of deltalake; Arrow writes `lz4` as LZ4_RAW too.
_CODECS: dict[str, _Codec] = {
    "zstd": "ZSTD",
    "snappy": "SNAPPY",
    "gzip": "GZIP",
    "lz4": "LZ4_RAW",
    "none": "UNCOMPRESSED",
}
_HOUR_S = 3600
LOG_FOLDER = "_delta_log"
_JOINED = r"part-\d{5}-[0-9a-f-]{36}-c\d{3}(\.\w+)*\.parquet"  # as deltalake names files


class DeltaLakeTable:
    """A Delta table; made with the first batch if there is none."""

    keeps_partition_columns = False
    takes_columns = False

    def __init__(self, root: str, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        self._folder = Folder(root)
        if unquote(self.root) != self.root:
            raise TableError(
                f"{root}: Delta reads % and two digits in the name of a folder as another sign: "
                "give another path"
            )
        self._address = self._folder.root
        self._rows = schema
        self._schema = Schema.from_arrow(schema)
        self._partition_by = list(partition_by)

    @property
    def root(self) -> str:
        return self._folder.root

    def schema(self) -> pa.Schema | None:
        table = self._opened()
        return None if table is None else _schema_of(table)

    def check(self) -> None:
        table = self._opened()
        if table is None:
            return
        check_partitions(self.root, [table.metadata().partition_columns], self._partition_by)
        check_columns(self.root, _schema_of(table), self._rows, takes_columns=self.takes_columns)

    def last_batch(self, writer: str) -> int | None:
        table = self._opened()
        return None if table is None else table.transaction_version(writer)

    def append(self, writer: str, batch: int, files: Sequence[DataFile]) -> bool:
        table = self._opened() or self._made()
        last = table.transaction_version(writer)
        if last is not None and last >= batch:
            return False
        check_present(self._folder, files)
        with readable_failures(self.root):
            table.create_write_transaction(
                [_add_action(each) for each in files],
                "append",
                self._schema,
                self._partition_by,
                commit_properties=CommitProperties(app_transactions=[Transaction(writer, batch)]),
            )
        return True

    def replace(self, removed: Sequence[str], added: Sequence[DataFile]) -> None:
        raise TableError(
            f"{self.root}: Delta exchanges files itself; use deltalake's optimize.compact"
        )

    @property
    def is_made(self) -> bool:
        return self._opened() is not None

    def compact(self, target_bytes: int, compression: str) -> None:
        """Join small files; deltalake decides which with which."""
        table = self._opened()
        if table is None:
            return
        properties = WriterProperties(
            compression=_CODECS[compression], max_row_group_size=self._rows_per_group()
        )
        with readable_failures(self.root):
            table.optimize.compact(target_size=target_bytes, writer_properties=properties)

    def drop_before(self, day: date) -> None:
        """Remove the partitions of earlier days."""
        table = self._opened()
        if table is None:
            return
        with readable_failures(self.root):
            table.delete(f"date < '{day}'")

    def _rows_per_group(self) -> int | None:
        """So many rows of average size are a row group; none: as deltalake likes it."""
        files = self.files()
        rows, size_bytes = sum(each.rows for each in files), sum(each.size_bytes for each in files)
        return max(1, ROW_GROUP_BYTES * rows // size_bytes) if rows and size_bytes else None

    def leftovers(self, kept_s: float) -> list[str]:
        """Files that no version of the last hours needs, and those of its writers that no log names
        and that are older. Delta counts in hours: they are rounded up."""
        table = self._opened()
        if table is None:
            return []
        # Only asked: deltalake itself would delete everything that is old in the folder, also a
        # checkpoint of Spark and whatever else people keep there.
        with readable_failures(self.root):
            removed = set(_vacuumed(table, kept_s, is_full=False))
            old = _vacuumed(table, kept_s, is_full=True)
        ours = left_behind(self._folder.names("", is_recursive=True), LOG_FOLDER, _JOINED)
        return sorted(name for name in old if name in removed or name in ours)

    def delete_leftovers(self, kept_s: float) -> list[str]:
        before_s = time.time() - math.ceil(kept_s / _HOUR_S) * _HOUR_S
        return delete_files(self._folder, self.leftovers(kept_s), before_s)

    def files(self) -> list[DataFile]:
        table = self._opened()
        if table is None:
            return []
        with readable_failures(self.root):
            rows = pa.table(table.get_add_actions(flatten=False)).to_pylist()
        return [
            DataFile(
                path=unquote(row["path"]),  # as Delta's log has it: a percent sign is %25
                rows=row["num_records"] or 0,
                size_bytes=row["size_bytes"],
                partition=_partition(row.get("partition") or {}),
            )
            for row in rows
        ]

    def _opened(self) -> DeltaTable | None:
        with readable_failures(self.root):
            if not DeltaTable.is_deltatable(self._address):
                return None
            return DeltaTable(self._address)

    def _made(self) -> DeltaTable:
        with readable_failures(self.root):
            create_table_with_add_actions(
                self._address, self._schema, [], mode="ignore", partition_by=self._partition_by
            )
            return DeltaTable(self._address)


def _schema_of(table: DeltaTable) -> pa.Schema:
    return plain(pa.schema(table.schema()))


def _vacuumed(table: DeltaTable, kept_s: float, *, is_full: bool) -> list[str]:
    """What deltalake would delete: of those that the log removed, or of all in the folder."""
    return table.vacuum(
        retention_hours=math.ceil(kept_s / _HOUR_S),
        dry_run=True,
        enforce_retention_duration=False,
        full=is_full,
    )


def _partition(values: Mapping[str, str | None]) -> dict[str, str]:
    """Early versions appended files to tables that are partitioned in another way."""
    return {name: value for name, value in values.items() if value is not None}


def _add_action(file: DataFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values=file.partition,
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=msgspec.json.encode({"numRecords": file.rows}).decode(),
    )
