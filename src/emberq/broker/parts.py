"""What a broker is made of. Only wiring sees it as a whole; handlers get the parts they use."""

import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct, field

from emberq.broker.addresses import BrokerAddresses
from emberq.broker.clock import now_ms
from emberq.broker.config import BrokerConfig
from emberq.broker.delay_offsets import DelayOffsets
from emberq.broker.filters.group_filters import GroupFilters
from emberq.broker.groups import Groups
from emberq.broker.held_pulls import HeldPulls
from emberq.broker.lost_topics import restore_lost_topics
from emberq.broker.members import ConsumerGroup, Consumers, GroupEvent
from emberq.broker.metadata_files import FilterTable, MetadataFiles
from emberq.broker.offsets import ConsumerOffsets
from emberq.broker.order_locks import OrderLocks
from emberq.broker.persistence import Persistence
from emberq.broker.producers import Producers
from emberq.broker.registration import Registration
from emberq.broker.settings import Settings
from emberq.broker.statistics.broker_statistics import BrokerStatistics
from emberq.broker.timer_metrics import TimerMetrics
from emberq.broker.topics import Topics
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry
from emberq.remoting.tls import TlsSettings, client_context
from emberq.remoting.write_turn import WriteTurn
from emberq.store.message_store import MessageStore
from emberq.store.timers.timer_store import TimerStore

log = logging.getLogger(__name__)

FILTERS_SAVE_INTERVAL_S = 10.0

Service = Callable[[], Awaitable[None]]


class BrokerParts(Struct, frozen=True, kw_only=True):
    """The tables of one broker, and what wiring adds to."""

    addresses: BrokerAddresses
    settings: Settings
    store: MessageStore
    files: MetadataFiles
    persistence: Persistence
    topics: Topics
    groups: Groups
    consumers: Consumers
    producers: Producers
    locks: OrderLocks
    filters: GroupFilters
    offsets: ConsumerOffsets
    held_pulls: HeldPulls
    delay_offsets: DelayOffsets
    timers: TimerStore | None
    timer_metrics: TimerMetrics
    statistics: BrokerStatistics
    registration: Registration
    registry: HandlerRegistry = field(default_factory=HandlerRegistry)
    write_turn: WriteTurn = field(default_factory=WriteTurn)
    closings: list[Callable[[Connection], None]] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    stopping: list[Callable[[], None]] = field(default_factory=list)
    endings: list[Callable[[], None]] = field(default_factory=list)

    def config(self) -> BrokerConfig:
        """The configuration as it is now."""
        return self.settings.config

    def connection_closed(self, connection: Connection) -> None:
        """Tell everybody; one that fails must not keep it from the others."""
        for listener in self.closings:
            try:
                listener(connection)
            except Exception:
                log.exception("closing_failed peer=%s", connection.peer)


def broker_parts(
    settings: Settings,
    addresses: BrokerAddresses,
    store: MessageStore,
    timers: TimerStore | None,
    persistence: Persistence,
    tls: TlsSettings,
    *,
    was_clean: bool,
) -> BrokerParts:
    """Make the tables, from their files where they have one.

    Raises:
        StoreDamaged: a file cannot be read.
        ConfigError: the TLS files cannot be used.
    """
    config = settings.config
    files = MetadataFiles(settings.store.root)
    stored_topics = files.topics.load()
    topics = Topics(config, now_ms=now_ms, stored=stored_topics)
    if not was_clean and config.auto_create_topic_enable:
        restore_lost_topics(
            topics,
            store,
            saved_at_ms=stored_topics.data_version.timestamp_ms,
            queue_count=config.default_topic_queue_nums,
        )
    groups = Groups(
        is_auto_created=lambda: settings.config.auto_create_subscription_group,
        now_ms=now_ms,
        stored=files.groups.load(),
    )
    registration = Registration(
        topics,
        lambda: settings.config,
        addresses,
        client_context(tls) if tls.is_client_enabled else None,
    )
    consumers = Consumers()
    filters = GroupFilters(now_ms(), files.filters.load())
    _keep_files(topics, groups, files, persistence)
    _keep_filters(filters, consumers, files, persistence)
    offsets = ConsumerOffsets(now_ms, files.consumer_offsets.load())
    offsets.on_change(
        persistence.add(
            "offsets",
            files.consumer_offsets,
            offsets.table,
            config.flush_consumer_offset_interval / 1000,
        )
    )
    if topics.version != stored_topics.data_version:
        persistence.mark("topics")
    topics.on_change(registration.topics_changed)
    _follow_settings(settings, topics, store)
    settings.on_change(registration.config_changed)
    return BrokerParts(
        addresses=addresses,
        settings=settings,
        store=store,
        files=files,
        persistence=persistence,
        topics=topics,
        groups=groups,
        consumers=consumers,
        producers=Producers(),
        locks=OrderLocks(config.rebalance_lock_max_live_time),
        filters=filters,
        statistics=BrokerStatistics(
            config.broker_cluster_name,
            is_system_topic=topics.is_system,
            has_queue_figures=config.enable_detail_stat,
        ),
        offsets=offsets,
        held_pulls=HeldPulls(),
        delay_offsets=DelayOffsets(files.delay_offsets.load(), now_ms()),
        timers=timers,
        timer_metrics=TimerMetrics(files.timer_metrics.load(), now_ms(), is_doubtful=not was_clean),
        registration=registration,
    )


def _keep_files(
    topics: Topics, groups: Groups, files: MetadataFiles, persistence: Persistence
) -> None:
    """Topics and groups are written at every change, without anybody waiting."""
    topics_changed = persistence.add("topics", files.topics, topics.table)
    groups_changed = persistence.add("groups", files.groups, groups.table)
    topics.on_change(lambda _: topics_changed())
    groups.on_change(lambda _: groups_changed())


def _keep_filters(
    filters: GroupFilters, consumers: Consumers, files: MetadataFiles, persistence: Persistence
) -> None:
    """Filters die with the last member of their group; what is dead for long is not stored."""

    def snapshot() -> FilterTable:
        filters.clean(now_ms())
        return filters.table()

    def group_changed(group: ConsumerGroup, event: GroupEvent) -> None:
        if event is GroupEvent.EMPTIED:
            filters.group_gone(group.name, now_ms())

    filters.on_change(persistence.add("filters", files.filters, snapshot, FILTERS_SAVE_INTERVAL_S))
    consumers.on_change(group_changed)


def _follow_settings(settings: Settings, topics: Topics, store: MessageStore) -> None:
    """What a change of the configuration means for what runs already."""
    before = settings.config

    def apply(config: BrokerConfig) -> None:
        nonlocal before
        store.follow(settings.store)
        topics.set_auto_creation(config.auto_create_topic_enable, config.default_topic_queue_nums)
        if config.broker_permission != before.broker_permission:
            topics.new_version()
        before = config

    settings.on_change(apply)
