"""Which messages of a queue a pull gets: a test of the queue's entry, then one of the record."""

from functools import lru_cache

from msgspec import Struct

from emberq.broker.filters.group_filters import GroupFilters
from emberq.broker.filters.sql import SqlFilter, compile_sql
from emberq.errors import RecordError
from emberq.model.subscription import Subscription
from emberq.model.system_topics import RETRY_PREFIX
from emberq.protocol.subscriptions import ALL_TAGS, is_tag_type, parse_subscription
from emberq.record.decode import read_properties
from emberq.record.layout import BytesLike
from emberq.record.properties import decode_properties
from emberq.store.reader import EntryFilter, RecordFilter, tag_filter

# Expressions that pulls carry themselves; compiled ones are kept because each pull repeats its own.
EXPRESSIONS_CACHED_MAX = 1_024
EXPRESSION_LENGTH_CACHED_MAX = 4_096


class MessageFilter(Struct, frozen=True, eq=False):
    """None accepts everything."""

    accepts_entry: EntryFilter | None = None
    accepts_record: RecordFilter | None = None


EVERYTHING = MessageFilter()


class CarriedSubscription(Struct, frozen=True, eq=False):
    """What the subscription in a pull means."""

    subscription: Subscription
    filter: MessageFilter


def carried_subscription(
    expression: str | None, expression_type: str | None, topic: str
) -> CarriedSubscription:
    """Raises FilterError if the expression makes no sense."""
    if expression is not None and len(expression) > EXPRESSION_LENGTH_CACHED_MAX:
        return _carried.__wrapped__(expression, expression_type, topic)
    return _carried(expression, expression_type, topic)


@lru_cache(maxsize=EXPRESSIONS_CACHED_MAX)
def _carried(
    expression: str | None, expression_type: str | None, topic: str
) -> CarriedSubscription:
    subscription = parse_subscription(expression, expression_type, topic)
    if is_tag_type(expression_type):
        return CarriedSubscription(subscription, by_tags(subscription))
    return CarriedSubscription(subscription, by_sql(compile_sql(subscription.expression or "")))


def by_tags(subscription: Subscription) -> MessageFilter:
    if subscription.expression == ALL_TAGS or subscription.is_class_filter:
        return EVERYTHING
    return MessageFilter(accepts_entry=tag_filter(subscription.tag_codes))


def by_sql(sql: SqlFilter) -> MessageFilter:
    def accepts(record: BytesLike) -> bool:
        properties = _properties(record)
        return properties is None or sql.matches(properties)

    return MessageFilter(accepts_record=accepts)


def by_sql_of_origin(
    retry_topic: str, filters: GroupFilters, accepts_entry: EntryFilter | None = None
) -> MessageFilter:
    """For a retry topic: the filter that the group has for the topic a message came from."""
    group = retry_topic.removeprefix(RETRY_PREFIX)

    def accepts(record: BytesLike) -> bool:
        properties = _properties(record)
        if properties is None:
            return True
        found = filters.get(properties.get("RETRY_TOPIC", ""), group)
        return found is None or found.filter.matches(properties)

    return MessageFilter(accepts_entry=accepts_entry, accepts_record=accepts)


def _properties(record: BytesLike) -> dict[str, str] | None:
    """None: it is no record; what reads it will find out and say so."""
    try:
        return decode_properties(read_properties(record))
    except RecordError:
        return None
