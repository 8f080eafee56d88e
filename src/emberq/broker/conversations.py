"""Every conversation of the broker, added here: which handler gets which tables.

One function per part of the work. Handlers: `Xyz(…).add_to(broker.registry)`. What must know of
closed connections: `broker.closings.append`. What runs in the background: `broker.services.append`
(an async function; cancelled at stop, after the last answer). What a stop has to answer first:
`broker.stopping.append`; what is left to let go of: `broker.endings.append`. Tables in files:
`broker.persistence.add(name, file, snapshot, seconds)`. Tables that several functions need are
made in `broker/parts.py`.
"""

import asyncio
import os
import time

from emberq.broker.administration import add_administration
from emberq.broker.appending import Appender
from emberq.broker.change_notices import ChangeNotices
from emberq.broker.clock import now_ms, steady_ms
from emberq.broker.cold_reads import ColdReads
from emberq.broker.delay_levels import DelayLevels, parse_delay_levels
from emberq.broker.delayed_delivery import DelayedDelivery
from emberq.broker.departures import Departures
from emberq.broker.filters.choice import FilterChoice
from emberq.broker.filters.sql import compile_sql
from emberq.broker.handlers.assignments import AssignmentHandlers
from emberq.broker.handlers.client_calls import ClientCallHandlers
from emberq.broker.handlers.connection_lists import ConnectionListHandlers
from emberq.broker.handlers.group_queries import GroupQueryHandlers
from emberq.broker.handlers.heartbeat import HeartbeatHandlers
from emberq.broker.handlers.locks import LockHandlers
from emberq.broker.handlers.offsets import OffsetHandlers
from emberq.broker.handlers.pull import PullHandlers
from emberq.broker.handlers.queries import QueryHandlers
from emberq.broker.handlers.recall import RecallHandler
from emberq.broker.handlers.reset_offset import ResetOffsetHandlers
from emberq.broker.handlers.scan_groups import ScanGroupHandlers
from emberq.broker.handlers.scans import COLD_THREADS_MAX, ScanHandlers
from emberq.broker.handlers.send import SendHandler
from emberq.broker.handlers.send_back import SendBackHandler
from emberq.broker.handlers.send_once import SendOnceHandler
from emberq.broker.handlers.send_reply import SendReplyHandler
from emberq.broker.handlers.send_targets import SendTargets
from emberq.broker.handlers.timers import TimerHandlers
from emberq.broker.handlers.transactions import TransactionHandlers
from emberq.broker.long_polling import LongPolling
from emberq.broker.parts import BrokerParts
from emberq.broker.pull_terms import PullChecks
from emberq.broker.request_modes import RequestModes
from emberq.broker.scan_starts import ScanStarts
from emberq.broker.scan_turns import ScanTurns
from emberq.broker.timed_delivery import TimedDelivery
from emberq.broker.timed_messages import TimedMessages
from emberq.broker.topic_routes import TopicRoutes
from emberq.broker.transactions.checks import TransactionChecks
from emberq.broker.transactions.counts import TransactionCounts
from emberq.broker.transactions.half_queue import HalfQueue
from emberq.protocol.bodies.offsets import DelayOffsetTable
from emberq.record.host import PackedHost, pack_host, pack_ip
from emberq.record.message_id import UniqueKeyGenerator
from emberq.store.store_id import renew_store_id

CARRIED_EXPIRY_INTERVAL_MIN_S = 1.0


def add_conversations(broker: BrokerParts) -> None:
    add_sending(broker)
    add_timers(broker)
    add_receiving(broker)
    add_clients(broker)
    add_administration(broker)


