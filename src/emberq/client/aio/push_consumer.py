"""The push consumer: handlers are called with messages as they arrive."""

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from emberq.client.aio.assignments import Assignments
from emberq.client.aio.at_hand import AtHand
from emberq.client.aio.client import Client
from emberq.client.aio.concurrent import ConcurrentConsumption
from emberq.client.aio.handlers import Batch, Handler, HandlerFunction
from emberq.client.aio.lag import Lag, lag_of
from emberq.client.aio.life import Life
from emberq.client.aio.offset_stores import BrokerOffsets, FileOffsets, OffsetStore
from emberq.client.aio.orderly import (
    LOCK_TRUSTED_S,
    RELOCK_INTERVAL_S,
    RELOCK_SOON_S,
    OrderlyConsumption,
    QueueLock,
    is_locked,
)
from emberq.client.aio.producer import Producer
from emberq.client.aio.queue_calls import QueueCalls
from emberq.client.aio.queue_work import FlowLimits, QueueWork
from emberq.client.aio.request_reply import replying
from emberq.client.aio.running_state import RunningState
from emberq.client.aio.send_back import SendBack
from emberq.client.aio.sending import seconds
from emberq.client.aio.traced_consumer import consumer_tracer
from emberq.client.codecs import codec_for
from emberq.client.core.allocation import AllocationStrategy, Average
from emberq.client.core.outgoing import check_group, check_topic
from emberq.client.core.received import ReceivedMessage
from emberq.client.core.start_offset import Start, start_of
from emberq.client.hooks import ConsumeHook
from emberq.errors import ClientClosed, ConfigError, RemotingError
from emberq.model.queue import MessageQueue
from emberq.model.subscription import (
    SQL92_EXPRESSION,
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    Subscription,
)
from emberq.model.system_topics import RETRY_PREFIX, retry_topic
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.bodies.heartbeat import ConsumerPresence
from emberq.protocol.bodies.offsets import ConsumerStatus, QueueOffsets
from emberq.protocol.command import Command, answer
from emberq.protocol.fastjson import write_json
from emberq.protocol.subscriptions import parse_tags

log = logging.getLogger(__name__)

F = TypeVar("F", bound=HandlerFunction)

WORKERS = 20
RECONSUME_MAX = 16
CONSUME_TIMEOUT_S = 15 * 60.0
# A reset waits for handlers that run, so that their offsets do not overwrite it.
RESET_PAUSE_S = 1.0
# A queue in order waits so long for its handler, then again at the next round.
GIVE_UP_WAIT_S = 0.5
# The producer of a consumer that replies has a group of its own.
REPLIES_SUFFIX = "-replies"
OFFSETS_FOLDER = Path(".rocketmq_offsets")

RebalanceListener = Callable[[set[MessageQueue], set[MessageQueue]], None]


