"""Wires the broker together and runs it."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct

from emberq.broker.addresses import BrokerAddresses, announced_addresses
from emberq.broker.appending import Appender
from emberq.broker.change_notices import ChangeNotices
from emberq.broker.config import VIP_PORT_DISTANCE, BrokerConfig, LoadedConfig
from emberq.broker.delay_levels import parse_delay_levels
from emberq.broker.departures import Departures
from emberq.broker.filters.group_filters import GroupFilters
from emberq.broker.filters.sql import compile_sql
from emberq.broker.groups import Groups
from emberq.broker.handlers.client_calls import ClientCallHandlers
from emberq.broker.handlers.connection_lists import ConnectionListHandlers
from emberq.broker.handlers.heartbeat import HeartbeatHandlers
from emberq.broker.handlers.locks import LockHandlers
from emberq.broker.handlers.send import SendHandler
from emberq.broker.members import ConsumerGroup, Consumers, GroupEvent
from emberq.broker.metadata_files import FilterTable, MetadataFiles
from emberq.broker.order_locks import OrderLocks
from emberq.broker.persistence import Persistence
from emberq.broker.producers import Producers
from emberq.broker.registration import Registration
from emberq.broker.settings import Settings
from emberq.broker.statistics.broker_statistics import BrokerStatistics
from emberq.broker.topics import Topics
from emberq.record.host import pack_host, pack_ip
from emberq.record.message_id import UniqueKeyGenerator
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from emberq.remoting.registry import HandlerRegistry
from emberq.remoting.server import bound_socket, listening_on
from emberq.remoting.tls import ServerTls, client_context
from emberq.store.message_store import MessageStore
from emberq.store.tag_codes import TagCodes

log = logging.getLogger(__name__)

# How often waiters of the store whose time is over are looked for.
STORE_POLL_INTERVAL_S = 0.25
RECOVERY_LOG_INTERVAL_S = 5.0
FILTERS_SAVE_INTERVAL_S = 10.0
# A service that failed begins again after this.
SERVICE_RESTART_S = 1.0


class RunningBroker(Struct, frozen=True, kw_only=True):
    """What runs; tests look inside."""

    addresses: BrokerAddresses
    settings: Settings
    store: MessageStore
    topics: Topics
    groups: Groups
    consumers: Consumers
    producers: Producers
    locks: OrderLocks
    filters: GroupFilters
    persistence: Persistence
    registration: Registration
    endpoint: Endpoint


@asynccontextmanager
async def running_broker(loaded: LoadedConfig) -> AsyncIterator[RunningBroker]:
    """Run a broker. What is entered last is left first, so that a stop goes: unregister, take no
    new requests, answer what is in flight, deliver nothing more, save tables, close the store.

    Raises:
        ConfigError: the TLS files cannot be used.
        ListenFailed: a port cannot be had.
        StoreInUse, StoreDamaged: the directory is another's, or cannot be read.
        OSError: the directory cannot be written.
    """
    config = loaded.config
    async with AsyncExitStack() as running:
        # Before anything is read: to find a port taken after a long recovery would be late.
        sockets = [bound_socket(config.bind_address, config.listen_port)]
        running.callback(sockets[0].close)
        port = sockets[0].getsockname()[1]
        if config.listen_port:  # a free port's neighbour may be anybody's
            sockets.append(bound_socket(config.bind_address, port - VIP_PORT_DISTANCE))
            running.callback(sockets[1].close)
        addresses = announced_addresses(config, port)

        settings = Settings(config, loaded.store, loaded.kept_properties)
        store = await running.enter_async_context(_open_store(settings, addresses))
        files = MetadataFiles(settings.store.root)
        persistence = Persistence()
        running.push_async_callback(persistence.close)
        stored_topics = files.topics.load()
        topics = Topics(config, now_ms=now_ms, stored=stored_topics)
        groups = Groups(
            is_auto_created=lambda: settings.config.auto_create_subscription_group,
            now_ms=now_ms,
            stored=files.groups.load(),
        )
        consumers, producers = Consumers(), Producers()
        locks = OrderLocks(config.rebalance_lock_max_live_time)
        filters = GroupFilters(now_ms(), files.filters.load())
        name_server_tls = client_context(loaded.tls) if loaded.tls.is_client_enabled else None
        registration = Registration(topics, lambda: settings.config, addresses, name_server_tls)
        _keep_files(topics, groups, files, persistence)
        _keep_filters(filters, consumers, files, persistence)
        if topics.version != stored_topics.data_version:
            persistence.mark("topics")
        topics.on_change(registration.topics_changed)
        _follow_settings(settings, topics, store)

        registry = HandlerRegistry()
        closings: list[Callable[[Connection], None]] = []
        endpoint = Endpoint(
            registry,
            limits=config.limits(),
            tls=ServerTls(loaded.tls),
            on_close=lambda connection: _tell_all(closings, connection),
        )
        services: list[Callable[[], Awaitable[None]]] = [lambda: _poll(store)]

        # ---- Every conversation of the broker is added here. -------------------------------
        # Handlers: Xyz(…).add_to(registry). What must know of closed connections: closings.append.
        # What runs in the background: services.append (an async function; cancelled at stop,
        # after the last answer). Tables in files: persistence.add(name, file, snapshot, seconds).

        # sending: messages, send-backs, delay levels
        statistics = BrokerStatistics(config.broker_cluster_name, is_system_topic=topics.is_system)
        SendHandler(
            settings=settings,
            topics=topics,
            groups=groups,
            store=store,
            store_host=pack_host(addresses.ip, addresses.port),
            appender=Appender(store.put, parse_delay_levels(config.message_delay_level)),
            broker_ip=addresses.ip,
            statistics=statistics,
            has_order_locks=lambda group: locks.has_locks(group, steady_ms()),
            new_unique_key=UniqueKeyGenerator(
                pack_ip(addresses.ip), os.getpid(), id(store), now_ms
            ).next,
            now_ms=now_ms,
        ).add_to(registry)

        # receiving: pulls, filters, offsets, queries

        # clients: heartbeats, members, locks, calls to clients
        heartbeats = HeartbeatHandlers(
            consumers=consumers,
            producers=producers,
            topics=topics,
            groups=groups,
            filters=filters,
            compile_filter=compile_sql,
            config=lambda: settings.config,
            now_ms=now_ms,
            steady_ms=steady_ms,
        )
        heartbeats.add_to(registry)
        consumers.on_change(ChangeNotices(consumers, groups, lambda: settings.config).group_changed)
        departures = Departures(
            consumers,
            producers,
            locks,
            silence_max_ms=lambda: settings.config.channel_expired_timeout,
            steady_ms=steady_ms,
        )
        closings += [heartbeats.connection_closed, departures.connection_closed]
        services.append(departures.watch)
        LockHandlers(locks, steady_ms).add_to(registry)
        ConnectionListHandlers(consumers, producers, now_ms=now_ms, steady_ms=steady_ms).add_to(
            registry
        )
        ClientCallHandlers(
            consumers=consumers,
            topics=topics,
            groups=groups,
            record_at=lambda log_offset: asyncio.to_thread(store.record_at_waiting, log_offset),
            broker_name=config.broker_name,
        ).add_to(registry)

        # administration: topics, groups, statistics, configuration, cleaning

        # ------------------------------------------------------------------------------------

        await running.enter_async_context(_running_services(services))
        await running.enter_async_context(listening_on(endpoint, sockets))
        running.callback(closings.clear)  # from now on we leave, not the clients
        running.push_async_callback(registration.close)
        await registration.start()
        yield RunningBroker(
            addresses=addresses,
            settings=settings,
            store=store,
            topics=topics,
            groups=groups,
            consumers=consumers,
            producers=producers,
            locks=locks,
            filters=filters,
            persistence=persistence,
            registration=registration,
            endpoint=endpoint,
        )


@asynccontextmanager
async def _open_store(
    settings: Settings, addresses: BrokerAddresses
) -> AsyncIterator[MessageStore]:
    loop = asyncio.get_running_loop()
    store = MessageStore(
        settings.store,
        store_host=pack_host(addresses.ip, addresses.port),
        schedule=loop.call_soon,
        schedule_from_thread=loop.call_soon_threadsafe,
        now_ms=now_ms,
        tag_codes=TagCodes(parse_delay_levels(settings.config.message_delay_level).delays_ms),
    )
    await asyncio.to_thread(store.open, _progress_log())
    try:
        yield store
    finally:
        store.dispatch_now()
        await asyncio.to_thread(store.close)


def _progress_log() -> Callable[[int, int], None]:
    logged_at = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal logged_at
        if time.monotonic() - logged_at >= RECOVERY_LOG_INTERVAL_S:
            logged_at = time.monotonic()
            log.info("store_recovering bytes=%d of=%d", done, total)

    return progress


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


@asynccontextmanager
async def _running_services(
    services: list[Callable[[], Awaitable[None]]],
) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(_run_for_ever(service)) for service in services]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run_for_ever(service: Callable[[], Awaitable[None]]) -> None:
    """A service that fails is logged and begun again: the others must not miss it for good."""
    while True:
        try:
            await service()
        except Exception:
            log.exception("service_failed")
        else:
            return
        await asyncio.sleep(SERVICE_RESTART_S)


async def _poll(store: MessageStore) -> None:
    while True:
        await asyncio.sleep(STORE_POLL_INTERVAL_S)
        store.poll()


def _tell_all(listeners: list[Callable[[Connection], None]], connection: Connection) -> None:
    for listener in listeners:
        listener(connection)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """Only differences count; a step of the wall clock must not make all clients look silent."""
    return time.monotonic_ns() // 1_000_000