def add_sending(broker: BrokerParts) -> None:
    """Messages, send-backs, delay levels, transactions, replies."""
    config, ip, store, locks = broker.config(), broker.addresses.ip, broker.store, broker.locks
    delay_levels = parse_delay_levels(config.message_delay_level)
    appender = Appender(store.put, delay_levels, _timed_messages(broker))
    store_host = pack_host(ip, broker.addresses.port)
    halves = _add_transactions(broker, appender, store_host)
    sends = SendHandler(
        settings=broker.settings,
        topics=broker.topics,
        groups=broker.groups,
        store=store,
        store_host=store_host,
        appender=appender,
        halves=halves,
        broker_ip=ip,
        statistics=broker.statistics,
        has_order_locks=lambda group: locks.has_locks(group, steady_ms()),
        new_unique_key=UniqueKeyGenerator(pack_ip(ip), os.getpid(), id(store), now_ms).next,
        now_ms=now_ms,
    )
    sends.add_to(broker.registry)
    once_reads = ColdReads(1)
    SendOnceHandler(store=store, send=sends.send, cold_reads=once_reads).add_to(broker.registry)
    broker.endings.append(once_reads.close)
    SendBackHandler(
        settings=broker.settings,
        topics=broker.topics,
        groups=broker.groups,
        store=store,
        appender=appender,
        broker_ip=ip,
        statistics=broker.statistics,
    ).add_to(broker.registry)
    SendReplyHandler(
        settings=broker.settings,
        targets=SendTargets(broker.settings, broker.topics, ip, now_ms),
        producers=broker.producers,
        store=store,
        store_host=store_host,
        appender=appender,
        statistics=broker.statistics,
        now_ms=now_ms,
    ).add_to(broker.registry)
    RecallHandler(
        settings=broker.settings,
        topics=broker.topics,
        store=store,
        appender=appender,
        statistics=broker.statistics,
        now_ms=now_ms,
    ).add_to(broker.registry)
    _add_delayed_delivery(broker, delay_levels)


def _timed_messages(broker: BrokerParts) -> TimedMessages:
    timers = broker.timers
    if timers is None:
        return TimedMessages(broker.config, None, broker.config().timer_precision_ms, now_ms)
    wheel = timers.wheel
    return TimedMessages(
        broker.config, lambda slot_ms: wheel.slot(slot_ms).number, timers.precision_ms, now_ms
    )


def _add_transactions(broker: BrokerParts, appender: Appender, store_host: PackedHost) -> HalfQueue:
    """Half messages, their ends, and the rounds of checks."""
    store, file = broker.store, broker.files.transaction_counts
    counts = TransactionCounts(now_ms, file.load())
    interval_s = broker.config().transaction_metric_flush_interval / 1000
    counts.on_change(broker.persistence.add("transactionMetrics", file, counts.table, interval_s))

    def topic_changed(name: str | None) -> None:
        if name is not None and broker.topics.get(name) is None:
            counts.forget(name)

    broker.topics.on_change(topic_changed)
    halves = HalfQueue(
        store,
        appender,
        broker.offsets,
        counts,
        broker.statistics,
        broker_host=store_host,
        operation_size_max=lambda: broker.config().transaction_op_msg_max_size,
        now_ms=now_ms,
        schedule=asyncio.get_running_loop().call_soon,
    )
    checks = TransactionChecks(
        store,
        halves,
        broker.producers,
        broker.topics,
        config=broker.config,
        kept_hours=lambda: broker.settings.store.file_reserved_time,
        store_host=store_host,
        now_ms=now_ms,
    )
    cold_reads = ColdReads()
    TransactionHandlers(
        settings=broker.settings,
        store=store,
        halves=halves,
        cold_reads=cold_reads,
        now_ms=now_ms,
    ).add_to(broker.registry)
    broker.services.append(checks.run)
    broker.endings.append(cold_reads.close)
    return halves


