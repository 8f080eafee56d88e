"""What a task makes of what was asked for: names in any case, filtered views, bounded batches."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from emberq.model.queue import MessageQueue
from emberq.spark.columns import Column, check_schema, chosen_columns
from emberq.spark.options import SourceOptions, parse_source
from emberq.spark.planning import QueueSlice
from emberq.spark.reading import read_slices
from emberq.spark.store_place import BROKER_NAME
from tests.unit.spark.store_files import TOPIC, write_store

QUEUE = MessageQueue(BROKER_NAME, 0, TOPIC)


def options_of(root: Path, **options: str) -> SourceOptions:
    return parse_source({"subscribe": TOPIC, "store": str(root), **options})


def read(options: SourceOptions, columns: list[Column], count: int) -> Any:
    """All rows as a table, which has the names of the batches."""
    return pa.Table.from_batches(read_slices((QueueSlice(QUEUE, 0, count),), columns, options))


@pytest.mark.parametrize("decoder", ["auto", "vector", "scalar"])
def test_rows_have_the_names_of_the_schema_which_may_be_in_any_case(
    tmp_path: Path, decoder: str
) -> None:
    write_store(tmp_path, [b"one", b"two"], tags=("red", "blue"))
    fields = [("Body", "string"), ("queueoffset", "bigint"), ("TAGS", "string")]
    fields += [("Properties", "map<string,string>"), ("storetimestamp", "timestamp")]
    options = options_of(tmp_path, decoder=decoder)

    found = read(options, check_schema(fields, options), 2)

    assert found.schema.names == [name for name, _ in fields]
    assert found.select(["Body", "queueoffset", "TAGS", "Properties"]).to_pylist() == [
        {"Body": "one", "queueoffset": 0, "TAGS": "red", "Properties": [("TAGS", "red")]},
        {"Body": "two", "queueoffset": 1, "TAGS": "blue", "Properties": [("TAGS", "blue")]},
    ]


@pytest.mark.parametrize(
    ("view", "fields", "row"),
    [
        ("index", [("QueueOffset", "bigint"), ("TOPIC", "string")], (0, TOPIC)),
        ("offsets", [("MAXOFFSET", "bigint"), ("queueid", "int")], (1, 0)),
    ],
)
def test_the_same_holds_for_other_views(
    tmp_path: Path, view: str, fields: list[tuple[str, str]], row: tuple[Any, ...]
) -> None:
    write_store(tmp_path, [b"one"])
    options = options_of(tmp_path, view=view)

    found = read(options, check_schema(fields, options), 1)

    assert found.to_pylist() == [dict(zip([name for name, _ in fields], row, strict=True))]


@pytest.mark.parametrize("columns", ["queueOffset,tagsHash", "queueOffset,tagsHash,storeTimestamp"])
def test_an_index_of_some_tags_has_the_entries_of_their_messages(
    tmp_path: Path, columns: str
) -> None:
    # The last two have the same hash.
    write_store(tmp_path, [b"x"] * 6, tags=("red", "Aa", "BB"))
    options = options_of(tmp_path, view="index", tags="red || Aa", columns=columns)

    found = read(options, chosen_columns(options), 6)

    assert found.column("queueOffset").to_pylist() == [0, 1, 3, 4]
    assert found.column("tagsHash").to_pylist() == [112785, 2112, 112785, 2112]


@pytest.mark.parametrize("decoder", ["auto", "scalar"])
def test_batches_have_no_more_bytes_than_they_may(tmp_path: Path, decoder: str) -> None:
    write_store(tmp_path, [bytes(1_000)] * 100 + [bytes(9_000)] + [b"x"] * 100)
    options = options_of(tmp_path, batchBytes="4k", decoder=decoder)
    columns = chosen_columns(options)

    batches = list(read_slices((QueueSlice(QUEUE, 0, 201),), columns, options))

    sizes = {batch.num_rows: batch.nbytes for batch in batches if batch.num_rows > 1}
    assert max(sizes.values()) <= 4096
    assert max(batch.nbytes for batch in batches) > 9_000  # a single row
    assert max(sizes) > 10  # small rows are together
    made = pa.Table.from_batches(batches).column("queueOffset").to_pylist()
    assert made == list(range(201))
