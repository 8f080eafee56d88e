"""Options of the source as one checked value, which is what travels to executors. Pure."""

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from emberq.errors import ConfigError
from emberq.model.queue import MessageQueue
from emberq.model.subscription import SQL92_EXPRESSION, TAG_EXPRESSION
from emberq.spark.archive.addresses import absolute
from emberq.spark.archive.layout import COMPRESSIONS, FILE_SIZE_BYTES, ArchiveLayout
from emberq.spark.offsets import Offsets, read_offsets
from emberq.spark.option_table import CONNECTION, SOURCE
from emberq.spark.option_values import OptionTexts, parse_time_ms

MIB = 1 << 20
BROKER_WAIT_MS = 60_000
# Twice what is decoded together, so that what one pull brings usually goes on uncut.
BATCH_BYTES = 4 * MIB
EARLIEST, LATEST, GROUP = "earliest", "latest", "group"
VIEWS = ("messages", "index", "offsets", "groups", "archive")
SCANS = ("rpc", "local", "auto")
_OF_QUEUES = ("offsets", "groups")  # views that read no message
STARTS = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
ENDS = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
# What Spark itself adds to the options of tables and views.
OF_SPARK = (
    *("path", "provider", "location", "owner", "comment", "collation", "external"),
    *("is_managed_location", "serialization.format", "transient_lastddltime"),
)


class ConnectionOptions(Struct, frozen=True, kw_only=True):
    """What decides which client serves; equal ones share a client per process."""

    name_server: str | None = None
    access_key: str = ""
    secret_key: str = ""
    is_tls: bool = False
    namespace: str | None = None