def _add_delayed_delivery(broker: BrokerParts, levels: DelayLevels) -> None:
    store, file, offsets = broker.store, broker.files.delay_offsets, broker.delay_offsets

    def snapshot() -> DelayOffsetTable:
        table = offsets.table(store.flushed_offset, now_ms())
        if not offsets.is_settled:
            changed()  # what is not durable yet is written later
        return table

    interval_s = broker.config().flush_delay_offset_interval / 1000
    changed = broker.persistence.add("delayOffset", file, snapshot, interval_s)
    delivery = DelayedDelivery(store, levels, offsets, broker.statistics, now_ms, changed)
    broker.services.append(delivery.run)


def add_timers(broker: BrokerParts) -> None:
    """Messages that wait for a time of their own."""
    timers, metrics, config = broker.timers, broker.timer_metrics, broker.config()
    handlers = TimerHandlers(timers, metrics, now_ms)
    handlers.add_to(broker.registry.limited(config.admin_wait_max_ms))
    if timers is None:
        return
    interval_s = config.timer_flush_interval_ms / 1000
    metrics.on_change(
        broker.persistence.add(
            "timer_metrics", broker.files.timer_metrics, metrics.table, interval_s
        )
    )
    broker.topics.on_change(lambda name: _forget_deleted(broker, name))
    delivery = TimedDelivery(
        broker.store, timers, metrics, broker.statistics, now_ms, flush_interval_s=interval_s
    )
    broker.services.append(delivery.run)


def _forget_deleted(broker: BrokerParts, topic: str | None) -> None:
    if topic is not None and broker.topics.get(topic) is None:
        broker.timer_metrics.forget(topic)


def add_receiving(broker: BrokerParts) -> None:
    """Pulls, filters, offsets, queries, scans."""
    add_pulls(broker)
    add_scans(broker)
    OffsetHandlers(
        store=broker.store,
        topics=broker.topics,
        groups=broker.groups,
        offsets=broker.offsets,
        config=broker.config,
    ).add_to(broker.registry)
    QueryHandlers(
        store=broker.store,
        consumers=broker.consumers,
        filters=broker.filters,
        config=broker.config,
    ).add_to(broker.registry)


def add_pulls(broker: BrokerParts) -> None:
    held, cold_reads = broker.held_pulls, ColdReads()
    checks = PullChecks(
        topics=broker.topics,
        groups=broker.groups,
        choice=FilterChoice(
            consumers=broker.consumers,
            groups=broker.groups,
            filters=broker.filters,
            config=broker.config,
            now_ms=now_ms,
        ),
        config=broker.config,
        broker_ip=broker.addresses.ip,
    )
    broker.services.append(lambda: _expire_carried(broker, checks))
    pulls = PullHandlers(
        store=broker.store,
        checks=checks,
        offsets=broker.offsets,
        held=held,
        cold_reads=cold_reads,
        statistics=broker.statistics,
        config=broker.config,
        steady_ms=steady_ms,
    )
    pulls.add_to(broker.registry)
    polling = LongPolling(
        held,
        pulls.replay,
        max_offset=broker.store.max_offset,
        config=broker.config,
        steady_ms=steady_ms,
        write_answers=broker.write_turn.write,
    )
    broker.store.dispatcher.on_queue_grown(polling.queue_grown)
    broker.store.dispatcher.on_queues_told(polling.run_woken)
    broker.offsets.on_reset(polling.notify)
    broker.services.append(polling.watch)
    broker.closings.append(held.drop)

    def stop() -> None:
        pulls.may_hold = False
        polling.answer_all()

    broker.stopping.append(stop)
    broker.endings.append(cold_reads.close)


