"""The pull consumer: the program asks for messages when it wants them (lite pull).

Offsets are committed for what the program has finished with: a batch from `poll` counts as
finished at the next `poll`, a message of the iteration when its loop body is through.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any

from msgspec.structs import replace

from emberq.client.aio.assignments import Assignments
from emberq.client.aio.at_hand import AtHand
from emberq.client.aio.client import Client
from emberq.client.aio.lag import Lag, lag_of
from emberq.client.aio.life import Life
from emberq.client.aio.offset_stores import BrokerOffsets
from emberq.client.aio.queue_calls import QueueCalls
from emberq.client.aio.queue_work import FlowLimits, QueueWork
from emberq.client.aio.sending import seconds
from emberq.client.aio.traced_consumer import consumer_tracer
from emberq.client.codecs import BYTES, codec_for
from emberq.client.core.allocation import AllocationStrategy, Average
from emberq.client.core.outgoing import check_group, check_topic
from emberq.client.core.received import ReceivedMessage
from emberq.client.core.start_offset import Start, start_of
from emberq.errors import ClientClosed, ClientError, ConfigError
from emberq.model.queue import MessageQueue
from emberq.model.subscription import (
    SQL92_EXPRESSION,
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    Subscription,
)
from emberq.protocol.bodies.heartbeat import ConsumerPresence
from emberq.protocol.bodies.offsets import ConsumerStatus
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.fastjson import write_json
from emberq.protocol.subscriptions import parse_tags

log = logging.getLogger(__name__)

POLL_TIMEOUT_S = 5.0
POLL_COUNT = 32
COMMIT_INTERVAL_S = 5.0
# Messages of all queues together; pulls wait above it.
CACHED_MAX = 10_000


class PullConsumer(AtHand, Life):
    """Use `subscribe` for a share of topics, or `assign` for queues of your own choice.

    async with PullConsumer("group", name_server="localhost:9876") as consumer:
        await consumer.subscribe("orders")
        async for message in consumer:
            ...
    """

    def __init__(
        self,
        group: str,
        *,
        client: Client | None = None,
        name_server: str | Sequence[str] | None = None,
        codec: Any = bytes,
        auto_commit: bool = True,
        auto_commit_interval: float | timedelta = COMMIT_INTERVAL_S,
        consume_from_where: ConsumeFromWhere | str = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        consume_timestamp: datetime | None = None,
        allocation: AllocationStrategy | None = None,
        flow: FlowLimits | None = None,
        cached_max: int = CACHED_MAX,
        trace: bool | str = False,
    ) -> None:
        """
        Args:
            auto_commit: commit what is finished every `auto_commit_interval`, and at the end.
            cached_max: messages of all queues that wait for `poll`.
            trace: record every message that was finished, for message-trace tools; text is a
                topic of one's own for it.
        """
        check_group(group)
        self.group = group
        self.client = client or Client(name_server)
        self._is_client_ours = client is None
        self._wire_group = self.client.wrap(group)
        self._codec = codec_for(codec)
        self._auto_commit = auto_commit
        self._commit_interval_s = seconds(auto_commit_interval)
        self._where = ConsumeFromWhere(consume_from_where)
        self._timestamp = consume_timestamp
        self._allocation = allocation or Average()
        self._limits = replace(flow or FlowLimits(), span_max=None)
        self._cached_max = cached_max
        self._calls = QueueCalls(self.client)
        self._offsets = BrokerOffsets(self._calls, self._wire_group)
        self._subscriptions: dict[str, Subscription] = {}
        self._assigned: set[MessageQueue] | None = None
        self._works: dict[MessageQueue, QueueWork] = {}
        self._paused: set[MessageQueue] = set()
        self._waiting: deque[tuple[QueueWork, ReceivedMessage]] = deque()
        self._has_messages = asyncio.Event()
        # Handed out by the last poll; finished when the next one comes.
        self._handed_out: list[tuple[QueueWork, ReceivedMessage]] = []
        self._handed_out_at = 0.0
        self._tracer = consumer_tracer(self.client, group, trace)
        self._chores: list[asyncio.Task[None]] = []
        self._is_open = False

    # Life

    async def start(self) -> None:
        """Raises NoNameServer, ClientError."""
        if self._is_open:
            return
        await self.client.start()
        self._assignments = Assignments(
            self.client,
            self._wire_group,
            self,
            topics=lambda: [] if self._assigned is not None else list(self._subscriptions),
            strategy=self._allocation,
            is_broadcasting=False,
            # Queues that were assigned by hand are nobody's to share out.
            is_paused=lambda: self._assigned is not None,
            on_change=self._share_changed,
        )
        if self._tracer is not None:
            await self._tracer.start()
        self.client.add_consumer(self._wire_group, self)
        self._is_open = True
        self._chores = [self.client.spawn(self._assignments.run(), "share")]
        if self._auto_commit:
            self._chores.append(self.client.spawn(self._commit_repeatedly(), "commits"))

    async def close(self) -> None:
        """Commit what is finished, and leave. What was handed out last is not finished unless the
        iteration ended or `commit` was called."""
        if self._is_open:
            self._is_open = False
            for chore in self._chores:
                chore.cancel()
            await asyncio.gather(*self._chores, return_exceptions=True)
            for work in self._works.values():
                work.drop()
            if self._auto_commit:
                await self._offsets.hand_over(list(self._works))
            self._works.clear()
            self._has_messages.set()
            await self.client.remove_consumer(self._wire_group)
        if self._tracer is not None:
            await self._tracer.close()
        if self._is_client_ours:
            await self.client.close()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._finish_handed_out()
        await self.close()

    # What to read

    async def subscribe(
        self, topic: str, *, tags: str | None = None, sql: str | None = None
    ) -> None:
        """Read a share of a topic's queues, which members of the group divide among themselves.

        Raises:
            ConfigError: queues were assigned by hand.
        """
        check_topic(topic)
        self._check_open()
        if self._assigned is not None:
            raise ConfigError(
                "queues are assigned by hand: subscribe and assign exclude each other"
            )
        self._note_subscription(topic, tags, sql)
        await self.client.routes.refresh_all([self.client.wrap(topic)])
        await self.client.heartbeats.beat(is_whole=True)
        self._assignments.begin_anew()

    async def assign(self, queues: Collection[MessageQueue], *, tags: str | None = None) -> None:
        """Read just these queues, whatever other members do.

        Raises:
            ConfigError: topics were subscribed.
        """
        self._check_open()
        if self._assigned is None and self._subscriptions:
            raise ConfigError("topics are subscribed: subscribe and assign exclude each other")
        # First of all: nothing of these topics is to be shared out meanwhile.
        wanted = self._assigned = {self._wrapped(queue) for queue in queues}
        for topic in {queue.topic for queue in queues}:
            self._note_subscription(topic, tags, None)
            await self.client.subscribe_queues(self.client.wrap(topic))
        await self.client.heartbeats.beat(is_whole=True)
        for queue in self._works.keys() - wanted:
            await self.give_up(queue)
        for queue in wanted - self._works.keys():
            await self.take(queue)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic. Raises TopicNotFound, NoNameServer."""
        self._check_open()
        return list(
            map(self._unwrapped, await self.client.subscribe_queues(self.client.wrap(topic)))
        )

    @property
    def assignment(self) -> list[MessageQueue]:
        """What this consumer reads."""
        return sorted(map(self._unwrapped, self._works))

    async def settled(self) -> None:
        """Return when this member has its share."""
        self._check_open()
        await self._assignments.settled()

    def lag(self) -> list[Lag]:
        """How far each queue is behind, by what the last pull said."""
        return [
            lag_of(work, self._unwrapped(queue), self._offsets.known(queue))
            for queue, work in self._works.items()
        ]

    # Reading

    async def poll(
        self, count: int = POLL_COUNT, *, timeout: float | timedelta = POLL_TIMEOUT_S
    ) -> list[ReceivedMessage]:
        """The next messages, none if none came in time. What the last poll gave is finished now."""
        self._check_open()
        self._finish_handed_out()
        deadline = time.monotonic() + seconds(timeout)
        while not (messages := self._take(count)):
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not self._is_open:
                return []
            self._has_messages.clear()
            try:
                async with asyncio.timeout(left_s):
                    await self._has_messages.wait()
            except TimeoutError:
                continue
        return messages

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Messages one by one, for ever; each is finished when the loop asks for the next."""
        while self._is_open:
            for message in await self.poll(1):
                yield message
        self._finish_handed_out()

    # Positions

    async def commit(self) -> None:
        """Everything that was handed out is finished: store it, and return when that is done."""
        self._check_open()
        self._finish_handed_out()
        for queue in list(self._works):  # a rebalance may come while a commit is on its way
            offset = self._offsets.known(queue)
            if offset >= 0:
                await self._calls.commit(self._wire_group, queue, offset, is_oneway=False)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's offset at the broker; None: it has none."""
        self._check_open()
        offset = await self._calls.committed(self._wire_group, self._wrapped(queue))
        return None if offset < 0 else offset

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Read on from another offset. Raises ClientError if the queue has no such offset."""
        self._check_open()
        wire = self._wrapped(queue)
        if wire not in self._works:
            raise ClientError(f"{queue} is not assigned to this consumer")
        low, high = await self._calls.min_offset(wire), await self._calls.max_offset(wire)
        if not low <= offset <= high:
            raise ClientError(f"{queue} has offsets from {low} to {high}, not {offset}")
        self._drop(wire)
        self._offsets.set(wire, offset)
        self._begin(wire, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        await self.seek(queue, await self._calls.min_offset(self._wrapped(queue)))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        await self.seek(queue, await self._calls.max_offset(self._wrapped(queue)))

    async def offset_for_time(self, queue: MessageQueue, moment: datetime) -> int:
        """The first message stored at or after a moment."""
        self._check_open()
        time_ms = round(moment.timestamp() * 1000)
        return await self._calls.offset_by_time(self._wrapped(queue), time_ms)

    def pause(self, *queues: MessageQueue) -> None:
        """Pull these no more; what is here already still comes out of `poll`."""
        self._paused.update(map(self._wrapped, queues))

    def resume(self, *queues: MessageQueue) -> None:
        for queue in map(self._wrapped, queues):
            self._paused.discard(queue)
            if queue in self._works:
                self._works[queue].made_room()

    # What the client asks (ConsumerPart)

    def presence(self) -> ConsumerPresence:
        return ConsumerPresence(
            group=self._wire_group,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            message_model=MessageModel.CLUSTERING,
            consume_from_where=self._where,
            subscriptions=list(self._subscriptions.values()),
        )

    def share_out_soon(self) -> None:
        self._assignments.soon()

    def met_again(self) -> None:
        self._offsets.say_again()
        self._assignments.soon()

    async def reset_offsets(self, request: Command) -> None:
        log.info("reset_ignored group=%s reason=a pull consumer seeks by itself", self.group)

    def offsets_answer(self, request: Command) -> Command:
        offsets = {queue: self._offsets.known(queue) for queue in self._works}
        return answer(request, body=write_json(ConsumerStatus(offsets=offsets)))

    async def running_answer(self, request: Command) -> Command:
        return answer(request, ResponseCode.SYSTEM_ERROR, "a pull consumer has no handlers")

    async def direct_answer(self, request: Command) -> Command:
        return answer(request, ResponseCode.SYSTEM_ERROR, "a pull consumer has no handlers")

    # Queues come and go (QueueTaker), messages come in (Consumption)

    @property
    def works(self) -> Mapping[MessageQueue, QueueWork]:
        return self._works

    async def take(self, queue: MessageQueue) -> bool:
        self._offsets.forget(queue)
        self._begin(queue, await self._start_offset(queue))
        return True

    async def give_up(self, queue: MessageQueue) -> bool:
        self._drop(queue)
        if self._auto_commit:
            await self._offsets.hand_over([queue])
        self._offsets.forget(queue)
        return True

    def submit(self, work: QueueWork, messages: list[ReceivedMessage]) -> None:
        self._waiting.extend((work, message) for message in messages)
        self._has_messages.set()

    # How it is done

    def _begin(self, queue: MessageQueue, offset: int) -> None:
        work = QueueWork(
            self.client,
            self._wire_group,
            queue,
            offset,
            subscription=lambda: self._subscriptions[queue.topic],
            limits=self._limits,
            commit_offset=lambda: 0,
            note_offset=lambda offset: None,
            consumption=self,
            on_moved=self._offset_moved,
            is_paused=lambda: queue in self._paused,
            may_pull=lambda work: len(self._waiting) < self._cached_max,
            is_subscription_sent=True,
        )
        self._works[queue] = work
        work.start()

    def _drop(self, queue: MessageQueue) -> None:
        self._works.pop(queue).drop()
        self._waiting = deque(each for each in self._waiting if not each[0].is_dropped)
        self._handed_out = [each for each in self._handed_out if not each[0].is_dropped]

    def _take(self, count: int) -> list[ReceivedMessage]:
        waiting = self._waiting
        self._handed_out_at = time.monotonic()
        decode = None if self._codec is BYTES else self._codec.decode
        while waiting and len(self._handed_out) < count:
            work, message = waiting.popleft()
            if work.is_dropped:
                continue
            self._handed_out.append((work, message))
            if decode is not None:  # a body that makes no sense is the caller's to skip
                message.value = decode(message.body)
        return [message for _, message in self._handed_out]

    def _finish_handed_out(self) -> None:
        if self._tracer is not None and self._handed_out:
            batch = [message for work, message in self._handed_out if not work.is_dropped]
            self._tracer.consumed(batch, None, time.monotonic() - self._handed_out_at)
        for work, message in self._handed_out:
            if not work.is_dropped:
                offset = work.messages.remove([message])
                if offset >= 0:
                    self._offsets.set(work.queue, offset)
                work.made_room()
        self._handed_out.clear()

    def _offset_moved(self, work: QueueWork, offset: int) -> None:
        self._drop(work.queue)
        self._offsets.set(work.queue, offset)
        self._begin(work.queue, offset)

    async def _start_offset(self, queue: MessageQueue) -> int:
        stored = await self._offsets.load(queue)
        match start_of(stored, self._where, is_retry_topic=False):
            case Start.STORED:
                return stored
            case Start.FIRST:
                return 0
            case Start.END:
                return await self._calls.max_offset(queue)
            case Start.TIME:
                moment = self._timestamp or datetime.now().astimezone() - timedelta(minutes=30)
                return await self._calls.offset_by_time(queue, round(moment.timestamp() * 1000))

    def _note_subscription(self, topic: str, tags: str | None, sql: str | None) -> None:
        if tags is not None and sql is not None:
            raise ConfigError(f"{topic} is filtered by tags or by SQL, not by both")
        wire = self.client.wrap(topic)
        version = time.time_ns() // 1_000_000
        if sql is not None:
            self._subscriptions[wire] = Subscription(
                topic=wire, expression=sql, expression_type=SQL92_EXPRESSION, version=version
            )
        else:
            self._subscriptions[wire] = parse_tags(tags, wire, version)

    async def _share_changed(self, taken: set[MessageQueue], given_up: set[MessageQueue]) -> None:
        if self.client.measures is not None:
            self.client.measures.rebalanced(self.group)
        await self.client.heartbeats.beat(is_whole=True)

    async def _commit_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(self._commit_interval_s)
            await self._offsets.save(list(self._works))

    def _check_open(self) -> None:
        if not self._is_open:
            self.client.check_running()
            raise ClientClosed("the consumer is closed", hint="Use it within 'async with'")

    def _wrapped(self, queue: MessageQueue) -> MessageQueue:
        return MessageQueue(queue.broker_name, queue.queue_id, self.client.wrap(queue.topic))

    def _unwrapped(self, queue: MessageQueue) -> MessageQueue:
        return MessageQueue(queue.broker_name, queue.queue_id, self.client.unwrap(queue.topic))
