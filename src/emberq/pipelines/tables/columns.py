"""The columns of a table's files, taken together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from emberq.errors import TableError
from emberq.spark.archive.folder import Folder
from emberq.spark.columns import INT, STRING
from emberq.spark.decode.shape import ARROW_TYPES

# Footers that are read at the same time: in an object store each is a wait.
FOOTERS_TOGETHER = 16
# What paths say as text, and rows as a number.
_NUMBERS = {"queueId": INT}


def unified(parts: Iterable[tuple[str, pa.Schema]]) -> pa.Schema:
    """Every column of any part. Each part comes with its name.

    Raises:
        TableError: a column has different types.
    """
    found: dict[str, tuple[pa.DataType, str]] = {}
    for name, schema in parts:
        for field in schema:
            kind, place = found.setdefault(field.name, (field.type, name))
            if kind != field.type:
                raise TableError(
                    f"column {field.name} is {kind} in {place}, and {field.type} in {name}"
                )
    return pa.schema([(column, kind) for column, (kind, _) in found.items()])


def footers(folder: Folder, names: Sequence[str]) -> Iterator[tuple[str, pa.Schema]]:
    """What files hold by their footers, with their paths. One that is gone holds nothing: who reads
    its rows says so. Raises TableError."""
    with ThreadPoolExecutor(FOOTERS_TOGETHER) as readers:
        found = readers.map(lambda name: _footer(folder, name), names)
        for name, schema in zip(names, found, strict=True):
            if schema is not None:
                yield folder.path_of(name), schema


def _footer(folder: Folder, name: str) -> pa.Schema | None:
    path = folder.path_of(name)
    try:
        with folder.filesystem.open_input_file(path) as stream:
            return pq.read_schema(stream).remove_metadata()
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowInvalid) as error:
        raise TableError(f"{path}: {error}") from error


def with_partitions(columns: pa.Schema, partition_by: Iterable[str]) -> pa.Schema:
    """The columns, then those that only paths hold."""
    for name in partition_by:
        if name not in columns.names:
            columns = columns.append(pa.field(name, ARROW_TYPES[_NUMBERS.get(name, STRING)]))
    return columns


def without(columns: pa.Schema, names: Iterable[str]) -> pa.Schema:
    left_out = set(names)
    return pa.schema([field for field in columns if field.name not in left_out])


def plain(schema: pa.Schema) -> pa.Schema:
    """With the types that archives have, where a table format calls the same ones large."""
    return pa.schema([(field.name, _plain(field.type)) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    return kind


def as_words(schema: pa.Schema) -> dict[str, str] | None:
    """Columns and their types as the log of a Parquet table has them: in Spark's words. None: there
    is one for which it has no word."""
    words = {
        field.name: word
        for field in schema
        for word, kind in ARROW_TYPES.items()
        if field.type == kind
    }
    return words if len(words) == len(schema) else None


def from_words(words: Mapping[str, str]) -> pa.Schema:
    """The reverse of `as_words`. Raises TableError."""
    for name, word in words.items():
        if word not in ARROW_TYPES:
            raise TableError(f"column {name} is {word}, and this version knows no such type")
    return pa.schema([(name, ARROW_TYPES[word]) for name, word in words.items()])
