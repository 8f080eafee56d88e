"""A Parquet file that is being written: hidden until it is whole, row groups of an even size."""

import os
import uuid
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from emberq.spark.archive.folder import Folder

# Batches are gathered into row groups of about so many bytes in memory.
ROW_GROUP_BYTES = 32 * 1024 * 1024
# Where values hardly ever repeat, building dictionaries of them is work for nothing. Of properties
# the names do, and with the values, keys and ids among them, dictionaries only grow.
_UNIQUE_COLUMNS = frozenset(
    {
        *("queueOffset", "keys", "body", "msgId", "uniqKey", "bodyCrc", "commitLogOffset"),
        "properties.key_value.value",
    }
)
# Columns that no reader looks for by range: their least and greatest values help nobody.
_UNORDERED_COLUMNS = frozenset({"body", "properties", "msgId", "uniqKey", "bodyCrc"})


class ParquetDraft:
    """A file under a hidden name where a rename is cheap and atomic, so that who reads the folder
    never sees half of one. In an object store it appears when it is closed anyway.

    End it with `finish` or `discard`; `discard` after `finish` does nothing.
    """

    def __init__(
        self,
        folder: Folder,
        name: str,
        schema: pa.Schema,
        *,
        compression: str,
        row_group_bytes: int = ROW_GROUP_BYTES,
    ) -> None:
        self.name = name
        self.rows = 0
        self._folder = folder
        self._path = folder.path_of(name)
        self._draft = self._path
        if folder.is_local:
            target = Path(self._path)
            target.parent.mkdir(parents=True, exist_ok=True)
            self._draft = str(target.with_name(f".{target.name}.{uuid.uuid4().hex}"))
        self._schema = schema
        self._sink = folder.filesystem.open_output_stream(self._draft)
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression=compression,
            use_dictionary=_leaves(schema, _UNIQUE_COLUMNS),
            write_statistics=_leaves(schema, _UNORDERED_COLUMNS),
        )
        self._row_group_bytes = row_group_bytes
        self._group: list[pa.RecordBatch] = []
        self._group_bytes = 0
        self._is_ended = False

    @property
    def size_bytes(self) -> int:
        """Of what is written; the group that is being gathered is not in it."""
        return int(self._sink.tell())

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self._group.append(batch)
        self._group_bytes += batch.nbytes
        if self._group_bytes >= self._row_group_bytes:
            self._write_group()

    def _write_group(self) -> None:
        if self._group:
            rows = pa.Table.from_batches(self._group, self._schema)
            self._writer.write_table(rows, row_group_size=rows.num_rows)
            self._group, self._group_bytes = [], 0

    def finish(self) -> int:
        """Put the file under its name; returns its size in bytes."""
        self._write_group()
        self._writer.close()
        size_bytes = self.size_bytes
        self._sink.close()
        if self._draft != self._path:
            os.replace(self._draft, self._path)  # noqa: PTH105 - both are text already
        self._is_ended = True
        return size_bytes

    def discard(self) -> None:
        """After a failure: nothing half-written stays."""
        if self._is_ended:
            return
        self._is_ended = True
        # On a full disk both fail once more, and the failure that was first counts.
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        with suppress(OSError, pa.ArrowException):
            self._sink.close()
        with suppress(FileNotFoundError):
            self._folder.filesystem.delete_file(self._draft)


def _leaves(schema: pa.Schema, left_out: frozenset[str]) -> list[str]:
    """The columns of a file without some, as Parquet calls them."""
    leaves: list[str] = []
    for field in schema:
        if field.name in left_out:
            continue
        if pa.types.is_map(field.type):
            leaves += [f"{field.name}.key_value.{each}" for each in ("key", "value")]
        else:
            leaves.append(field.name)
    return [leaf for leaf in leaves if leaf not in left_out]
