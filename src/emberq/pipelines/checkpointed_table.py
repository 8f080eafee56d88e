"""Which table a checkpoint has positions for: what it has read is in that one only."""

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from emberq.errors import ConfigError
from emberq.pipelines.checkpoints import Checkpoint
from emberq.spark.archive.addresses import is_local, local_path

TABLE_FILE = "emberq-table"


class CheckpointedTable(Struct, frozen=True, kw_only=True):
    """`root` is seen from a checkpoint in the table's folder (`..`): both move together. `catalog`
    is empty for a table that is found by its folder."""

    format: str
    root: str
    catalog: str = ""


def table_of(
    kind: str, root: str, checkpoint: str, catalog: Mapping[str, str] | None = None
) -> CheckpointedTable:
    """What a checkpoint at this address says of a table, which may be in a catalog."""
    if is_local(root):
        root, place = str(local_path(root)), str(local_path(checkpoint))
        if is_local(checkpoint) and place.startswith(f"{root}/"):
            root = os.path.relpath(root, place)
    name = _name_in(catalog) if catalog else ""
    return CheckpointedTable(format=kind, root=root.rstrip("/"), catalog=name)


def _name_in(catalog: Mapping[str, str]) -> str:
    """Which catalog and which table of it, without what is secret in its address."""
    uri = urlsplit(catalog.get("uri", ""))
    uri = uri._replace(netloc=uri.netloc.rpartition("@")[2], query="", fragment="")
    parts = (catalog.get("type", ""), uri.geturl(), catalog.get("table", ""))
    return " ".join(part for part in parts if part)


def check_table(checkpoint: Checkpoint, address: str, table: CheckpointedTable) -> None:
    """Those of before tables were noted go with any.

    Raises:
        ConfigError: it is another table's.
    """
    names = {name.rsplit("/", 1)[-1] for name in checkpoint.names("")}
    if TABLE_FILE not in names:
        return
    try:
        noted = msgspec.json.decode(checkpoint.read(TABLE_FILE), type=CheckpointedTable)
    except msgspec.DecodeError as error:
        raise ConfigError(f"checkpoint {address}: {TABLE_FILE} is damaged: {error}") from error
    if noted != table:
        raise ConfigError(
            f"checkpoint {address} belongs to {_named(noted, address)}, not to "
            f"{_named(table, address)}, which would lack all that was read for the other: "
            f"give another checkpoint. If the table was moved, delete {TABLE_FILE} in this one"
        )


def _named(table: CheckpointedTable, checkpoint: str) -> str:
    root = table.root
    if root.startswith(".."):
        root = os.path.normpath(local_path(checkpoint) / root)
    in_catalog = f" in the catalog {table.catalog}" if table.catalog else ""
    return f"the {table.format} table {root}{in_catalog}"


def note_table(checkpoint: Checkpoint, address: str, table: CheckpointedTable) -> None:
    """Raises ConfigError as `check_table` does."""
    checkpoint.write_new(TABLE_FILE, msgspec.json.encode(table))
    check_table(checkpoint, address, table)
