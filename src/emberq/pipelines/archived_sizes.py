"""How large archived messages are, by the files that hold them: none of their rows is read."""

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from emberq.errors import TableError
from emberq.spark.archive.data_file import DataFile
from emberq.spark.archive.folder import Folder

# However many files there are: these, spread evenly, speak for the others.
FOOTERS_MAX = 200
_BODY = "body"
# Parquet writes the length in front of each value.
_LENGTH_BYTES = 4


class ArchivedSizes(Struct, frozen=True):
    """`body_bytes` is that of an average message; None: no file says so."""

    files: int
    bytes: int
    body_bytes: float | None


def archived_sizes(
    root: str, files: Sequence[DataFile], topics: Collection[str] = ()
) -> ArchivedSizes:
    """Of a table's files; with topics, of those that may have messages of them."""
    chosen = [each for each in files if _may_have(each, topics)]
    step = max(1, -(-len(chosen) // FOOTERS_MAX))
    return ArchivedSizes(
        files=len(chosen),
        bytes=sum(each.size_bytes for each in chosen),
        body_bytes=_body_bytes(Folder(root), chosen[::step]),
    )


def _may_have(each: DataFile, topics: Collection[str]) -> bool:
    topic = each.partition.get("topic") or each.topic
    return not topics or not topic or topic in topics


def _body_bytes(folder: Folder, files: Sequence[DataFile]) -> float | None:
    rows = total = 0
    for each in files:
        footer = _footer(folder, each.path)
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            columns = (group.column(place) for place in range(group.num_columns))
            body = next((column for column in columns if column.path_in_schema == _BODY), None)
            if body is not None:
                rows += group.num_rows
                total += max(0, body.total_uncompressed_size - _LENGTH_BYTES * group.num_rows)
    return total / rows if rows else None


def _footer(folder: Folder, name: str) -> pq.FileMetaData:
    path = folder.path_of(name)
    try:
        with folder.filesystem.open_input_file(path) as stream:
            return pq.ParquetFile(stream).metadata
    except (OSError, pa.ArrowInvalid) as error:
        raise TableError(f"{path}: {error}") from error
