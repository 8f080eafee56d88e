"""Options of SQL tables, which stand for both: what the source, and what the sink makes of them.

Pure.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from emberq.errors import ConfigError
from emberq.spark.option_table import CONNECTION, SINK, SOURCE, Option
from emberq.spark.option_values import OF_TABLES

# Spark 4.3 gives the options of a table to `schema` and to nobody else. So they travel with the
# schema, which the catalogue keeps, as metadata of a column.
_KEY = "emberq.options"
_CREDENTIALS = {"accesskey", "secretkey"}
# What only a query of its own says: it is none of a table.
_OF_OTHER_READS = {"subscribe", "subscribepattern", "assign", "store", "path"}
_OF_OTHER_WRITES = {"nameserver", "endpoints", "path"}

Metadata = Mapping[str, Mapping[str, Any] | None]


def is_table(given: Mapping[str, str]) -> bool:
    return any(key.lower().startswith(OF_TABLES) for key in given)


def as_metadata(given: Mapping[str, str]) -> dict[str, str]:
    """Raises ConfigError for what must not lie in every file that is made of the table."""
    kept = {key: text for key, text in given.items() if key.lower().startswith(OF_TABLES)}
    if any(_bare(key) in _CREDENTIALS for key in kept):
        raise ConfigError(
            "accessKey and secretKey are no options of a table, which Spark keeps in every file "
            "that is made of it: set EMBERQ_ACCESS_KEY and EMBERQ_SECRET_KEY, or give them to "
            "each query"
        )
    return {_KEY: json.dumps(kept)}


def carrier(columns: Sequence[str], read_only: Collection[str]) -> str:
    """The column that takes the metadata: one that is read only, if there is one.

    Spark hands metadata on with a column's rows, so they may say another table than the one that
    is written. Rows have no value in a column that is read only, unless they come from there.
    """
    return next((name for name in columns if name in read_only), columns[0])


def of_read(metadata: Metadata, given: Mapping[str, str]) -> dict[str, str]:
    """The options that the columns of a schema keep; none if the query names its own topics."""
    return {} if _names_one_of(given, _OF_OTHER_READS) else _kept(metadata.values())


def of_write(
    metadata: Metadata, given: Mapping[str, str], read_only: Collection[str]
) -> dict[str, str]:
    """The same of a schema that is written; none if the query names its own cluster."""
    if _names_one_of(given, _OF_OTHER_WRITES):
        return {}
    return _kept(metadata[name] for name in read_only)


def check_is_told(metadata: Metadata, given: Mapping[str, str], read_only: Collection[str]) -> None:
    """Raises ConfigError for what an INSERT looks like whose table nobody can tell."""
    if given:
        return
    if read_only:
        raise ConfigError(
            "Spark does not say which table this is: name the columns that rows have, as in "
            "INSERT INTO t (body, tags) …, without those that say where a message stands"
        )
    if _kept(metadata.values()):
        raise ConfigError(
            "Spark does not say which table this is: one that is written needs a column that says "
            "where a message stands, such as queueOffset, in its option columns"
        )


def for_reading(given: Mapping[str, str]) -> dict[str, str]:
    """Without those that only the sink knows."""
    return _without(given, _names(SINK) - _names(SOURCE))


def for_writing(given: Mapping[str, str]) -> dict[str, str]:
    """Without those that only the source knows; rows go to the topic that the table reads, if it
    is one. Raises ConfigError."""
    bare = {_bare(key): text for key, text in given.items()}
    view = bare.get("view", "messages")
    if view.lower() != "messages":
        raise ConfigError(f"a table of the view {view} cannot be written")
    kept = _without(given, _names(SOURCE) - _names(SINK))
    topics = [topic.strip() for topic in bare.get("subscribe", "").split(",")]
    if len(topics) == 1 and topics[0] and not bare.get("topic"):
        kept["topic"] = topics[0]
    return kept


def _kept(columns: Iterable[Mapping[str, Any] | None]) -> dict[str, str]:
    for metadata in columns:
        if metadata and _KEY in metadata:
            found: dict[str, str] = json.loads(metadata[_KEY])
            return found
    return {}


def _names_one_of(given: Mapping[str, str], names: Collection[str]) -> bool:
    return any(key.lower() in names and text for key, text in given.items())


def _without(given: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {key: text for key, text in given.items() if _bare(key) not in names}


def _names(options: Sequence[Option]) -> set[str]:
    return {option.name.lower() for option in (*CONNECTION, *options)}


def _bare(key: str) -> str:
    return key.lower().removeprefix(OF_TABLES)
