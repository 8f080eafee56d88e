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
# schema, which the catalogue keeps, as metadata of the first column.
_KEY = "emberq.options"


def is_table(given: Mapping[str, str]) -> bool:
    return any(key.lower().startswith(OF_TABLES) for key in given)


def as_metadata(given: Mapping[str, str]) -> dict[str, str]:
    return {_KEY: json.dumps(dict(given))}


def from_metadata(columns: Iterable[Mapping[str, Any] | None]) -> dict[str, str]:
    """What the metadata of a schema's columns keep; empty: it is no table's."""
    for metadata in columns:
        if metadata and _KEY in metadata:
            found: dict[str, str] = json.loads(metadata[_KEY])
            return found
    return {}


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


def _without(given: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {key: text for key, text in given.items() if _bare(key) not in names}


def _names(options: Sequence[Option]) -> set[str]:
    return {option.name.lower() for option in (*CONNECTION, *options)}


def _bare(key: str) -> str:
    return key.lower().removeprefix(OF_TABLES)
