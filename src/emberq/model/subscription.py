"""What a consumer group wants of a topic, and how it wants to consume."""

from enum import StrEnum

from msgspec import Struct, field

TAG_EXPRESSION = "TAG"
SQL92_EXPRESSION = "SQL92"


# The order of the names is part of the wire format: some peers send positions.


class ConsumeType(StrEnum):
    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"  # pull
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"  # push
    CONSUME_POP = "CONSUME_POP"


class MessageModel(StrEnum):
    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"
    LITE_SELECTIVE = "LITE_SELECTIVE"


class ConsumeFromWhere(StrEnum):
    """Where a group starts that has no committed offset; the middle three are old spellings of
    the first."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = (
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    )
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class MessageRequestMode(StrEnum):
    PULL = "PULL"
    POP = "POP"


class Subscription(Struct, frozen=True, kw_only=True):
    """One topic with its filter. `version` is a time: ms from Java clients, ns from Go ones."""

    is_class_filter: bool = field(name="classFilterMode", default=False)
    tag_codes: list[int] = field(name="codeSet", default_factory=list)
    expression_type: str = field(name="expressionType", default=TAG_EXPRESSION)
    expression: str | None = field(name="subString", default=None)
    version: int = field(name="subVersion", default=0)
    tags: list[str] = field(name="tagsSet", default_factory=list)
    topic: str | None = None
