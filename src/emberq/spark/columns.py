"""The columns of each view: their types in Spark's words, and which of them come unasked. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from emberq.config_file import nearest
from emberq.errors import ConfigError
from emberq.spark.options import SourceOptions

STRING, BINARY, INT, LONG = "string", "binary", "int", "bigint"
TIMESTAMP, MAP = "timestamp", "map<string,string>"


class Column(Struct, frozen=True, gc=False):
    name: str
    type: str
    is_default: bool = True


MESSAGES = (
    Column("topic", STRING),
    Column("brokerName", STRING),
    Column("queueId", INT),
    Column("queueOffset", LONG),
    Column("keys", STRING),
    Column("tags", STRING),
    Column("body", BINARY),
    Column("bornTimestamp", TIMESTAMP),
    Column("storeTimestamp", TIMESTAMP),
    Column("properties", MAP),
    Column("msgId", STRING, False),
    Column("uniqKey", STRING, False),
    Column("bornHost", STRING, False),
    Column("storeHost", STRING, False),
    Column("flag", INT, False),
    Column("sysFlag", INT, False),
    Column("reconsumeTimes", INT, False),
    Column("bodyCrc", INT, False),
    Column("size", INT, False),
    Column("tagsHash", LONG, False),
    Column("commitLogOffset", LONG, False),
    Column("preparedTransactionOffset", LONG, False),
    Column("deliveryTimestamp", TIMESTAMP, False),
)
INDEX = (
    Column("topic", STRING),
    Column("brokerName", STRING),
    Column("queueId", INT),
    Column("queueOffset", LONG),
    Column("commitLogOffset", LONG),
    Column("size", INT),
    Column("tagsHash", LONG),
    # Entries do not hold it: asked for, the messages themselves are read.
    Column("storeTimestamp", TIMESTAMP, False),
)
OFFSETS = (
    Column("topic", STRING),
    Column("brokerName", STRING),
    Column("queueId", INT),
    Column("minOffset", LONG),
    Column("maxOffset", LONG),
    Column("count", LONG),
    Column("earliestTimestamp", TIMESTAMP),
    Column("latestTimestamp", TIMESTAMP),
    # The sum of all entries of the queue, 20 bytes of each of which are read.
    Column("bytes", LONG, False),
)
GROUPS = (
    Column("consumerGroup", STRING),
    Column("topic", STRING),
    Column("brokerName", STRING),
    Column("queueId", INT),
    Column("committedOffset", LONG),
    Column("maxOffset", LONG),
    Column("lag", LONG),
    Column("pinnedStart", LONG),
)
# Types that a schema may ask for instead.
_ALTERNATIVES = {"body": (STRING, BINARY), "properties": (STRING, MAP)}
# One row per file; `columns` says what the files hold.
ARCHIVE = (
    Column("path", STRING),
    Column("rows", LONG),
    Column("sizeBytes", LONG),
    Column("partition", MAP),
    Column("topic", STRING),
    Column("brokerName", STRING),
    Column("queueId", INT),
    Column("firstOffset", LONG),
    Column("nextOffset", LONG),
)
CATALOGUE = {
    "messages": MESSAGES,
    "index": INDEX,
    "offsets": OFFSETS,
    "groups": GROUPS,
    "archive": ARCHIVE,
}


def chosen_columns(options: SourceOptions) -> list[Column]:
    """The columns that options ask for, in the order they name them. Raises ConfigError."""
    if options.view == "archive":
        return list(ARCHIVE)
    return _asked_for(options.view, options)


def archived_columns(options: SourceOptions) -> list[Column]:
    """What the files of an archive hold. Raises ConfigError."""
    columns = _asked_for("messages", options)
    names = {column.name for column in columns}
    required = ["queueOffset"]
    if options.archive is not None and options.archive.is_timed:
        required.append("storeTimestamp")
    missing = [name for name in required if name not in names]
    if missing:
        raise ConfigError(f"columns of an archive need {' and '.join(missing)}")
    return columns


def _asked_for(view: str, options: SourceOptions) -> list[Column]:
    if options.columns is not None:
        asked = (_typed(find_column(view, name), options) for name in options.columns)
        return list(dict.fromkeys(asked))
    left_out = set() if options.has_body else {"body"}
    if options.decode.properties == "none":
        left_out.add("properties")
    return [
        _typed(column, options)
        for column in CATALOGUE[view]
        if column.is_default and column.name not in left_out
    ]


def find_column(view: str, name: str) -> Column:
    """By name in any case. Raises ConfigError, which names the nearest."""
    by_lower = {column.name.lower(): column for column in CATALOGUE[view]}
    found = by_lower.get(name.lower())
    if found is not None:
        return found
    near = nearest(name, [column.name for column in CATALOGUE[view]])
    hint = f"did you mean {near}?" if near else f"there are {_list(view)}"
    raise ConfigError(f"the view {view} has no column {name!r}: {hint}")


def check_schema(fields: Sequence[tuple[str, str]], options: SourceOptions) -> list[Column]:
    """The columns that a schema asks for, as `(name, type)`; Spark wants batches with the names
    as they are spelt there. Raises ConfigError."""
    columns: list[Column] = []
    spelt: dict[str, str] = {}  # by the catalogue's names
    for name, kind in fields:
        column = _typed(find_column(options.view, name), options)
        if column.name in spelt:
            raise ConfigError(f"{spelt[column.name]} and {name} are the same column")
        spelt[column.name] = name
        if kind in _ALTERNATIVES.get(column.name, ()):
            column = Column(column.name, kind)
        if kind != column.type:
            raise ConfigError(f"column {name} is {column.type}, not {kind}")
        columns.append(Column(name, column.type))
    return columns


def known_columns(view: str, columns: Sequence[Column]) -> Sequence[Column]:
    """The same columns as the catalogue spells them, which is what decoders look up."""
    names = {column.name for column in CATALOGUE[view]}
    if all(column.name in names for column in columns):
        return columns
    return [Column(find_column(view, column.name).name, column.type) for column in columns]


def ddl(columns: Sequence[Column]) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in columns)


def _typed(column: Column, options: SourceOptions) -> Column:
    if column.name == "body" and options.decode.body_as == STRING:
        return Column("body", STRING)
    if column.name == "properties" and options.decode.properties == STRING:
        return Column("properties", STRING)
    return column


def _list(view: str) -> str:
    return ", ".join(column.name for column in CATALOGUE[view])
