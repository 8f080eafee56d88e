"""Delta tables: batches as application transactions, committed by delta-rs."""

import time
from collections.abc import Sequence

import msgspec
import pyarrow as pa

from emberq.errors import TableError
from emberq.spark.archive.data_file import DataFile
from emberq.spark.archive.folder import Folder

try:
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import AddAction, create_table_with_add_actions
except ImportError as error:  # pragma: no cover - depends on the environment
    raise TableError("Delta tables need more: pip install 'emberq[lake]'") from error


class DeltaLakeTable:
    """A Delta table; made with the first batch if there is none."""

    keeps_partition_columns = False

    def __init__(self, root: str, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        self._folder = Folder(root)
        self._address = self._folder.root
        self._schema = Schema.from_arrow(schema)
        self._partition_by = list(partition_by)

    @property
    def root(self) -> str:
        return self._folder.root

    def last_batch(self, writer: str) -> int | None:
        table = self._opened()
        return None if table is None else table.transaction_version(writer)

    def append(self, writer: str, batch: int, files: Sequence[DataFile]) -> bool:
        table = self._opened() or self._made()
        last = table.transaction_version(writer)
        if last is not None and last >= batch:
            return False
        try:
            table.create_write_transaction(
                [_add_action(each) for each in files],
                "append",
                self._schema,
                self._partition_by,
                commit_properties=CommitProperties(app_transactions=[Transaction(writer, batch)]),
            )
        except DeltaError as error:
            raise TableError(f"{self.root}: {error}") from error
        return True

    def replace(self, removed: Sequence[str], added: Sequence[DataFile]) -> None:
        raise TableError(
            f"{self.root}: Delta exchanges files itself; use deltalake's optimize.compact"
        )

    def compact(self, target_bytes: int) -> int:
        """Join small files; returns how many there are fewer."""
        table = self._opened()
        if table is None:
            return 0
        metrics = table.optimize.compact(target_size=target_bytes)
        return int(metrics["numFilesRemoved"]) - int(metrics["numFilesAdded"])

    def vacuum(self, kept_hours: int) -> list[str]:
        """Delete files that no version of the last hours needs."""
        table = self._opened()
        if table is None:
            return []
        return list(
            table.vacuum(
                retention_hours=kept_hours, dry_run=False, enforce_retention_duration=False
            )
        )

    def files(self) -> list[DataFile]:
        table = self._opened()
        if table is None:
            return []
        rows = pa.table(table.get_add_actions(flatten=False)).to_pylist()
        return [
            DataFile(
                path=row["path"],
                rows=row["num_records"] or 0,
                size_bytes=row["size_bytes"],
                partition=row.get("partition") or {},
            )
            for row in rows
        ]

    def _opened(self) -> DeltaTable | None:
        if not DeltaTable.is_deltatable(self._address):
            return None
        return DeltaTable(self._address)

    def _made(self) -> DeltaTable:
        create_table_with_add_actions(
            self._address, self._schema, [], mode="ignore", partition_by=self._partition_by
        )
        return DeltaTable(self._address)


def _add_action(file: DataFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values=file.partition,
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=msgspec.json.encode({"numRecords": file.rows}).decode(),
    )
