"""Options of the sink, and the columns that it takes. Pure."""

import difflib
from collections.abc import Mapping, Sequence

from msgspec import Struct

from emberq.errors import ConfigError
from emberq.spark.columns import BINARY, INT, LONG, MAP, STRING, TIMESTAMP
from emberq.spark.option_table import CONNECTION, SINK
from emberq.spark.option_values import OptionTexts
from emberq.spark.options import OF_SPARK, ConnectionOptions, parse_connection

# Name → types; `value` is another name of `body`.
SINK_COLUMNS: dict[str, tuple[str, ...]] = {
    "body": (BINARY, STRING),
    "value": (BINARY, STRING),
    "topic": (STRING,),
    "keys": (STRING,),
    "tags": (STRING,),
    "properties": (MAP,),
    "queueId": (INT, LONG),
    "shardingKey": (STRING,),
    "delayLevel": (INT, LONG),
    "deliverAt": (TIMESTAMP,),
    "flag": (INT,),
}


class SinkOptions(Struct, frozen=True, kw_only=True):
    connection: ConnectionOptions
    topic: str | None
    producer_group: str
    timeout_s: float
    retries: int
    has_ids: bool


def parse_sink(given: Mapping[str, str]) -> SinkOptions:
    """Raises ConfigError."""
    texts = OptionTexts(
        given,
        [option.name for option in (*CONNECTION, *SINK)],
        (*OF_SPARK, "checkpointLocation", "queryName"),
    )
    path = next((text for key, text in given.items() if key.lower() == "path" and text), None)
    topic = texts.get("topic")
    if topic is not None and path is not None and topic != path:
        raise ConfigError(f"topic={topic!r} and save({path!r}) name different topics")
    return SinkOptions(
        connection=parse_connection(texts),
        topic=topic or path,
        producer_group=texts.get("producerGroup") or "emberq-spark",
        timeout_s=(texts.count("send.timeoutMs", 10_000) or 0) / 1000,
        retries=texts.count("retries", 5, 0) or 0,
        has_ids=texts.flag("ids", True),
    )


def check_sink_columns(fields: Sequence[tuple[str, str]], options: SinkOptions) -> None:
    """What a frame's columns, as `(name, type)`, must be. Raises ConfigError."""
    names = [name for name, _ in fields]
    for name, kind in fields:
        kinds = SINK_COLUMNS.get(name)
        if kinds is None:
            near = difflib.get_close_matches(name, SINK_COLUMNS, 1)
            hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(SINK_COLUMNS)}"
            raise ConfigError(f"the sink knows no column {name!r}: {hint}")
        if kind not in kinds:
            raise ConfigError(f"column {name} is {kind}; the sink takes {' or '.join(kinds)}")
    if ("body" in names) == ("value" in names):
        raise ConfigError("a message needs a column body, or value, not both")
    if "topic" not in names and options.topic is None:
        raise ConfigError("give the option topic, or a column topic")
    if "deliverAt" in names and "delayLevel" in names:
        raise ConfigError("deliverAt and delayLevel exclude each other")
