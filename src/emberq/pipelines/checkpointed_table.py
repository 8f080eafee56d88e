"""Which table a checkpoint has positions for: what it has read is in that one only."""

import os

import msgspec
from msgspec import Struct

from emberq.errors import ConfigError
from emberq.pipelines.checkpoints import Checkpoint
from emberq.spark.archive.addresses import is_local, local_path

TABLE_FILE = "emberq-table"


class CheckpointedTable(Struct, frozen=True, kw_only=True):
    """`root` is seen from a checkpoint in the table's folder (`..`): both move together."""

    format: str
    root: str


def table_of(kind: str, root: str, checkpoint: str) -> CheckpointedTable:
    """What a checkpoint at this address says of a table."""
    if is_local(root):
        root, place = str(local_path(root)), str(local_path(checkpoint))
        if is_local(checkpoint) and place.startswith(f"{root}/"):
            root = os.path.relpath(root, place)
    return CheckpointedTable(format=kind, root=root.rstrip("/"))


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
    return f"the {table.format} table {root}"


def note_table(checkpoint: Checkpoint, address: str, table: CheckpointedTable) -> None:
    """Raises ConfigError as `check_table` does."""
    checkpoint.write_new(TABLE_FILE, msgspec.json.encode(table))
    check_table(checkpoint, address, table)
