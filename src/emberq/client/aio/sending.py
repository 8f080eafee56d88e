"""The way of a producer's messages to their brokers: a queue, an attempt, and the next one.

Nearly every message needs one attempt, and everything it needs is at hand: that one is begun
without waiting for anything. All else takes the long way.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from math import inf

from msgspec import Struct

from emberq.client.aio.client import Client
from emberq.client.aio.connections import StartedCall
from emberq.client.aio.room import Room
from emberq.client.aio.trace import Tracer
from emberq.client.broker_failures import broker_failure
from emberq.client.core.broker_faults import BrokerFaults
from emberq.client.core.message import Message, Selector, SendResult
from emberq.client.core.outgoing import Outgoing, plain_outgoing
from emberq.client.core.queue_choice import RoundRobin, queue_by_key
from emberq.client.core.send_attempts import RETRIED_CODES, is_result, send_result
from emberq.client.core.send_request import SendRequests
from emberq.errors import (
    BrokerError,
    BrokerNotFound,
    CallTimeout,
    ConnectFailed,
    MessageRefused,
    RemotingError,
    SendFailed,
    TopicNotFound,
)
from emberq.model.queue import MessageQueue
from emberq.protocol.codes import ResponseCode

_SUCCESS = int(ResponseCode.SUCCESS)


class SendPolicy(Struct, frozen=True, kw_only=True):
    """How a producer sends; the producer's arguments say what each means."""

    timeout_s: float
    attempt_timeout_s: float | None
    attempts: int
    is_latency_aware: bool
    is_weak_storage_retried: bool
    template_topic: str
    new_topic_queues: int
    in_flight_max: int


# A first attempt that is under way, and where to.
Begun = tuple[MessageQueue, StartedCall]


