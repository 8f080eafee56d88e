"""Iceberg tables are partitioned from the first moment on."""

from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table as PyIcebergTable
from pyiceberg.table.update.spec import UpdateSpec

from emberq.errors import ConfigError
from emberq.pipelines.tables.iceberg import IcebergTable
from tests.unit.pipelines.tables.lake import opened, written


def test_a_creation_that_is_cut_short_leaves_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    table = opened("iceberg", tmp_path)
    monkeypatch.setattr(UpdateSpec, "add_identity", killed)
    with pytest.raises(KeyboardInterrupt):
        table.append("query", 0, [written(tmp_path, 0, keeps_partition_columns=True)])
    monkeypatch.undo()

    assert table.schema() is None
    assert table.append("query", 0, [written(tmp_path, 0, keeps_partition_columns=True)])
    table.check()


def test_a_table_without_the_partitions_is_refused(tmp_path: Path) -> None:
    """As a crash of an early version left it."""
    table = opened("iceberg", tmp_path)
    assert isinstance(table, IcebergTable)
    catalog: Catalog = table._catalog()
    catalog.create_namespace("emberq")
    made: PyIcebergTable = catalog.create_table("emberq.messages", table._schema)

    assert made.spec().is_unpartitioned()
    with pytest.raises(ConfigError, match="is partitioned by none, not by topic,date"):
        table.check()
