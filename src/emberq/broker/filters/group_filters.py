"""The SQL filters of consumer groups, kept across restarts (consumerFilter.json). No clock.

A filter comes with a heartbeat, dies with the last member of its group, comes back with it, and is
forgotten when it was dead for long. After a start all are dead until their groups come back.
"""

import logging
from collections.abc import Callable, Collection, Iterator

from msgspec import Struct

from emberq.broker.filters.bloom import BIT_COUNT, bloom_positions
from emberq.broker.filters.sql import SqlFilter, compile_sql
from emberq.broker.metadata_files import (
    BloomFilterBits,
    FilterSubscription,
    FilterTable,
    TopicFilters,
)
from emberq.errors import FilterError
from emberq.model.subscription import SQL92_EXPRESSION, Subscription
from emberq.protocol.subscriptions import is_tag_type

log = logging.getLogger(__name__)

FORGOTTEN_AFTER_MS = 24 * 3600 * 1000
# Official brokers take this as the time since which the groups of the file are gone.
DEAD_BEFORE_START_MS = 30_000


class GroupFilter(Struct, eq=False):
    """One group's filter of one topic."""

    group: str
    topic: str
    expression_type: str
    filter: SqlFilter
    version: int
    born_at_ms: int
    dead_at_ms: int = 0

    @property
    def is_dead(self) -> bool:
        return self.dead_at_ms >= self.born_at_ms


class GroupFilters:
    def __init__(self, now_ms: int = 0, stored: FilterTable | None = None) -> None:
        self._topics: dict[str, dict[str, GroupFilter]] = {}
        self._listeners: list[Callable[[], None]] = []
        if stored is not None:
            self._load(stored, now_ms)

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def get(self, topic: str, group: str) -> GroupFilter | None:
        """The filter that was compiled last, dead or alive."""
        groups = self._topics.get(topic)
        return None if groups is None else groups.get(group)

    def register(self, group: str, subscriptions: Collection[Subscription], now_ms: int) -> None:
        """Take over what a heartbeat says; filters of topics it does not name die."""
        is_changed = False
        topics = {subscription.topic for subscription in subscriptions}
        for subscription in subscriptions:
            is_changed |= self._take(group, subscription, now_ms)
        for each in self._of_group(group):
            if each.topic not in topics and not each.is_dead:
                each.dead_at_ms = now_ms
                is_changed = True
        self._tell(is_changed)

    def group_gone(self, group: str, now_ms: int) -> None:
        """The last member left."""
        alive = [each for each in self._of_group(group) if not each.is_dead]
        for each in alive:
            each.dead_at_ms = now_ms
        self._tell(bool(alive))

    def clean(self, now_ms: int, dead_for_ms: int = FORGOTTEN_AFTER_MS) -> int:
        """Forget what is dead for long; returns how much."""
        forgotten = [
            each
            for groups in self._topics.values()
            for each in groups.values()
            if each.is_dead and now_ms - each.dead_at_ms >= dead_for_ms
        ]
        for each in forgotten:
            self._remove(each)
        self._tell(bool(forgotten))
        return len(forgotten)

    def table(self) -> FilterTable:
        """A copy for the file."""
        return FilterTable(
            topics={
                topic: TopicFilters(
                    topic=topic, groups={name: stored_form(each) for name, each in groups.items()}
                )
                for topic, groups in self._topics.items()
            }
        )

    def _take(self, group: str, subscription: Subscription, now_ms: int) -> bool:
        topic, expression = subscription.topic, subscription.expression
        kind = subscription.expression_type
        if is_tag_type(kind) or not expression or topic is None:
            return False
        known = self.get(topic, group)
        if known is not None:
            is_same = (known.filter.expression, known.expression_type) == (expression, kind)
            if subscription.version <= known.version and not is_same:
                log.info(
                    "filter_ignored group=%s topic=%s version=%d known=%d",
                    group,
                    topic,
                    subscription.version,
                    known.version,
                )
            if subscription.version < known.version or (
                subscription.version == known.version and not known.is_dead
            ):
                return False
            if is_same or subscription.version == known.version:
                known.version = subscription.version
                known.dead_at_ms = 0
                return True
        compiled = _compiled(group, topic, expression, kind)
        if compiled is None:
            # The old filter goes too, so that the group's pulls say what is wrong.
            return known is not None and self._remove(known)
        self._topics.setdefault(topic, {})[group] = GroupFilter(
            group, topic, kind, compiled, subscription.version, now_ms
        )
        log.info("filter_registered group=%s topic=%s", group, topic)
        return True

    def _load(self, stored: FilterTable, now_ms: int) -> None:
        for topic, filters in stored.topics.items():
            for group, each in filters.groups.items():
                kind = each.expression_type or SQL92_EXPRESSION
                compiled = _compiled(group, topic, each.expression or "", kind)
                if compiled is not None:
                    died_at_ms = max(now_ms - DEAD_BEFORE_START_MS, each.born_at_ms)
                    self._topics.setdefault(topic, {})[group] = GroupFilter(
                        group,
                        topic,
                        kind,
                        compiled,
                        each.client_version,
                        each.born_at_ms,
                        each.dead_at_ms or died_at_ms,
                    )

    def _of_group(self, group: str) -> Iterator[GroupFilter]:
        for groups in self._topics.values():
            each = groups.get(group)
            if each is not None:
                yield each

    def _remove(self, each: GroupFilter) -> bool:
        groups = self._topics[each.topic]
        del groups[each.group]
        if not groups:
            del self._topics[each.topic]
        return True

    def _tell(self, is_changed: bool) -> None:
        if is_changed:
            for listener in self._listeners:
                listener()


def _compiled(group: str, topic: str, expression: str, kind: str) -> SqlFilter | None:
    try:
        if kind != SQL92_EXPRESSION:
            raise FilterError(f"unknown expression type {kind}")  # noqa: TRY301 - logged below
        return compile_sql(expression)
    except FilterError as error:
        log.warning("filter_refused group=%s topic=%s reason=%s", group, topic, error)
        return None


def stored_form(each: GroupFilter) -> FilterSubscription:
    """As it stands in the file."""
    return FilterSubscription(
        bloom_filter=BloomFilterBits(
            bit_count=BIT_COUNT, positions=bloom_positions(each.group, each.topic)
        ),
        born_at_ms=each.born_at_ms,
        client_version=each.version,
        group=each.group,
        is_dead=each.is_dead,
        dead_at_ms=each.dead_at_ms,
        expression=each.filter.expression,
        expression_type=each.expression_type,
        topic=each.topic,
    )