class Position(Struct, frozen=True, kw_only=True):
    """Where to begin or to end: exactly one of these, offsets being exceptions to `word`."""

    word: str | None = None
    offsets: Offsets | None = None
    time_ms: int | None = None
    # By topic, or by topic and queue "broker/id".
    times_ms: dict[str, int] | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether another run would find the same place."""
        if self.offsets is not None:
            return all(offset != -1 for offset in self.offsets.values())
        return self.word not in (LATEST, GROUP)


class TriggerLimits(Struct, frozen=True, kw_only=True):
    """How much one micro-batch reads."""

    rows_max: int | None = None
    rows_min: int | None = None
    bytes_max: int | None = None
    delay_max_s: float = 900.0


class PartitionLimits(Struct, frozen=True, kw_only=True):
    """How much one task reads."""

    count_min: int | None = None
    rows_max: int | None = None
    bytes_max: int = 256 * MIB


class PullOptions(Struct, frozen=True, kw_only=True):
    bytes_max: int = 2 * MIB
    prefetch: int = 2
    timeout_s: float = 15.0
    retries: int = 5


_PULL = PullOptions()


class DecodeOptions(Struct, frozen=True, kw_only=True):
    """How rows look; the columns themselves come with the schema."""

    properties: str = "map"
    body_as: str = "binary"
    is_decompressed: bool = True
    batch_rows: int = 10_000
    batch_bytes: int = BATCH_BYTES
    decoder: str = "auto"
    tags: tuple[str, ...] = ()
    fails_on_damage: bool = True


class SourceOptions(Struct, frozen=True, kw_only=True):
    connection: ConnectionOptions
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    queues: tuple[MessageQueue, ...] = ()
    view: str = "messages"
    start: Position | None = None
    is_missing_time_error: bool = False
    end: Position = Position(word=LATEST)
    group: str | None = None
    commit: str = "source"
    trigger: TriggerLimits = TriggerLimits()
    partition: PartitionLimits = PartitionLimits()
    columns: tuple[str, ...] | None = None
    has_body: bool = True
    decode: DecodeOptions = DecodeOptions()
    expression: str = "*"
    expression_type: str = TAG_EXPRESSION
    fails_on_loss: bool = True
    scan: str = "rpc"
    store: str | None = None
    pull: PullOptions = PullOptions()
    idle_poll_s: float = 0.2
    broker_wait_s: float = BROKER_WAIT_MS / 1000
    transform: str | None = None
    archive: ArchiveLayout | None = None


def parse_connection(texts: OptionTexts) -> ConnectionOptions:
    access, secret = texts.get("accessKey"), texts.get("secretKey")
    if (access is None) != (secret is None):
        raise ConfigError("accessKey and secretKey belong together")
    return ConnectionOptions(
        name_server=texts.get("nameServer") or texts.get("endpoints"),
        access_key=access or "",
        secret_key=secret or "",
        is_tls=texts.flag("tls", False),
        namespace=texts.get("namespace"),
    )


def parse_broker_wait(texts: OptionTexts) -> float:
    """In seconds."""
    return (texts.count("brokerWaitMs", BROKER_WAIT_MS, 0) or 0) / 1000


def parse_source(given: Mapping[str, str]) -> SourceOptions:
    """Raises ConfigError, which names the option and what it may be."""
    texts = _texts(given)
    path = next((text for key, text in given.items() if key.lower() == "path" and text), None)
    topics, pattern, queues = _what_to_read(texts, path)
    fails_on_loss = texts.flag("failOnDataLoss", True)
    view = texts.choice("view", VIEWS, "messages")
    tags, sql = _filter(texts, view)
    return SourceOptions(
        connection=parse_connection(texts),
        topics=topics,
        pattern=pattern,
        queues=queues,
        view=view,
        start=_start(texts),
        is_missing_time_error=texts.choice(
            "startingOffsetsByTimestampStrategy", ("latest", "error"), "latest"
        )
        == "error",
        end=_end(texts),
        group=texts.get("consumerGroup"),
        commit=texts.choice("commitOffsets", ("source", "listener", "none"), "source"),
        trigger=TriggerLimits(
            rows_max=texts.count("maxOffsetsPerTrigger"),
            rows_min=texts.count("minOffsetsPerTrigger"),
            bytes_max=texts.size("maxBytesPerTrigger"),
            delay_max_s=texts.seconds("maxTriggerDelay", 900.0),
        ),
        partition=PartitionLimits(
            count_min=texts.count("minPartitions"),
            rows_max=texts.count("maxRecordsPerPartition"),
            bytes_max=texts.size("maxBytesPerPartition") or 256 * MIB,
        ),
        columns=_names(texts.get("columns")) or None,
        has_body=texts.flag("includeBody", True),
        decode=_decode(texts, _tag_names(tags), fails_on_loss),
        expression=sql or tags or "*",
        expression_type=TAG_EXPRESSION if sql is None else SQL92_EXPRESSION,
        fails_on_loss=fails_on_loss,
        scan=_scan(texts, sql),
        store=texts.get("store"),
        pull=PullOptions(
            bytes_max=texts.size("pull.maxBytes") or _PULL.bytes_max,
            prefetch=texts.count("pull.prefetch") or _PULL.prefetch,
            timeout_s=(texts.count("pull.timeoutMs") or 1000 * _PULL.timeout_s) / 1000,
            retries=texts.count("retries", _PULL.retries, 0) or 0,
        ),
        idle_poll_s=(texts.count("idlePollMs", 200) or 0) / 1000,
        broker_wait_s=parse_broker_wait(texts),
        transform=_transform(texts, view),
        archive=_archive(texts, view),
    )


def parse_stream(given: Mapping[str, str]) -> SourceOptions:
    """The same of a stream, which has no end. Raises ConfigError."""
    ends = _texts(given).all_given(*ENDS)
    if ends:
        raise ConfigError(
            f"{' and '.join(ends)}: a stream has no end; read a batch, or all that is there by "
            "trigger(availableNow=True)"
        )
    return parse_source(given)


def _texts(given: Mapping[str, str]) -> OptionTexts:
    return OptionTexts(given, [option.name for option in (*CONNECTION, *SOURCE)], OF_SPARK)


def _filter(texts: OptionTexts, view: str) -> tuple[str | None, str | None]:
    """Tags or an SQL expression; neither: all messages are wanted."""
    given = texts.all_given("tags", "sqlFilter")
    if len(given) > 1:
        raise ConfigError("tags and sqlFilter exclude each other")
    tags = texts.get("tags")
    if tags == "*":
        return None, None
    if given and view in _OF_QUEUES:
        raise ConfigError(
            f"{given[0]} chooses messages, and the view {view} is of whole queues: view=index has "
            "a row for each message"
        )
    return tags, texts.get("sqlFilter")


def _scan(texts: OptionTexts, sql: str | None) -> str:
    """Only brokers know what an SQL expression means."""
    scan = texts.choice("scan", SCANS, "rpc")
    if sql is None:
        return scan
    if texts.get("store") is not None:
        raise ConfigError("sqlFilter works at a broker; a store directory has none")
    if scan == "local":
        raise ConfigError("sqlFilter works at a broker, and scan=local reads files: use scan=auto")
    return "rpc"


def _what_to_read(
    texts: OptionTexts, path: str | None
) -> tuple[tuple[str, ...], str | None, tuple[MessageQueue, ...]]:
    given = texts.all_given("subscribe", "subscribePattern", "assign")
    if path is not None:
        given.append("load(…)")
    if len(given) != 1:
        said = " and ".join(given) if given else "none of them"
        raise ConfigError(f"give subscribe, subscribePattern or assign: there is {said}")
    pattern, assigned = texts.get("subscribePattern"), texts.get("assign")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"subscribePattern={pattern!r}: {error}") from None
        return (), pattern, ()
    if assigned is not None:
        return (), None, _assigned(assigned)
    topics = _names(texts.get("subscribe") or path)
    if not topics:
        raise ConfigError("subscribe names no topic")
    return topics, None, ()


def _assigned(text: str) -> tuple[MessageQueue, ...]:
    try:
        table = msgspec.json.decode(text, type=dict[str, dict[str, list[int]]])
    except msgspec.DecodeError as error:
        raise ConfigError(
            f'assign={text!r}: expected {{"topic": {{"broker": [0, 1]}}}}: {error}'
        ) from None
    queues = {
        MessageQueue(broker, queue_id, topic)
        for topic, brokers in table.items()
        for broker, ids in brokers.items()
        for queue_id in ids
    }
    if not queues:
        raise ConfigError("assign names no queue")
    return tuple(sorted(queues))


def _start(texts: OptionTexts) -> Position | None:
    given = _only_one(texts, STARTS)
    if given is None:
        return None
    start = _position(texts, given, (EARLIEST, LATEST, GROUP))
    if start.word == GROUP and texts.get("consumerGroup") is None:
        raise ConfigError(f"{given}={GROUP} needs consumerGroup, whose offsets are meant")
    return start


def _end(texts: OptionTexts) -> Position:
    given = _only_one(texts, ENDS)
    return Position(word=LATEST) if given is None else _position(texts, given, (LATEST,))


def _only_one(texts: OptionTexts, names: tuple[str, ...]) -> str | None:
    given = texts.all_given(*names)
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} exclude each other")
    return given[0] if given else None


def _position(texts: OptionTexts, name: str, words: tuple[str, ...]) -> Position:
    text = texts.get(name) or ""
    if name.endswith("ByTimestamp"):
        return Position(times_ms=_times(name, text))
    if name.endswith("Timestamp"):
        return Position(time_ms=parse_time_ms(name, text))
    if text.lower() in words:
        return Position(word=text.lower())
    if not text.startswith("{"):
        raise ConfigError(f"{name}={text!r}: expected {', '.join(words)} or JSON")
    try:
        return Position(offsets=read_offsets(msgspec.json.decode(text)))
    except (msgspec.DecodeError, ConfigError) as error:
        raise ConfigError(f"{name}={text!r}: {error}") from None


def _times(name: str, text: str) -> dict[str, int]:
    """`{"topic": MS}` or `{"topic": {"broker": {"0": MS}}}`."""
    try:
        table = msgspec.json.decode(text, type=dict[str, int | str | dict[str, dict[str, int]]])
    except msgspec.DecodeError as error:
        raise ConfigError(f"{name}={text!r}: {error}") from None
    times: dict[str, int] = {}
    for topic, value in table.items():
        if isinstance(value, dict):
            for broker, queues in value.items():
                times |= {f"{topic} {broker}/{number}": ms for number, ms in queues.items()}
        else:
            times[topic] = parse_time_ms(name, str(value))
    return times


def _decode(texts: OptionTexts, tags: tuple[str, ...], fails_on_loss: bool) -> DecodeOptions:
    return DecodeOptions(
        properties=texts.choice("properties", ("map", "string", "none"), "map"),
        body_as=texts.choice("bodyAs", ("binary", "string"), "binary"),
        is_decompressed=texts.flag("decompress", True),
        batch_rows=texts.count("batchRows", 10_000) or 10_000,
        batch_bytes=texts.size("batchBytes") or BATCH_BYTES,
        decoder=texts.choice("decoder", ("auto", "vector", "scalar"), "auto"),
        tags=tags,
        fails_on_damage=fails_on_loss,
    )


def _tag_names(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    tags = tuple(tag.strip() for tag in text.split("||") if tag.strip())
    if not tags:
        raise ConfigError(f"tags={text!r}: expected `a || b`")
    return tags


def _names(text: str | None) -> tuple[str, ...]:
    names = [name.strip() for name in (text or "").split(",")]
    return tuple(dict.fromkeys(name for name in names if name))


def _transform(texts: OptionTexts, view: str) -> str | None:
    text = texts.get("arrowTransform")
    if text is not None and not re.fullmatch(r"[\w.]+:\w+", text):
        raise ConfigError(f"arrowTransform={text!r}: expected module:function")
    if text is not None and view != "messages":
        raise ConfigError(f"arrowTransform has no meaning with view={view}")
    return text


def _archive(texts: OptionTexts, view: str) -> ArchiveLayout | None:
    given = [name for name in texts.names() if name.startswith("archive.")]
    if view != "archive":
        if given:
            raise ConfigError(f"{given[0]} belongs to view=archive")
        return None
    path = texts.get("archive.path")
    if path is None:
        raise ConfigError("view=archive needs archive.path")
    partition_by = texts.get("archive.partitionBy")
    return ArchiveLayout(
        root=absolute(path),  # here: tasks may run in other folders
        writer=texts.get("archive.writer") or "",
        partition_by=("topic", "date") if partition_by is None else _names(partition_by),
        file_size_bytes=texts.size("archive.fileSize") or FILE_SIZE_BYTES,
        compression=texts.choice("archive.compression", COMPRESSIONS, "zstd"),
        keeps_partition_columns=texts.choice("archive.partitionColumns", ("drop", "keep"), "drop")
        == "keep",
    )
