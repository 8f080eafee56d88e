"""Wires the broker together and runs it."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from emberq.broker.addresses import BrokerAddresses, announced_addresses
from emberq.broker.clock import now_ms
from emberq.broker.config import VIP_PORT_DISTANCE, BrokerConfig, LoadedConfig
from emberq.broker.conversations import add_conversations
from emberq.broker.delay_levels import parse_delay_levels
from emberq.broker.parts import BrokerParts, Service, broker_parts
from emberq.broker.persistence import Persistence
from emberq.broker.settings import Settings
from emberq.errors import StoreError
from emberq.record.host import pack_host
from emberq.remoting.endpoint import Endpoint
from emberq.remoting.server import bound_socket, listening_on
from emberq.remoting.tls import ServerTls
from emberq.store.message_store import MessageStore
from emberq.store.recovery import Recovered
from emberq.store.tag_codes import TagCodes
from emberq.store.timers.timer_store import TimerStore
from emberq.store.timers.times import usable_precision_ms

log = logging.getLogger(__name__)

# How often waiters of the store whose time is over are looked for.
STORE_POLL_INTERVAL_S = 0.25
RECOVERY_LOG_INTERVAL_S = 5.0
# A service that failed begins again after this.
SERVICE_RESTART_S = 1.0


@asynccontextmanager
async def running_broker(loaded: LoadedConfig) -> AsyncIterator[BrokerParts]:
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
        store, recovered = await running.enter_async_context(_open_store(settings, addresses))
        timers = await asyncio.to_thread(_open_timers, config, store)
        if timers is not None:
            running.callback(timers.close)
        persistence = Persistence()
        running.push_async_callback(persistence.close)
        broker = broker_parts(
            settings,
            addresses,
            store,
            timers,
            persistence,
            loaded.tls,
            was_clean=recovered.was_clean,
        )
        broker.services.append(lambda: _poll(store))
        add_conversations(broker)
        running.callback(_call_all, broker.endings)

        endpoint = Endpoint(
            broker.registry,
            limits=config.limits(),
            tls=ServerTls(loaded.tls),
            on_close=broker.connection_closed,
            write_turn=broker.write_turn,
        )
        await running.enter_async_context(_running_services(broker.services))
        await running.enter_async_context(listening_on(endpoint, sockets))
        running.callback(_call_all, broker.stopping)
        running.callback(broker.closings.clear)  # from now on we leave, not the clients
        running.push_async_callback(broker.registration.close)
        await broker.registration.start()
        log.info(
            "broker_started name=%s address=%s store=%s topics=%d groups=%d",
            config.broker_name,
            addresses.main,
            settings.store.root,
            len(broker.topics.all()),
            len(broker.groups.all()),
        )
        yield broker


def _call_all(calls: list[Callable[[], None]]) -> None:
    for call in calls:
        call()


@asynccontextmanager
async def _open_store(
    settings: Settings, addresses: BrokerAddresses
) -> AsyncIterator[tuple[MessageStore, Recovered]]:
    loop = asyncio.get_running_loop()
    store = MessageStore(
        settings.store,
        store_host=pack_host(addresses.ip, addresses.port),
        schedule=loop.call_soon,
        schedule_from_thread=loop.call_soon_threadsafe,
        watcher=loop,
        now_ms=now_ms,
        tag_codes=TagCodes(parse_delay_levels(settings.config.message_delay_level).delays_ms),
    )
    stop = threading.Event()
    try:
        recovered = await asyncio.to_thread(store.open, _progress(stop))
    except asyncio.CancelledError:
        stop.set()  # the thread cannot be cancelled, but it asks now and then
        raise
    try:
        yield store, recovered
    finally:
        store.dispatch_now()
        await asyncio.to_thread(store.close)


def _open_timers(config: BrokerConfig, store: MessageStore) -> TimerStore | None:
    """What waits for its time in an open store. May wait.

    Raises:
        StoreDamaged, OSError
    """
    if not config.timer_wheel_enable:
        return None
    timers = TimerStore(
        store.disk,
        store.config.root,
        precision_ms=usable_precision_ms(config.timer_precision_ms),
        file_size=config.mapped_file_size_timer_log,
        roll_window=config.timer_roll_window_slot,
    )
    now = max(now_ms(), store.dispatcher.last_stored_at_ms)
    timers.open(store.log.end, now, store.queue_offset_at_waiting)
    return timers


def _progress(stop: threading.Event) -> Callable[[int, int], None]:
    """Logs how far recovery is, and ends it when the broker is to stop: the next start begins it
    again, as after a crash."""
    logged_at = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal logged_at
        if stop.is_set():
            raise StoreError("the broker stops")
        if time.monotonic() - logged_at >= RECOVERY_LOG_INTERVAL_S:
            logged_at = time.monotonic()
            log.info("store_recovering bytes=%d of=%d", done, total)

    return progress


@asynccontextmanager
async def _running_services(
    services: list[Service],
) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(_run_for_ever(service)) for service in services]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run_for_ever(service: Service) -> None:
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
