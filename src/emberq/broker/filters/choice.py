"""The filter of a pull: from its own subscription or from the group's last heartbeat, or why there
is none."""

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from emberq.broker.config import BrokerConfig
from emberq.broker.faq import FAQ_HINT
from emberq.broker.filters.group_filters import GroupFilters
from emberq.broker.filters.message_filter import (
    MessageFilter,
    by_sql,
    by_sql_of_origin,
    by_tags,
    carried_subscription,
)
from emberq.broker.filters.sql import SqlFilter
from emberq.broker.groups import Groups
from emberq.broker.members import ConsumerGroup, Consumers
from emberq.broker.pull_request import HAS_SUBSCRIPTION, Pull
from emberq.errors import FilterError, RequestRejected
from emberq.model.group import GroupConfig
from emberq.model.subscription import MessageModel, Subscription
from emberq.model.system_topics import is_retry_topic
from emberq.protocol.codes import ResponseCode
from emberq.protocol.subscriptions import is_tag_type

# Filters of heartbeats that are kept made; above it all are made anew.
KEPT_MAX = 100_000
# The bit of what is forbidden to a group that means reading.
READ_INDEX = 2

FORBIDDEN_BROADCAST, FORBIDDEN_SUBSCRIPTION = "4", "5"


class _Kept(Struct, frozen=True, gc=False):
    """A filter, and what it was made of: another object means another filter."""

    subscription: Subscription
    sql: SqlFilter | None
    filter: MessageFilter


class Chosen(NamedTuple):
    """A filter, and how long it is the right one."""

    filter: MessageFilter
    online: ConsumerGroup | None = None  # as long as this is the group, in its present revision
    is_lasting: bool = True  # or for this pull only


class FilterChoice:
    def __init__(
        self,
        *,
        consumers: Consumers,
        groups: Groups,
        filters: GroupFilters,
        config: Callable[[], BrokerConfig],
        now_ms: Callable[[], int],
    ) -> None:
        self._consumers = consumers
        self._groups = groups
        self._filters = filters
        self._config = config
        self._now_ms = now_ms
        self._kept: dict[tuple[str, str], _Kept] = {}

    def is_unchanged(self, group: str, online: ConsumerGroup, revision: int) -> bool:
        return self._consumers.get(group) is online and online.revision == revision

    def choose(self, pull: Pull, group: GroupConfig) -> Chosen:
        """Raises RequestRejected with the official code and remark."""
        if pull.flag & HAS_SUBSCRIPTION:
            return self._carried(pull)
        online = self._consumers.get(pull.group)
        if online is None:
            raise _refusal(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's group info not exist{FAQ_HINT}",
            )
        self._check_permission(pull, group, online)
        subscription = online.subscriptions.get(pull.topic)
        if subscription is None:
            raise _refusal(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's subscription not exist{FAQ_HINT}",
            )
        if subscription.version < pull.version:
            raise _refusal(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
            )
        is_tag = is_tag_type(subscription.expression_type)
        sql = None if is_tag else self._sql(pull, subscription)
        kept = self._kept.get((pull.group, pull.topic))
        if kept is None or kept.subscription is not subscription or kept.sql is not sql:
            kept = self._keep(pull, subscription, sql)
        if self._is_by_origin(pull.topic):
            return self._by_origin(pull.topic, kept.filter)
        return Chosen(kept.filter, online, is_lasting=is_tag)

    def _carried(self, pull: Pull) -> Chosen:
        try:
            carried = carried_subscription(pull.expression, pull.expression_type, pull.topic)
        except FilterError:
            # Official brokers answer every message unfiltered if it is SQL that does not compile.
            raise _refusal(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed"
            ) from None
        self._consumers.note_carried(pull.group, pull.topic, carried.subscription, self._now_ms())
        if not is_tag_type(pull.expression_type):
            self._refuse_if_disabled(pull.expression_type)
        if self._is_by_origin(pull.topic):
            return self._by_origin(pull.topic, carried.filter)
        return Chosen(carried.filter)

    def _by_origin(self, topic: str, of_topic: MessageFilter) -> Chosen:
        made = by_sql_of_origin(topic, self._filters, of_topic.accepts_entry)
        return Chosen(made, is_lasting=False)

    def _check_permission(self, pull: Pull, group: GroupConfig, online: ConsumerGroup) -> None:
        if not group.is_broadcast_enabled and online.message_model is MessageModel.BROADCASTING:
            raise _refusal(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{pull.group}] can not consume by broadcast way",
                {"forbiddenType": FORBIDDEN_BROADCAST},
            )
        if self._groups.is_forbidden(pull.group, pull.topic, READ_INDEX):
            raise _refusal(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{pull.group}] is forbidden for topic[{pull.topic}]",
                {"forbiddenType": FORBIDDEN_SUBSCRIPTION},
            )

    def _sql(self, pull: Pull, subscription: Subscription) -> SqlFilter:
        found = self._filters.get(pull.topic, pull.group)
        if found is None:
            raise _refusal(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                "The broker's consumer filter data is not exist!Your expression may be wrong!",
            )
        if found.version < pull.version:
            raise _refusal(
                ResponseCode.FILTER_DATA_NOT_LATEST,
                "the consumer's consumer filter data not latest",
            )
        self._refuse_if_disabled(subscription.expression_type)
        return found.filter

    def _refuse_if_disabled(self, expression_type: str | None) -> None:
        if not self._config().enable_property_filter:
            raise _refusal(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by {expression_type}",
            )

    def _keep(self, pull: Pull, subscription: Subscription, sql: SqlFilter | None) -> _Kept:
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        made = by_tags(subscription) if sql is None else by_sql(sql)
        kept = self._kept[pull.group, pull.topic] = _Kept(subscription, sql, made)
        return kept

    def _is_by_origin(self, topic: str) -> bool:
        return self._config().filter_support_retry and is_retry_topic(topic)


def _refusal(
    code: ResponseCode, remark: str, fields: dict[str, str] | None = None
) -> RequestRejected:
    return RequestRejected(code, remark, fields or {})
