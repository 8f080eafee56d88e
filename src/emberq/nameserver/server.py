"""Wires the name server together and runs it."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from emberq.nameserver.config import FIRST_SCAN_DELAY_MAX_MS, NameServerConfig
from emberq.nameserver.departures import Departures
from emberq.nameserver.handlers.configuration import ConfigurationHandlers
from emberq.nameserver.handlers.key_values import KeyValueHandlers
from emberq.nameserver.handlers.registration import RegistrationHandlers
from emberq.nameserver.handlers.routes import AskElsewhere, RouteHandlers
from emberq.nameserver.handlers.topics import TopicHandlers
from emberq.nameserver.kv_store import KeyValueStore, load_table
from emberq.nameserver.kv_table import ORDER_TOPIC_NAMESPACE
from emberq.nameserver.route_answers import RouteAnswers
from emberq.nameserver.route_table import MinBrokerIdChange, Registration, RouteTable
from emberq.nameserver.settings import Settings
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from emberq.remoting.registry import HandlerRegistry
from emberq.remoting.server import listening
from emberq.remoting.tls import ServerTls, TlsSettings

if TYPE_CHECKING:
    from emberq.nameserver.min_id_notice import MinIdNotices

log = logging.getLogger(__name__)

KV_LOG_FIRST_AFTER_S = 60.0
KV_LOG_INTERVAL_S = 600.0


@asynccontextmanager
async def running_name_server(
    config: NameServerConfig,
    tls: TlsSettings | None = None,
    *,
    kept_properties: Mapping[str, str] | None = None,
    ask_elsewhere: AskElsewhere | None = None,
) -> AsyncIterator[tuple[str, int]]:
    """Run a name server and yield the address it listens on.

    `kept_properties` are keys of the configuration file that are not ours to change; they stay
    in it when an update rewrites it.

    Raises:
        ConfigError: the stored key-value table or the TLS files cannot be used.
        ListenFailed: the port cannot be had.
    """
    settings = Settings(config, kept_properties or {})
    store = KeyValueStore(Path(config.kv_config_path), load_table(Path(config.kv_config_path)))
    notices = _Notices(settings)
    table = RouteTable(notices.announce)
    departures = Departures(table, lambda: settings.config.un_register_broker_queue_capacity)
    registry = name_server_handlers(settings, store, table, departures, ask_elsewhere)
    endpoint = Endpoint(
        registry,
        limits=config.limits(),
        tls=ServerTls(tls or TlsSettings()),
        on_close=departures.connection_closed,
    )
    async with listening(endpoint, config.bind_address, config.listen_port) as address:
        watches = [
            asyncio.create_task(_expire_brokers(departures, settings)),
            asyncio.create_task(_log_key_values(store)),
        ]
        try:
            yield address
        finally:
            endpoint.on_close = _ignore_close  # from now on we leave, not the brokers
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
            notices.close()


def name_server_handlers(
    settings: Settings,
    store: KeyValueStore,
    table: RouteTable,
    departures: Departures,
    ask_elsewhere: AskElsewhere | None = None,
) -> HandlerRegistry:
    """Every code a name server answers."""
    started_at = time.monotonic()

    def order_config_of(topic: str) -> str | None:
        if not settings.config.order_message_enable:
            return None
        return store.table.get(ORDER_TOPIC_NAMESPACE, topic)

    answers = RouteAnswers(table, order_config_of, lambda: settings.config.support_acting_master)
    registry = HandlerRegistry()
    for handlers in (
        RouteHandlers(
            answers,
            lambda: settings.config,
            lambda: time.monotonic() - started_at,
            ask_elsewhere,
        ),
        RegistrationHandlers(
            table,
            departures,
            config=lambda: settings.config,
            order_topics=lambda: store.table.list(ORDER_TOPIC_NAMESPACE),
            now_ms=_now_ms,
            log_registered=_log_registered,
        ),
        TopicHandlers(table, lambda: settings.config),
        KeyValueHandlers(store, answers.clear),
        ConfigurationHandlers(settings, answers.clear),
    ):
        handlers.add_to(registry)
    return registry


class _Notices:
    """Sends notices of smallest ids if the configuration wants them; most never do."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sender: MinIdNotices | None = None

    def announce(self, change: MinBrokerIdChange) -> None:
        if not self._settings.config.notify_min_broker_id_changed:
            return
        if self._sender is None:
            from emberq.nameserver.min_id_notice import MinIdNotices  # noqa: PLC0415 - rare

            self._sender = MinIdNotices()
        self._sender.send(change)

    def close(self) -> None:
        if self._sender is not None:
            self._sender.close()


async def _expire_brokers(departures: Departures, settings: Settings) -> None:
    interval_ms = settings.config.scan_not_active_broker_interval
    await asyncio.sleep(min(FIRST_SCAN_DELAY_MAX_MS, interval_ms) / 1000)
    while True:
        departures.expire(_now_ms())
        await asyncio.sleep(settings.config.scan_not_active_broker_interval / 1000)


async def _log_key_values(store: KeyValueStore) -> None:
    await asyncio.sleep(KV_LOG_FIRST_AFTER_S)
    while True:
        namespaces = store.table.namespaces()
        log.info("kv_table namespaces=%d", len(namespaces))
        for namespace, entries in namespaces.items():
            for key, value in entries.items():
                log.info("kv_entry namespace=%s key=%s value=%s", namespace, key, value)
        await asyncio.sleep(KV_LOG_INTERVAL_S)


def _ignore_close(_: Connection) -> None:
    return None


def _now_ms() -> int:
    """Only differences count; a step of the wall clock must not make all brokers look silent."""
    return time.monotonic_ns() // 1_000_000


def _log_registered(registration: Registration, peer: str) -> None:
    log.info(
        "broker_registered name=%s id=%d address=%s cluster=%s topics=%d peer=%s",
        registration.broker_name,
        registration.broker_id,
        registration.address,
        registration.cluster,
        len(registration.topics),
        peer,
    )