def add_scans(broker: BrokerParts) -> None:
    """Whole queues for those who read them as data."""
    file, persistence = broker.files.scan_starts, broker.persistence
    starts = ScanStarts(file.load())
    changed = persistence.add("scan_starts", file, starts.table)

    async def save() -> None:
        await persistence.save_now("scan_starts")

    def note(is_changed: bool) -> None:
        if is_changed:
            changed()

    broker.offsets.on_removal(
        lambda topic: note(starts.remove_topic(topic)),
        lambda group: note(starts.remove_group(group)),
    )

    ScanGroupHandlers(
        store=broker.store,
        topics=broker.topics,
        groups=broker.groups,
        consumers=broker.consumers,
        offsets=broker.offsets,
        starts=starts,
        starts_changed=changed,
        save_starts=save,
        store_root=broker.settings.store.root,
        store_id=renew_store_id(broker.settings.store.root, broker.store.disk),
    ).add_to(broker.registry)
    cold_reads = ColdReads(COLD_THREADS_MAX)
    ScanHandlers(
        store=broker.store,
        topics=broker.topics,
        cold_reads=cold_reads,
        turns=ScanTurns(),
        config=broker.config,
        steady_s=time.monotonic,
    ).add_to(broker.registry)
    broker.endings.append(cold_reads.close)


async def _expire_carried(broker: BrokerParts, checks: PullChecks) -> None:
    """Pulls that are remembered do not repeat their subscription: they are asked again in time."""
    while True:
        age_max_ms = broker.config().subscription_expired_timeout
        await asyncio.sleep(max(age_max_ms / 4000, CARRIED_EXPIRY_INTERVAL_MIN_S))
        broker.consumers.expire_carried(now_ms(), age_max_ms)
        checks.forget()


def add_clients(broker: BrokerParts) -> None:
    """Heartbeats, members, locks, calls to clients."""
    heartbeats = HeartbeatHandlers(
        consumers=broker.consumers,
        producers=broker.producers,
        topics=broker.topics,
        groups=broker.groups,
        filters=broker.filters,
        compile_filter=compile_sql,
        config=broker.config,
        now_ms=now_ms,
        steady_ms=steady_ms,
    )
    heartbeats.add_to(broker.registry)
    broker.consumers.on_change(
        ChangeNotices(broker.consumers, broker.groups, broker.config).group_changed
    )
    departures = Departures(
        broker.consumers,
        broker.producers,
        broker.locks,
        silence_max_ms=lambda: broker.settings.config.channel_expired_timeout,
        steady_ms=steady_ms,
    )
    broker.closings.extend([heartbeats.connection_closed, departures.connection_closed])
    broker.services.append(departures.watch)
    LockHandlers(broker.locks, steady_ms).add_to(broker.registry)
    ConnectionListHandlers(
        broker.consumers, broker.producers, now_ms=now_ms, steady_ms=steady_ms
    ).add_to(broker.registry)
    ClientCallHandlers(
        consumers=broker.consumers,
        topics=broker.topics,
        groups=broker.groups,
        record_at=lambda log_offset: asyncio.to_thread(broker.store.record_at_waiting, log_offset),
        broker_name=broker.settings.config.broker_name,
    ).add_to(broker.registry)
    ResetOffsetHandlers(
        topics=broker.topics,
        groups=broker.groups,
        consumers=broker.consumers,
        offsets=broker.offsets,
        store=broker.store,
        config=broker.config,
        broker_name=broker.settings.config.broker_name,
    ).add_to(broker.registry)
    GroupQueryHandlers(
        consumers=broker.consumers,
        offsets=broker.offsets,
        topics=broker.topics,
        min_offset=broker.store.min_offset,
        broker_address=broker.addresses.main,
    ).add_to(broker.registry)
    _add_assignments(broker)


def _add_assignments(broker: BrokerParts) -> None:
    file, persistence = broker.files.request_modes, broker.persistence
    modes = RequestModes(file.load())
    changed = persistence.add("request_modes", file, modes.table)

    async def save() -> None:
        changed()
        await persistence.save_now("request_modes")

    AssignmentHandlers(
        consumers=broker.consumers,
        topics=broker.topics,
        groups=broker.groups,
        find_route=TopicRoutes(broker.registration.route_of, steady_ms).find,
        modes=modes,
        save_modes=save,
        config=broker.config,
    ).add_to(broker.registry)