class Sending:
    """Of one producer."""

    def __init__(
        self, client: Client, group: str, policy: SendPolicy, tracer: Tracer | None
    ) -> None:
        self._client = client
        self._group = group
        self._policy = policy
        self._tracer = tracer
        self.room = Room(policy.in_flight_max)
        self._robins: dict[str, RoundRobin] = {}
        self._faults = BrokerFaults()
        self._requests = SendRequests(
            client.wrap(group), policy.template_topic, policy.new_topic_queues
        )
        self._make = self._requests.with_fields if client.is_hooked else self._requests.framed
        self._attempt_limit_s = (
            inf if policy.attempt_timeout_s is None else policy.attempt_timeout_s
        )
        self._first_limit_s = self._attempt_limit_s if policy.attempts > 1 else inf
        # Whoever wants to know how long each attempt took has the long way.
        self._is_quick = tracer is None and not (policy.is_latency_aware or client.is_vip_channel)

    def deadline(self, timeout: float | timedelta | None = None) -> float:
        return time.monotonic() + (self._policy.timeout_s if timeout is None else seconds(timeout))

    @asynccontextmanager
    async def place(self, deadline: float) -> AsyncIterator[None]:
        """Be one of the messages that are on their way."""
        if not self.room.enter_at_once():
            await self.wait_for_room(deadline)
        try:
            yield
        finally:
            self.room.leave()

    async def wait_for_room(self, deadline: float) -> None:
        """Raises SendFailed."""
        try:
            await self.room.enter(deadline - time.monotonic())
        except TimeoutError:
            raise SendFailed(
                f"{self.room.taken} messages are on their way, and none arrived in time", ()
            ) from None

    async def send(
        self,
        ready: Outgoing,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        deadline: float,
    ) -> SendResult:
        """Raises TopicNotFound, NoNameServer, BrokerError, SendFailed."""
        begun: Begun | None = None
        if self._is_quick and message.ordering_key is None and queue is None and selector is None:
            begun = self._begin(ready, deadline)
        if begun is not None:
            chosen, call = begun
            try:
                answer = await call.answer
            except RemotingError:
                pass  # it is found again, and judged, below
            except asyncio.CancelledError:
                call.forget()
                raise
            else:
                if answer.code == _SUCCESS:
                    return send_result(answer, ready, self.unwrapped(chosen))
        return await self._send_on(ready, message, queue, selector, deadline, begun)

    async def _send_on(
        self,
        ready: Outgoing,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        deadline: float,
        begun: Begun | None,
    ) -> SendResult:
        """All attempts, of which the first may have been begun, and may even have ended."""
        is_pinned = queue is not None or selector is not None or message.ordering_key is not None
        failures: list[Exception] = []
        failed_broker: str | None = None
        weak: SendResult | None = None
        attempts = 1 if is_pinned else self._policy.attempts
        for number in range(attempts):
            is_last = number + 1 == attempts
            if begun is None:
                if deadline <= time.monotonic():
                    break
                chosen = await self.choose(ready.topic, message, queue, selector, failed_broker)
            else:
                chosen = begun[0]
            try:
                result = await self._attempt(ready, chosen, begun, deadline, is_last=is_last)
            except (RemotingError, BrokerNotFound) as error:
                failures.append(error)
                self._client.refresh_soon(ready.topic)
            except BrokerError as error:
                if error.code not in RETRIED_CODES or is_pinned:
                    raise
                failures.append(error)
            else:
                if result.status == "SEND_OK" or not self._policy.is_weak_storage_retried:
                    return result
                weak = result
            begun = None
            failed_broker = chosen.broker_name
            self._note_failure(ready.topic, failed_broker, is_last=is_last)
        if weak is not None:
            return weak
        raise _send_failure(ready, failures)

    def send_plain(self, topic: str, body: bytes) -> Awaitable[SendResult]:
        """`send` for a message that has a topic and a body and nothing else."""
        ready = plain_outgoing(topic, body, self._client.keys.next())
        return self.send(ready, Message(topic, body), None, None, self.deadline())

    async def send_oneway(
        self,
        ready: Outgoing,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
    ) -> None:
        """Raises TopicNotFound, NoNameServer, BrokerNotFound, RemotingError."""
        chosen = await self.choose(ready.topic, message, queue, selector)
        address = await self._client.broker_address(chosen.broker_name, is_vip=True)
        request = self._requests.with_fields(ready, chosen)
        await self._client.connections.send_oneway(address, request)

    async def choose(
        self,
        topic: str,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        failed_broker: str | None = None,
    ) -> MessageQueue:
        """Where a message goes, as brokers name it; `topic` is its name on the wire.

        Raises:
            MessageRefused: the queue is another topic's.
            TopicNotFound, NoNameServer
        """
        if queue is not None:
            if self._client.wrap(queue.topic) != topic:
                raise MessageRefused(f"{queue} is no queue of {message.topic}")
            return MessageQueue(queue.broker_name, queue.queue_id, topic)
        queues = await self.queues(topic)
        if selector is not None:
            chosen = selector([self.unwrapped(each) for each in queues], message)
            return MessageQueue(chosen.broker_name, chosen.queue_id, topic)
        if message.ordering_key is not None:
            return queue_by_key(queues, message.ordering_key)
        return self._next_queue(topic, queues, failed_broker)

    async def queues(self, topic: str) -> Sequence[MessageQueue]:
        """Where messages of a topic can go. Raises TopicNotFound, NoNameServer."""
        found = await self._client.publish_queues(
            topic,
            template=self._policy.template_topic,
            queue_count=self._policy.new_topic_queues,
        )
        if not found.queues:
            raise TopicNotFound(
                f"no broker takes messages of {self._client.unwrap(topic)} at the moment",
                hint="All its brokers are read-only, or their masters are away",
            )
        return found.queues

    def unwrapped(self, queue: MessageQueue) -> MessageQueue:
        """The queue as users know it."""
        if not self._client.namespace:
            return queue
        return MessageQueue(queue.broker_name, queue.queue_id, self._client.unwrap(queue.topic))

    async def greet(self, topic: str) -> None:
        """Brokers push replies to clients that they know by a heartbeat, and ask only those."""
        brokers = {queue.broker_name for queue in await self.queues(topic)}
        greeted = self._client.server_requests.replies.greeted
        if not brokers <= greeted:
            await self._client.heartbeats.beat()
            greeted |= brokers

    def _begin(self, ready: Outgoing, deadline: float) -> Begun | None:
        """The first attempt, if nothing has to be waited for before it."""
        client = self._client
        topic = ready.topic
        queues = client.routes.known_publish_queues(topic)
        if queues is None or not queues.queues:
            return None
        queue = self._next_queue(topic, queues.queues, None)
        address = client.routes.master_of(queue.broker_name)
        if address is None:
            return None
        limit_s = min(deadline - time.monotonic(), self._first_limit_s)
        if limit_s <= 0:
            return None
        try:
            call = client.connections.start_call(address, self._make(ready, queue), limit_s)
        except RemotingError:
            return None
        return None if call is None else (queue, call)

    def _limit_s(self, deadline: float, *, is_last: bool) -> float:
        """How long an attempt that begins now may take."""
        left_s = max(deadline - time.monotonic(), 0.0)
        return left_s if is_last else min(left_s, self._attempt_limit_s)

    async def _attempt(
        self,
        ready: Outgoing,
        queue: MessageQueue,
        begun: Begun | None,
        deadline: float,
        *,
        is_last: bool,
    ) -> SendResult:
        client = self._client
        started_at = time.monotonic()
        is_isolated = True
        try:
            if begun is not None:
                call = begun[1]
                address = call.address
                answer = await client.connections.finish_call(call)
            else:
                address = await client.broker_address(queue.broker_name, is_vip=True)
                limit_s = self._limit_s(deadline, is_last=is_last)
                answer = await client.connections.call(address, self._make(ready, queue), limit_s)
            if not is_result(answer.code):
                raise broker_failure(answer, address)
            is_isolated = False
        finally:
            if self._policy.is_latency_aware:
                now = time.monotonic()
                self._faults.note(
                    queue.broker_name,
                    (now - started_at) * 1000,
                    now * 1000,
                    is_isolated=is_isolated,
                    is_reachable=not is_isolated,
                )
        result = send_result(answer, ready, self.unwrapped(queue))
        if self._tracer is not None:
            self._tracer.sent(ready, result, address, started_at)
        return result

    def _next_queue(
        self, topic: str, queues: Sequence[MessageQueue], failed_broker: str | None
    ) -> MessageQueue:
        robin = self._robins.get(topic)
        if robin is None:
            robin = self._robins[topic] = RoundRobin()
        if self._policy.is_latency_aware:
            return robin.choose_healthy(
                queues, self._faults, time.monotonic() * 1000, failed_broker
            )
        return robin.choose(queues, failed_broker)

    def _note_failure(self, wire_topic: str, broker: str, *, is_last: bool) -> None:
        measures = self._client.measures
        if measures is not None and not is_last:
            measures.send_again(self._group, self._client.unwrap(wire_topic), broker)


def seconds(time_span: float | timedelta) -> float:
    return time_span.total_seconds() if isinstance(time_span, timedelta) else float(time_span)


def _send_failure(ready: Outgoing, failures: Sequence[Exception]) -> Exception:
    if len(failures) == 1 and isinstance(failures[0], BrokerError):
        return failures[0]
    if not failures:
        return SendFailed(f"no time was left to send {ready.message_id}", ())
    reasons = "; ".join(map(str, failures))
    times = "once" if len(failures) == 1 else f"{len(failures)} times"
    hint = ""
    if any(isinstance(failure, CallTimeout) for failure in failures):
        hint = "A message whose answer was not awaited may be stored all the same"
    elif all(isinstance(failure, ConnectFailed) for failure in failures):
        hint = "Brokers register the address that clients use: brokerIP1 in their configuration"
    return SendFailed(
        f"{ready.message_id} was tried {times}: {reasons}", tuple(failures), hint=hint
    )
