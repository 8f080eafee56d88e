"""Options of the sink, and the columns that it takes. Pure."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from emberq.client.core.outgoing import MESSAGE_SIZE_MAX_BYTES
from emberq.config_file import nearest
from emberq.errors import ConfigError
from emberq.protocol.frame import FRAME_SIZE_MAX_BYTES
from emberq.spark.columns import BINARY, INT, LONG, MAP, STRING, TIMESTAMP
from emberq.spark.option_table import CONNECTION, SINK
from emberq.spark.option_values import OptionTexts
from emberq.spark.options import (
    OF_SPARK,
    ConnectionOptions,
    parse_broker_wait,
    parse_connection,
)

_SINK_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

# What a request may have in a frame that all brokers take: headers need far less than is left.
SEND_MAX_BYTES = FRAME_SIZE_MAX_BYTES - (1 << 20)

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
    "id": (STRING,),
    "delayLevel": (INT, LONG),
    "deliverAt": (TIMESTAMP,),
    "flag": (INT,),
}


class Delivered(StrEnum):
    """How often a message of a batch arrives; docs/concepts/spark-guarantees.md."""

    AT_LEAST_ONCE = "at-least-once"
    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"


class SinkOptions(Struct, frozen=True, kw_only=True):
    connection: ConnectionOptions
    topic: str | None
    producer_group: str
    timeout_s: float
    # Of a request, or of one row's body.
    send_max_bytes: int
    retries: int
    broker_wait_s: float
    has_ids: bool
    delivery: Delivered
    # What repeated batch writes are known by; None: each is a new one.
    sink_id: str | None
    # Those that messages go to, all of which must be there; empty: those that are there.
    brokers: tuple[str, ...]


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
    delivery = Delivered(texts.choice("delivery", tuple(Delivered), Delivered.AT_LEAST_ONCE))
    sink_id = texts.get("sinkId")
    if sink_id is not None and delivery is Delivered.AT_LEAST_ONCE:
        raise ConfigError("sinkId has no meaning with delivery=at-least-once")
    brokers = _names(texts.get("brokers"))
    if brokers and delivery is Delivered.AT_LEAST_ONCE:
        raise ConfigError("brokers has no meaning with delivery=at-least-once")
    if delivery is Delivered.IDEMPOTENT and not texts.flag("ids", True):
        raise ConfigError("delivery=idempotent needs ids=true")
    if sink_id is not None and _SINK_ID.fullmatch(sink_id) is None:
        raise ConfigError(f"sinkId={sink_id!r}: expected 1 to 64 letters, digits, . _ or -")
    return SinkOptions(
        connection=parse_connection(texts),
        topic=topic or path,
        producer_group=texts.get("producerGroup") or "emberq-spark",
        timeout_s=(texts.count("send.timeoutMs", 10_000) or 0) / 1000,
        send_max_bytes=_send_max_bytes(texts),
        retries=texts.count("retries", 5, 0) or 0,
        broker_wait_s=parse_broker_wait(texts),
        has_ids=texts.flag("ids", True),
        delivery=delivery,
        sink_id=sink_id,
        brokers=brokers,
    )


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _send_max_bytes(texts: OptionTexts) -> int:
    """Raises ConfigError."""
    size_bytes = texts.size("send.maxBytes", MESSAGE_SIZE_MAX_BYTES) or 0
    if size_bytes > SEND_MAX_BYTES:
        raise ConfigError(
            f"send.maxBytes={texts.get('send.maxBytes')!r}: expected at most "
            f"{SEND_MAX_BYTES >> 20}m, as no request may have more than "
            f"{FRAME_SIZE_MAX_BYTES >> 20}m with all that is around it"
        )
    return size_bytes


def is_sink_column(name: str, kind: str) -> bool:
    """Of a table: whether rows may have values there; other columns say where messages stand."""
    return kind in SINK_COLUMNS.get(name, ())


def check_sink_columns(fields: Sequence[tuple[str, str]], options: SinkOptions) -> None:
    """What a frame's columns, as `(name, type)`, must be. Raises ConfigError."""
    names = [name for name, _ in fields]
    for name, kind in fields:
        kinds = SINK_COLUMNS.get(name)
        if kinds is None:
            near = nearest(name, SINK_COLUMNS)
            hint = f"did you mean {near}?" if near else f"it takes {', '.join(SINK_COLUMNS)}"
            raise ConfigError(f"the sink knows no column {name!r}: {hint}")
        if kind not in kinds:
            raise ConfigError(f"column {name} is {kind}; the sink takes {' or '.join(kinds)}")
    if ("body" in names) == ("value" in names):
        raise ConfigError("a message needs a column body, or value, not both")
    if "topic" not in names and options.topic is None:
        raise ConfigError("give the option topic, or a column topic")
    is_plain = options.delivery is Delivered.AT_LEAST_ONCE
    if not is_plain and {"deliverAt", "delayLevel"} & set(names):
        raise ConfigError(f"delivery={options.delivery} cannot delay messages")
    if "deliverAt" in names and "delayLevel" in names:
        raise ConfigError("deliverAt and delayLevel exclude each other")
