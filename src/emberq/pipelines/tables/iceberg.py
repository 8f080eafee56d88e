"""Iceberg tables: batches named in snapshots and properties, committed by pyiceberg."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from emberq.errors import TableError
from emberq.pipelines.tables.columns import plain
from emberq.pipelines.tables.failures import readable_failures
from emberq.pipelines.tables.fitting import check_columns, check_partitions
from emberq.pipelines.tables.presence import check_present
from emberq.spark.archive.data_file import DataFile
from emberq.spark.archive.folder import Folder

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import (
        CommitFailedException,
        NamespaceAlreadyExistsError,
        NoSuchTableError,
        TableAlreadyExistsError,
    )
    from pyiceberg.table import Table as PyIcebergTable
    from pyiceberg.table import TableProperties
    from pyiceberg.transforms import IdentityTransform
except ImportError as error:  # pragma: no cover - depends on the environment
    raise TableError("Iceberg tables need more: pip install 'emberq[lake]'") from error

NAMESPACE = "emberq"
TABLE = "messages"
WRITER_KEY = "emberq.writer"
BATCH_KEY = "emberq.batch"
# With the name of a writer: its highest batch, for when its snapshots have expired.
LAST_BATCH_KEY = "emberq.last-batch."
COMMIT_ATTEMPTS_MAX = 100
_CATALOG = "catalog.db"
# What pyiceberg does not take for parts of a name.
_SIGNS = "#?"


class IcebergTable:
    """An Iceberg table; its catalog is a SQLite file beside it unless options name another one."""

    keeps_partition_columns = True  # pyiceberg finds the partition of a file in its statistics
    takes_columns = False

    def __init__(
        self,
        root: str,
        schema: pa.Schema,
        partition_by: Sequence[str],
        catalog: dict[str, str] | None = None,
    ) -> None:
        self._folder = Folder(root)
        if any(sign in self.root for sign in _SIGNS):
            raise TableError(
                f"{root}: Iceberg finds no files in folders with # or ? in their name: give "
                "another path"
            )
        self._schema = schema
        self._partition_by = list(partition_by)
        self._options = dict(catalog or {})
        self._identifier = self._options.pop("table", f"{NAMESPACE}.{TABLE}")

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
        check_partitions(self.root, [_partition_columns(table)], self._partition_by)
        check_columns(self.root, _schema_of(table), self._schema, takes_columns=self.takes_columns)

    def last_batch(self, writer: str) -> int | None:
        table = self._opened()
        return None if table is None else _last_batch(table, writer)

    def append(self, writer: str, batch: int, files: Sequence[DataFile]) -> bool:
        for _ in range(COMMIT_ATTEMPTS_MAX):
            table = self._opened() or self._made()
            last = _last_batch(table, writer)
            if last is not None and last >= batch:
                return False
            check_present(self._folder, files)
            with readable_failures(self.root):
                if self._commit(table, writer, batch, files):
                    return True
        raise TableError(f"{self.root}: {COMMIT_ATTEMPTS_MAX} commits of others came first")

    def _commit(
        self, table: PyIcebergTable, writer: str, batch: int, files: Sequence[DataFile]
    ) -> bool:
        """False: somebody has committed since the table was opened."""
        # Not pyiceberg but who asks for the last batch tries again; here only, not in the table.
        table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
        try:
            with table.transaction() as transaction:
                transaction.set_properties({f"{LAST_BATCH_KEY}{writer}": str(batch)})
                transaction.add_files(
                    [self._folder.address_of(each.path) for each in files],
                    snapshot_properties={WRITER_KEY: writer, BATCH_KEY: str(batch)},
                )
        except CommitFailedException:
            return False
        return True

    def replace(self, removed: Sequence[str], added: Sequence[DataFile]) -> None:
        raise TableError(f"{self.root}: pyiceberg cannot exchange files; compact it with a catalog")

    def files(self) -> list[DataFile]:
        table = self._opened()
        if table is None:
            return []
        with readable_failures(self.root):
            return [
                DataFile(
                    path=self._folder.name_of(task.file.file_path),
                    rows=task.file.record_count,
                    size_bytes=task.file.file_size_in_bytes,
                    partition={},
                )
                for task in table.scan().plan_files()
            ]

    def _catalog(self) -> Catalog:
        if self._options:
            return load_catalog("emberq", **self._options)
        return load_catalog(
            "emberq",
            type="sql",
            uri=f"sqlite:///{quote(self._catalog_path)}",
            warehouse=self._folder.address_of(""),
        )

    @property
    def _catalog_path(self) -> str:
        if not self._folder.is_local:
            raise TableError(f"{self.root}: an Iceberg table in an object store needs a catalog")
        return self._folder.path_of(_CATALOG)

    def _opened(self) -> PyIcebergTable | None:
        # Opening a catalog that is not there would make one.
        if not self._options and not Path(self._catalog_path).exists():
            return None
        with readable_failures(self.root):
            try:
                return self._catalog().load_table(self._identifier)
            except NoSuchTableError:
                return None

    def _made(self) -> PyIcebergTable:
        """Partitioned from the first moment on: its spec is in the step that creates it."""
        if not self._options:
            self._folder.make()
        with readable_failures(self.root):
            catalog = self._catalog()
            with suppress(NamespaceAlreadyExistsError):
                catalog.create_namespace(self._identifier.rsplit(".", 1)[0])
            with suppress(TableAlreadyExistsError, CommitFailedException):  # somebody was first
                self._make(catalog)
            return catalog.load_table(self._identifier)

    def _make(self, catalog: Catalog) -> None:
        location = self._folder.address_of("").rstrip("/")
        with (
            catalog.create_table_transaction(self._identifier, self._schema, location) as creation,
            creation.update_spec() as update,
        ):
            for name in self._partition_by:
                update.add_identity(name)


def _schema_of(table: PyIcebergTable) -> pa.Schema:
    return plain(table.schema().as_arrow())


def _partition_columns(table: PyIcebergTable) -> list[str]:
    """Columns whose values partition, and in their place what else does."""
    return [
        table.schema().find_column_name(each.source_id) or each.name
        if isinstance(each.transform, IdentityTransform)
        else f"{each.transform} of {each.name}"
        for each in table.spec().fields
    ]


def _last_batch(table: PyIcebergTable, writer: str) -> int | None:
    """Batches come in order: the newest snapshot of the writer has its highest one, and all that
    there is in tables of early versions."""
    noted = table.properties.get(f"{LAST_BATCH_KEY}{writer}")
    batches = [] if noted is None else [int(noted)]
    for snapshot in reversed(table.snapshots()):
        summary = snapshot.summary
        if summary is not None and summary.additional_properties.get(WRITER_KEY) == writer:
            batches.append(int(summary.additional_properties[BATCH_KEY]))
            break
    return max(batches, default=None)
