"""Subscriptions as clients write them: tags joined by `||`, or the text of another filter."""

from emberq.errors import FilterError
from emberq.model.subscription import SQL92_EXPRESSION, TAG_EXPRESSION, Subscription
from emberq.record.string_hash import tag_code

ALL_TAGS = "*"
SEPARATOR = "||"
# Tags in one expression; a header has room for more than anybody tells apart.
TAGS_MAX = 10_000


def is_tag_type(expression_type: str | None) -> bool:
    return not expression_type or expression_type == TAG_EXPRESSION


def parse_tags(expression: str | None, topic: str | None = None, version: int = 0) -> Subscription:
    """The subscription that a tag expression means; nothing at all means every tag.

    Raises:
        FilterError: nothing but separators, or more tags than anybody needs.
    """
    if not expression or expression == ALL_TAGS:
        return Subscription(topic=topic, expression=ALL_TAGS, version=version)
    parts = expression.split(SEPARATOR)
    if not any(parts):
        raise FilterError(f"no tag in {expression!r}")
    if len(parts) > TAGS_MAX:
        raise FilterError(f"{len(parts)} tags, the limit is {TAGS_MAX}")
    # Java's trim: blanks and control characters.
    trimmed = (part.strip(_TRIMMED) for part in parts)
    tags = list(dict.fromkeys(filter(None, trimmed)))
    return Subscription(
        topic=topic,
        expression=expression,
        tags=tags,
        tag_codes=list(dict.fromkeys(map(tag_code, tags))),
        version=version,
    )


def parse_subscription(
    expression: str | None, expression_type: str | None, topic: str, version: int = 0
) -> Subscription:
    """The subscription that a pull carries; an SQL text is not compiled here.

    Raises:
        FilterError: it makes no sense, or it is of no known type.
    """
    if expression_type is None or expression_type == TAG_EXPRESSION:
        return parse_tags(expression, topic, version)
    if not expression:
        raise FilterError(f"an expression of type {expression_type} cannot be empty")
    if expression_type not in ("", SQL92_EXPRESSION):
        raise FilterError(f"unknown expression type {expression_type}")
    return Subscription(
        topic=topic, expression=expression, expression_type=expression_type, version=version
    )


_TRIMMED = "".join(map(chr, range(0x21)))