class PushConsumer(AtHand, Life):
    """A member of a consumer group.

    consumer = PushConsumer("group", name_server="localhost:9876")

    @consumer.subscribe("orders", tags="created || paid")
    async def handle(message): ...

    consumer.run()
    """

    def __init__(
        self,
        group: str,
        *,
        client: Client | None = None,
        name_server: str | Sequence[str] | None = None,
        ordered: bool = False,
        message_model: MessageModel | str = MessageModel.CLUSTERING,
        consume_from_where: ConsumeFromWhere | str = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        consume_timestamp: datetime | None = None,
        workers: int = WORKERS,
        max_reconsume_times: int | None = None,
        consume_timeout: float | timedelta = CONSUME_TIMEOUT_S,
        allocation: AllocationStrategy | None = None,
        flow: FlowLimits | None = None,
        offsets_folder: Path | None = None,
        on_rebalance: RebalanceListener | None = None,
        trace: bool | str = False,
        hooks: Sequence[ConsumeHook] = (),
    ) -> None:
        """
        Args:
            ordered: consume every queue in order, one batch at a time.
            consume_from_where: for groups without committed offsets.
            consume_timestamp: for CONSUME_FROM_TIMESTAMP; half an hour ago by default.
            workers: threads for sync handlers, tasks for async ones.
            max_reconsume_times: then a message is dead; None: 16, for ever if ordered.
            consume_timeout: a message whose handler takes longer is given back.
            offsets_folder: where a broadcasting member keeps its offsets.
            on_rebalance: called with the queues taken and given up.
            trace: record every message that was handled, for message-trace tools; text is a
                topic of one's own for it.
            hooks: around every call of a handler, in its thread or task.
        """
        check_group(group)
        if workers < 1:
            raise ConfigError(f"workers={workers}: at least 1 is needed")
        self.group = group
        self.client = client or Client(name_server)
        self._is_client_ours = client is None
        self._wire_group = self.client.wrap(group)
        self._ordered = ordered
        self._model = MessageModel(message_model)
        self._where = ConsumeFromWhere(consume_from_where)
        self._timestamp = consume_timestamp
        self._workers = workers
        self._reconsume_max = max_reconsume_times
        self._consume_timeout_s = seconds(consume_timeout)
        self._allocation = allocation or Average()
        limits = flow or FlowLimits()
        self._limits = replace(limits, span_max=None) if ordered else limits
        self._offsets_folder = offsets_folder or Path.home() / OFFSETS_FOLDER
        self._on_rebalance = on_rebalance
        self._hooks = tuple(hooks)
        self._handlers: dict[str, Handler] = {}
        self._subscriptions: dict[str, Subscription] = {}
        # What brokers have been told; pulls must not name a version that they do not know yet.
        self._announced: dict[str, Subscription] = {}
        self._works: dict[MessageQueue, QueueWork] = {}
        self._chores: list[asyncio.Task[None]] = []
        self._replier: Producer | None = None
        self._tracer = consumer_tracer(self.client, group, trace)
        self._is_open = False
        self._is_paused = False
        self._stop_wanted: asyncio.Event | None = None
        self.started_at_ms = 0

    # Subscribing

    def subscribe(
        self,
        topic: str,
        *,
        tags: str | None = None,
        sql: str | None = None,
        codec: Any = bytes,
        batch_size: int = 1,
    ) -> Callable[[F], F]:
        """Decorate a function that handles messages of a topic.

        Args:
            tags: `*`, or tags joined by `||`.
            sql: an SQL92 expression over properties, where the broker allows it.
            codec: what `message.value` is; see Producer.
            batch_size: above 1 the handler is called with a list.
        """

        def register(function: F) -> F:
            self.add_handler(
                topic, function, tags=tags, sql=sql, codec=codec, batch_size=batch_size
            )
            return function

        return register

    def add_handler(
        self,
        topic: str,
        function: HandlerFunction,
        *,
        tags: str | None = None,
        sql: str | None = None,
        codec: Any = bytes,
        batch_size: int = 1,
    ) -> None:
        """The same without a decorator. Raises ConfigError."""
        check_topic(topic)
        if topic in self._handlers:
            raise ConfigError(f"{topic} has a handler already")
        if tags is not None and sql is not None:
            raise ConfigError(f"{topic} is filtered by tags or by SQL, not by both")
        if not 1 <= batch_size <= 1024:
            raise ConfigError(f"batch_size={batch_size}: expected 1 to 1024")
        wire_topic = self.client.wrap(topic)
        self._handlers[topic] = Handler(function, codec_for(codec), batch_size, hooks=self._hooks)
        version = _now_ms()
        if sql is not None:
            self._subscriptions[wire_topic] = Subscription(
                topic=wire_topic, expression=sql, expression_type=SQL92_EXPRESSION, version=version
            )
        else:
            self._subscriptions[wire_topic] = parse_tags(tags, wire_topic, version)
        if self._is_open:
            self._assignments.soon()

    def reply(
        self,
        topic: str,
        *,
        tags: str | None = None,
        sql: str | None = None,
        codec: Any = bytes,
    ) -> Callable[[F], F]:
        """Decorate a function whose return value is the reply to a request; None: no reply.

        Args:
            codec: of the request's value and of the reply.

        Raises:
            ConfigError: the consumer has started already.
        """
        if self._is_open:
            raise ConfigError(f"{topic}: functions that reply are added before the start")
        if self._replier is None:
            self._replier = Producer(f"{self.group}{REPLIES_SUFFIX}", client=self.client)
        producer, encode = self._replier, codec_for(codec).encode

        async def reply_to(message: ReceivedMessage, value: object) -> None:
            await producer.reply_to(message, encode(value))

        def register(function: F) -> F:
            handler = replying(function, reply_to, lambda: self._loop)
            self.add_handler(topic, handler, tags=tags, sql=sql, codec=codec)
            return function

        return register

    # Life

    async def start(self) -> None:
        """Join the group and begin to consume. Raises NoNameServer, ConfigError, ClientError."""
        if not self._handlers:
            raise ConfigError("nothing is subscribed")
        if self._is_open:
            return
        self._build()
        await self.client.start()
        self._loop = asyncio.get_running_loop()
        for part in (self._replier, self._tracer):
            if part is not None:
                await part.start()
        self.client.add_consumer(self._wire_group, self)
        self._is_open = True
        self.started_at_ms = _now_ms()
        for topic in self._subscriptions:
            self.client.watch(topic)
        await self.client.routes.refresh_all(self._subscriptions)
        await self._announce()
        self._consumption.start()
        client, settings = self.client, self.client.settings
        self._chores = [
            client.spawn(self._assignments.run(), "share"),
            client.spawn(self._repeat(settings.persist_offsets, self._save_offsets), "offsets"),
            client.spawn(self._repeat(self._consume_timeout_s, self._expire), "expiry"),
        ]
        if self._ordered and not self._is_broadcasting:
            self._chores.append(client.spawn(self._keep_locks(), "locks"))
        client.routes.on_change(self._route_changed)

    async def close(self) -> None:
        """Stop pulling, let handlers finish, commit, leave the group."""
        if self._is_open:
            self._is_open = False
            await self._leave_group()
        for part in (self._replier, self._tracer):
            if part is not None:
                await part.close()
        if self._is_client_ours:
            await self.client.close()
        if self._stop_wanted is not None:
            self._stop_wanted.set()

    async def _leave_group(self) -> None:
        self.client.routes.off_change(self._route_changed)
        for chore in self._chores:
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        works = list(self._works.values())
        for work in works:
            work.stop_pulling()
        unfinished = await self._consumption.drain(self.client.settings.close_timeout)
        if unfinished:
            log.warning("consumer_closed group=%s unfinished=%d", self.group, unfinished)
        await self._offsets.hand_over(list(self._works))
        for work in works:
            work.drop()
        if self._ordered and not self._is_broadcasting:
            await self._lock.unlock(list(self._works))
        self._works.clear()
        await self.client.remove_consumer(self._wire_group)

    async def run(self) -> None:
        """Consume until SIGINT, SIGTERM or `stop`, then finish what is under way."""
        stop = self._stop_wanted = asyncio.Event()
        loop = asyncio.get_running_loop()
        handled = []
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(number, stop.set)
                handled.append(number)
            except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main
                break  # thread: the caller stops us
        try:
            async with self:
                await stop.wait()
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    def stop(self) -> None:
        """Make `run` return."""
        if self._stop_wanted is not None:
            self._stop_wanted.set()

    async def settled(self) -> None:
        """Return when this member has its share of queues."""
        self._check_open()
        await self._assignments.settled()

    # Control and facts

    def pause(self) -> None:
        """Pull no more; what is here is still consumed."""
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        for work in self._works.values():
            work.made_room()

    @property
    def is_ordered(self) -> bool:
        return self._ordered

    @property
    def workers(self) -> int:
        return self._workers

    def committed(self, queue: MessageQueue) -> int:
        """How far a queue is consumed here; -1: nothing yet."""
        return self._offsets.known(queue)

    @property
    def queues(self) -> list[MessageQueue]:
        """The share of this member, topics as the user knows them."""
        return sorted(map(self._unwrapped, self._works))

    def lag(self) -> list[Lag]:
        """How far each queue is behind, by what the last pull said."""
        return [
            lag_of(work, self._unwrapped(queue), self._offsets.known(queue))
            for queue, work in self._works.items()
        ]

    # What the client asks (ConsumerPart)

    def presence(self) -> ConsumerPresence:
        return ConsumerPresence(
            group=self._wire_group,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=self._model,
            consume_from_where=self._where,
            subscriptions=list(self._all_subscriptions().values()),
        )

    def share_out_soon(self) -> None:
        self._assignments.soon()

    def met_again(self) -> None:
        self._offsets.say_again()
        self._assignments.soon()

    async def reset_offsets(self, request: Command) -> None:
        """Move to other offsets, perhaps back; handlers that run get a moment to finish."""
        offsets = decode_body(QueueOffsets, request.body).offsets
        was_paused = self._is_paused
        self.pause()
        try:
            moved = [(queue, offsets[queue]) for queue in list(self._works) if queue in offsets]
            works = [self._works.pop(queue) for queue, _ in moved]
            for work in works:
                work.drop()
            await asyncio.sleep(RESET_PAUSE_S)
            for work in works:
                await self._settled(work)
            for queue, offset in moved:
                self._offsets.set(queue, offset)
                log.info("offset_reset queue=%s offset=%d", queue, offset)
            await self._offsets.save([queue for queue, _ in moved])
            for queue, _ in moved:
                self._offsets.forget(queue)
        finally:
            if not was_paused:
                self.resume()
            self._assignments.soon()

    def offsets_answer(self, request: Command) -> Command:
        topic = (request.fields or {}).get("topic")
        offsets = {
            queue: self._offsets.known(queue)
            for queue in self._works
            if not topic or queue.topic == topic
        }
        return answer(request, body=write_json(ConsumerStatus(offsets=offsets)))

    async def running_answer(self, request: Command) -> Command:
        return answer(request, body=write_json(self._running.state(request)))

    async def direct_answer(self, request: Command) -> Command:
        return await self._running.consume_directly(request)

    # Queues come and go (QueueTaker)

    @property
    def works(self) -> Mapping[MessageQueue, QueueWork]:
        return self._works

    async def take(self, queue: MessageQueue) -> bool:
        is_locked_by_broker = self._ordered and not self._is_broadcasting
        if is_locked_by_broker and queue not in (await self._lock.lock([queue]))[0]:
            log.debug("queue_not_locked queue=%s", queue)
            return False
        self._offsets.forget(queue)
        offset = await self._start_offset(queue)
        work = QueueWork(
            self.client,
            self._wire_group,
            queue,
            offset,
            subscription=lambda: self._subscription_to_pull(queue.topic),
            limits=self._limits,
            commit_offset=lambda: self._commit_offset(queue),
            note_offset=lambda offset: self._offsets.note(queue, offset),
            consumption=self._consumption,
            on_moved=self._offset_moved,
            is_paused=lambda: self._is_paused,
            may_pull=self._may_pull,
        )
        work.locked_until = time.monotonic() + LOCK_TRUSTED_S if is_locked_by_broker else 1e18
        self._works[queue] = work
        work.start()
        return True

    async def give_up(self, queue: MessageQueue) -> bool:
        work = self._works[queue]
        if not await self._settled(work):
            return False
        work.drop()
        self._works.pop(queue, None)
        await self._offsets.hand_over([queue])
        self._offsets.forget(queue)
        if self._ordered and not self._is_broadcasting:
            await self._lock.unlock([queue])
        return True

    # How it is done

    async def _settled(self, work: QueueWork) -> bool:
        """In order: who gets the queue next must not overtake the batch that is being consumed,
        so the lock stays until it is done, or has hung for too long."""
        if not isinstance(self._consumption, OrderlyConsumption):
            return True
        work.leave()
        if not await self._consumption.settle(work, GIVE_UP_WAIT_S):
            assert work.leaving_since is not None
            if time.monotonic() - work.leaving_since < self._consume_timeout_s:
                log.info("queue_kept queue=%s reason=its handler still runs", work.queue)
                return False
            log.warning("queue_abandoned queue=%s reason=its handler hangs", work.queue)
        self._consumption.forget(work)
        return True

    def _consumed(
        self, handler: Handler, batch: Batch, error: Exception | None, took_s: float
    ) -> None:
        self._running.consumed(handler, batch, error, took_s)
        if self.client.measures is not None:
            topic = self.client.unwrap(batch[0].topic)
            self.client.measures.handled(self.group, topic, len(batch), error, took_s)
        if self._tracer is not None:
            self._tracer.consumed(batch, error, took_s)

    def _build(self) -> None:
        client, group = self.client, self._wire_group
        self._calls = QueueCalls(client)
        self._lock = QueueLock(client, group)
        self._offsets: OffsetStore
        if self._is_broadcasting:
            folder = self._offsets_folder / client.client_id / group
            self._offsets = FileOffsets(folder / "offsets.json")
        else:
            self._offsets = BrokerOffsets(self._calls, group)
        send_back = SendBack(client, group, self._reconsume_limit)
        self._running = RunningState(self, self._handlers)
        self._consumption: ConcurrentConsumption | OrderlyConsumption
        if self._ordered:
            self._consumption = OrderlyConsumption(
                client,
                send_back,
                handler_of=self._handler_of,
                workers=self._workers,
                reconsume_max=self._reconsume_max,
                note_offset=self._offsets.set,
                on_consumed=self._consumed,
            )
        else:
            self._consumption = ConcurrentConsumption(
                client,
                None if self._is_broadcasting else send_back,
                handler_of=self._handler_of,
                workers=self._workers,
                note_offset=self._offsets.note,
                on_consumed=self._consumed,
            )
        self._assignments = Assignments(
            client,
            group,
            self,
            topics=lambda: self._all_subscriptions().keys(),
            strategy=self._allocation,
            is_broadcasting=self._is_broadcasting,
            is_paused=lambda: self._is_paused,
            on_change=self._share_changed,
        )

    @property
    def _is_broadcasting(self) -> bool:
        return self._model is MessageModel.BROADCASTING

    @property
    def _reconsume_limit(self) -> int:
        if self._reconsume_max is not None:
            return self._reconsume_max
        return (1 << 31) - 1 if self._ordered else RECONSUME_MAX

    def _all_subscriptions(self) -> dict[str, Subscription]:
        """With the group's retries, which come back by themselves."""
        if self._is_broadcasting:
            return self._subscriptions
        retries = retry_topic(self._wire_group)
        return {**self._subscriptions, retries: Subscription(topic=retries, expression="*")}

    def _subscription_to_pull(self, topic: str) -> Subscription:
        return self._announced.get(topic) or self._all_subscriptions()[topic]

    async def _announce(self) -> None:
        subscriptions = dict(self._subscriptions)
        await self.client.heartbeats.beat(is_whole=True)
        self._announced = subscriptions

    def _handler_of(self, topic: str) -> Handler | None:
        return self._handlers.get(self.client.unwrap(topic))

    async def _start_offset(self, queue: MessageQueue) -> int:
        stored = await self._offsets.load(queue)
        is_retry = queue.topic.startswith(RETRY_PREFIX)
        match start_of(stored, self._where, is_retry_topic=is_retry):
            case Start.STORED:
                return stored
            case Start.FIRST:
                return 0
            case Start.END:
                return await self._calls.max_offset(queue)
            case Start.TIME:
                return await self._calls.offset_by_time(queue, self._timestamp_ms())

    def _timestamp_ms(self) -> int:
        if self._timestamp is not None:
            return round(self._timestamp.timestamp() * 1000)
        return _now_ms() - 30 * 60 * 1000

    def _commit_offset(self, queue: MessageQueue) -> int:
        return 0 if self._is_broadcasting else self._offsets.known(queue)

    def _offset_moved(self, work: QueueWork, offset: int) -> None:
        """The broker begins elsewhere, or an administrator moved the group."""
        work.drop()  # at once: what finishes late must not overwrite the offset
        self._offsets.set(work.queue, offset)
        self.client.spawn(self._restart(work), "restart")

    async def _restart(self, work: QueueWork) -> None:
        await self._offsets.save([work.queue])
        while not await self._settled(work):
            continue
        if self._works.get(work.queue) is work:
            del self._works[work.queue]
        self._assignments.soon()

    def _may_pull(self, work: QueueWork) -> bool:
        return not self._ordered or is_locked(work)

    async def _share_changed(self, taken: set[MessageQueue], given_up: set[MessageQueue]) -> None:
        log.info(
            "share_changed group=%s queues=%d taken=%d given_up=%d",
            self.group,
            len(self._works),
            len(taken),
            len(given_up),
        )
        if self.client.measures is not None:
            self.client.measures.rebalanced(self.group)
        version = _now_ms()
        for topic in {queue.topic for queue in taken | given_up} & self._subscriptions.keys():
            self._subscriptions[topic] = replace(self._subscriptions[topic], version=version)
        if self._on_rebalance is not None:
            try:
                self._on_rebalance(
                    set(map(self._unwrapped, taken)), set(map(self._unwrapped, given_up))
                )
            except Exception:
                log.exception("rebalance_listener_failed group=%s", self.group)
        await self._announce()

    def _route_changed(self, topic: str) -> None:
        if self._is_open and topic in self._all_subscriptions():
            self._assignments.soon()

    async def _save_offsets(self) -> None:
        await self._offsets.save(list(self._works))

    async def _expire(self) -> None:
        await self._consumption.expire(list(self._works.values()), self._consume_timeout_s)

    async def _keep_locks(self) -> None:
        pause_s = RELOCK_INTERVAL_S
        while True:
            await asyncio.sleep(pause_s)
            try:
                pause_s = RELOCK_INTERVAL_S if await self._relock() else RELOCK_SOON_S
            except Exception:
                log.exception("chore_failed")

    async def _relock(self) -> bool:
        """False: not all could be locked. A broker that does not answer takes no lock away: ours
        is trusted until its time is over."""
        asked = dict(self._works)  # those that come meanwhile have just been locked
        locked, refused = await self._lock.lock(list(asked))
        until = time.monotonic() + LOCK_TRUSTED_S
        for queue in locked & asked.keys():
            asked[queue].locked_until = until
        for queue in refused:
            log.warning("lock_lost queue=%s", queue)
            asked[queue].locked_until = 0.0
        return len(locked) == len(asked)

    async def _repeat(self, interval_s: float, work: Callable[[], Any]) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await work()
            except RemotingError as error:
                log.warning("chore_failed reason=%s", error)
            except Exception:
                log.exception("chore_failed")

    def _unwrapped(self, queue: MessageQueue) -> MessageQueue:
        return MessageQueue(queue.broker_name, queue.queue_id, self.client.unwrap(queue.topic))

    def _check_open(self) -> None:
        if not self._is_open:
            raise ClientClosed("the consumer is not running", hint="Use it within 'async with'")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
