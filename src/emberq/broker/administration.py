"""Wires what administrators and their tools ask for."""

from typing import Protocol

from emberq.broker.clock import now_ms
from emberq.broker.handlers import admin_groups, admin_topics, consume_stats
from emberq.broker.handlers.cleaning import CleaningHandlers
from emberq.broker.handlers.configuration import ConfigurationHandlers
from emberq.broker.handlers.runtime import RuntimeHandlers, StoreFacts
from emberq.broker.handlers.slave_sync import SlaveSyncHandlers
from emberq.broker.handlers.timers import timer_figures
from emberq.broker.handlers.topic_stats import TopicStatsHandlers
from emberq.broker.parts import BrokerParts
from emberq.broker.slow_consumers import PullOffsets, SlowConsumers
from emberq.broker.statistics.sampling import Sampling
from emberq.model.system_topics import SCHEDULE_TOPIC, TIMER_TOPIC
from emberq.protocol.bodies.offsets import ConsumerOffsetTable
from emberq.remoting.registry import HandlerRegistry
from emberq.store.message_store import MessageStore


class Offsets(
    admin_topics.TopicOffsets,
    admin_groups.GroupOffsets,
    consume_stats.GroupOffsets,
    PullOffsets,
    Protocol,
):
    """Of all groups."""

    def table(self) -> ConsumerOffsetTable: ...


def add_administration(broker: BrokerParts) -> None:
    """Topics, groups, statistics, configuration, cleaning."""
    offsets = broker.offsets
    registry = broker.registry.limited(broker.config().admin_wait_max_ms)
    _add_tables(broker, registry, offsets)
    _add_figures(broker, registry, offsets)
    ConfigurationHandlers(broker.settings, broker.addresses, now_ms).add_to(registry)
    CleaningHandlers(store=broker.store, topics=broker.topics).add_to(registry)
    SlaveSyncHandlers(
        consumer_offsets=offsets.table,
        delay_offsets=broker.delay_offsets.current,
        log_end=lambda: broker.store.log.end,
    ).add_to(registry)
    slow_consumers = SlowConsumers(
        store=broker.store,
        offsets=offsets,
        consumers=broker.consumers,
        groups=broker.groups,
        config=broker.config,
    )
    broker.services.extend([Sampling(broker.statistics, now_ms).run, slow_consumers.run])


def _add_tables(broker: BrokerParts, registry: HandlerRegistry, offsets: Offsets) -> None:
    admin_topics.AdminTopicHandlers(
        topics=broker.topics,
        offsets=offsets,
        store=broker.store,
        statistics=broker.statistics,
        persistence=broker.persistence,
        registered=broker.registration.settle,
        config=broker.config,
        started_at_ms=now_ms(),
    ).add_to(registry)
    admin_groups.AdminGroupHandlers(
        groups=broker.groups,
        offsets=offsets,
        statistics=broker.statistics,
        persistence=broker.persistence,
        config=broker.config,
    ).add_to(registry)


def _add_figures(broker: BrokerParts, registry: HandlerRegistry, offsets: Offsets) -> None:
    broker_name = broker.config().broker_name
    TopicStatsHandlers(
        broker_name=broker_name,
        topics=broker.topics,
        store=broker.store,
        statistics=broker.statistics,
    ).add_to(registry)
    consume_stats.ConsumeStatsHandlers(
        broker_name=broker_name,
        broker_address=broker.addresses.main,
        topics=broker.topics,
        groups=broker.groups,
        consumers=broker.consumers,
        offsets=offsets,
        store=broker.store,
        statistics=broker.statistics,
        now_ms=now_ms,
    ).add_to(registry)
    RuntimeHandlers(
        statistics=broker.statistics,
        store_facts=lambda: _store_facts(broker.store),
        delay_levels=lambda: _delay_levels(broker),
        timer_figures=lambda: _timer_figures(broker),
        config=broker.config,
        now_ms=now_ms,
    ).add_to(registry)


def _timer_figures(broker: BrokerParts) -> dict[str, str]:
    queue_end = broker.store.max_offset(TIMER_TOPIC, 0)
    return timer_figures(broker.timers, broker.timer_metrics, queue_end, now_ms())


def _delay_levels(broker: BrokerParts) -> dict[int, tuple[int, int]]:
    """How far each level is delivered, and the end of its queue."""
    return {
        level: (delivered, broker.store.max_offset(SCHEDULE_TOPIC, level - 1))
        for level, delivered in sorted(broker.delay_offsets.levels().items())
    }


def _store_facts(store: MessageStore) -> StoreFacts:
    end = store.log.end
    return StoreFacts(
        log_folder=store.config.commit_log_folder,
        log_min_offset=store.log.min_offset if store.log.starts else -1,
        log_end=end,
        unflushed_bytes=max(0, end - store.flushed_offset),
        undispatched_bytes=max(0, end - store.dispatcher.dispatched_offset),
        begins_at_ms=store.log_begins_at_ms(),
        disk=store.disk_usage(),
    )
