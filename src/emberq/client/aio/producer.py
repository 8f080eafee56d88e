"""The producer: sends messages, tries again where that is right, and loses none at its end."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from emberq.client.aio.at_hand import AtHand
from emberq.client.aio.batching import BATCH_BYTES, Batching
from emberq.client.aio.client import Client
from emberq.client.aio.life import Life
from emberq.client.aio.request_reply import (
    REQUEST_TIMEOUT_S,
    no_reply,
    queue_near,
    reply_properties,
    reply_topic_of,
    request_properties,
)
from emberq.client.aio.room import Room
from emberq.client.aio.trace import SEND_TIMEOUT_S as TRACE_TIMEOUT_S
from emberq.client.aio.trace import Tracer, trace_group
from emberq.client.aio.transactions import (
    Check,
    Execute,
    Transaction,
    TransactionBook,
    TransactionEnd,
    half_properties,
)
from emberq.client.aio.watched_sends import Send, WatchedSends
from emberq.client.broker_failures import broker_failure
from emberq.client.codecs import BYTES, codec_for
from emberq.client.core.broker_faults import BrokerFaults
from emberq.client.core.message import Delay, Message, Selector, SendResult, message_of
from emberq.client.core.outgoing import (
    MESSAGE_SIZE_MAX_BYTES,
    Compression,
    Outgoing,
    check_batch,
    check_group,
    check_topic,
    is_batch_topic,
    outgoing,
    outgoing_batch,
    split_batch,
)
from emberq.client.core.queue_choice import RoundRobin, queue_by_key
from emberq.client.core.received import ReceivedMessage
from emberq.client.core.send_attempts import RETRIED_CODES, is_result, send_result
from emberq.client.core.send_request import SendRequests
from emberq.client.hooks import SendHook
from emberq.errors import (
    BrokerError,
    BrokerNotFound,
    CallTimeout,
    ClientClosed,
    ConfigError,
    ConnectFailed,
    MessageRefused,
    RemotingError,
    SendFailed,
    TopicNotFound,
)
from emberq.model.queue import MessageQueue
from emberq.model.system_topics import DEFAULT_TOPIC
from emberq.protocol.command import Command
from emberq.protocol.header_fields import from_fields
from emberq.protocol.headers.send import RecallMessage, RecallMessageResponse
from emberq.protocol.recall_handle import RecallHandle
from emberq.record import property_names
from emberq.record.system_flag import TransactionType, with_transaction_type

log = logging.getLogger(__name__)

SEND_TIMEOUT_S = 3.0
RETRIES = 2
# Messages on their way at once; who sends more waits.
IN_FLIGHT_MAX = 10_000


class Producer(AtHand, Life):
    """Sends messages of one group. Use it as `async with Producer("group") as producer:`."""

    def __init__(
        self,
        group: str,
        *,
        client: Client | None = None,
        name_server: str | Sequence[str] | None = None,
        codec: Any = bytes,
        send_timeout: float | timedelta = SEND_TIMEOUT_S,
        attempt_timeout: float | timedelta | None = None,
        retries: int = RETRIES,
        compression: Compression | None = None,
        message_size_max: int = MESSAGE_SIZE_MAX_BYTES,
        is_latency_aware: bool = False,
        is_weak_storage_retried: bool = False,
        template_topic: str = DEFAULT_TOPIC,
        new_topic_queues: int = 4,
        in_flight_max: int = IN_FLIGHT_MAX,
        linger: float | timedelta = 0.0,
        batch_bytes: int = BATCH_BYTES,
        check: Check | None = None,
        trace: bool | str = False,
        hooks: Sequence[SendHook] = (),
    ) -> None:
        """
        Args:
            client: connections to share; without one the producer has its own.
            codec: what bodies are: bytes, str, dict, a dataclass, a Pydantic model …
            send_timeout: for a send with all its attempts.
            attempt_timeout: for one attempt while others are left; None: all there is.
            is_latency_aware: avoid brokers that were slow; not for ordered messages.
            is_weak_storage_retried: try another broker when a message was stored with less
                safety than configured.
            linger: how long a single send waits for others to the same topic, to leave with
                them as one batch; 0: not at all.
            batch_bytes: a batch of this size leaves at once.
            check: how a transaction of the group ended, for brokers that ask: True for commit,
                False for roll back, None if it is not known yet.
            trace: record every message that was sent, for message-trace tools; text is a topic
                of one's own for it.
            hooks: around every send.
        """
        check_group(group)
        self.group = group
        self.client = client or Client(name_server)
        self._is_client_ours = client is None
        self._codec = codec_for(codec)
        self._send_timeout_s = seconds(send_timeout)
        self._attempt_timeout_s = None if attempt_timeout is None else seconds(attempt_timeout)
        self._attempts = 1 + retries
        self._compression = compression or Compression()
        self._size_max = message_size_max
        self._is_latency_aware = is_latency_aware
        self._is_weak_storage_retried = is_weak_storage_retried
        self._template_topic = template_topic
        self._new_topic_queues = new_topic_queues
        self._wire_group = self.client.wrap(group)
        self._robins: dict[str, RoundRobin] = {}
        self._faults = BrokerFaults()
        self._room = Room(in_flight_max)
        self._requests = SendRequests(self._wire_group, template_topic, new_topic_queues)
        self._is_open = False
        self._watched: WatchedSends | None = None
        if hooks or self.client.measures is not None:
            self._watched = WatchedSends(group, tuple(hooks), self.client.measures)
        self._has_check = check is not None
        self._tracer: Tracer | None = None
        if trace:
            sender = Producer(
                trace_group(group, "PRODUCE"), client=self.client, send_timeout=TRACE_TIMEOUT_S
            )
            self._tracer = Tracer(self.client, group, sender, trace)
        self._transactions = TransactionBook(
            self.client, self._wire_group, self._codec, check, on_end=self._transaction_ended
        )
        self._batching: Batching | None = None
        self._plain_batching: Batching | None = None
        self._plain_body_max = 0
        if linger:
            self._batching = Batching(
                seconds(linger),
                min(batch_bytes, message_size_max),
                prepare=self._prepared,
                send=self._send_ready,
                spawn=self.client.spawn,
                keys=self.client.keys,
            )
            # Where nothing is to be done for a message alone, that is done for a batch at once.
            is_simple = self._watched is None and not (self._has_check or self.client.namespace)
            if is_simple and self._codec is BYTES:
                self._plain_batching = self._batching
                above_bytes = self._compression.above_bytes
                self._plain_body_max = self._batching.plain_body_max
                if above_bytes is not None:
                    self._plain_body_max = min(self._plain_body_max, above_bytes - 1)

    # Life

    async def start(self) -> None:
        """Begin; a second call does nothing. Raises NoNameServer, ClientError."""
        if self._is_open:
            return
        await self.client.start()
        await self.client.add_producer(self._wire_group, self)
        if self._tracer is not None:
            await self._tracer.start()
        self._is_open = True

    async def close(self) -> None:
        """Wait for what is on its way, then leave."""
        if self._is_open:
            self._is_open = False
            if self._batching is not None:
                self._batching.flush()
            try:
                async with asyncio.timeout(self.client.settings.close_timeout):
                    await self._room.emptied()
            except TimeoutError:
                log.warning("producer_closed group=%s unanswered=%d", self.group, self._room.taken)
            if self._tracer is not None:
                await self._tracer.close()
            await self.client.remove_producer(self._wire_group)
            self._transactions.close()
        if self._is_client_ours:
            await self.client.close()

    # Sending

    async def send(
        self,
        message: Message | str,
        body: Any = None,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        delay: Delay | None = None,
        ordering_key: str | int | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout: float | timedelta | None = None,
    ) -> SendResult:
        """Send a message, or a body to a topic, and return where it went.

        A queue, a selector or an ordering key decides the queue, and then there is one attempt:
        another queue would break the order.

        Raises:
            MessageRefused: it cannot be sent at all.
            TopicNotFound, NoNameServer, BrokerError, SendFailed
        """
        if (
            self._plain_batching is not None
            and isinstance(message, str)
            and type(body) is bytes
            and 0 < len(body) <= self._plain_body_max
            and not (tags or keys or properties)
            and (delay is None and ordering_key is None and timeout is None)
            and (queue is None and selector is None)
            and self._room.enter_at_once()
        ):
            try:  # nothing but a topic and a body: all else is the batch's to do
                self._check_open()
                if is_batch_topic(message):
                    deadline = time.monotonic() + self._send_timeout_s
                    return await self._plain_batching.add_plain(message, body, deadline)
            finally:
                self._room.leave()
        whole = message_of(message, body, tags, keys, properties, delay, ordering_key)
        deadline = _deadline(timeout, self._send_timeout_s)
        send_one = self._send_one if self._batching is None else self._send_in_company
        if self._watched is None:
            return await send_one(whole, queue, selector, deadline)

        async def send(messages: Sequence[Message]) -> list[SendResult]:
            return [await send_one(messages[0], queue, selector, deadline)]

        [result] = await self._watched.run([whole], send)
        return result

    async def _send_one(
        self,
        whole: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        deadline: float,
    ) -> SendResult:
        ready = self._outgoing(whole)
        if self._has_check:
            await self._greet(ready.topic)
        if not self._room.enter_at_once():
            await self._wait_for_room(deadline)
        try:
            return await self._send(ready, whole, queue, selector, deadline)
        finally:
            self._room.leave()

    async def _send_in_company(
        self,
        whole: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        deadline: float,
    ) -> SendResult:
        """As `_send_one`, with messages of other callers that come soon."""
        batching = self._batching
        if batching is None or not batching.takes(whole):
            return await self._send_one(whole, queue, selector, deadline)
        ready = self._outgoing(whole)
        if self._has_check:
            await self._greet(ready.topic)
        if not self._room.enter_at_once():
            await self._wait_for_room(deadline)
        try:
            if selector is not None or whole.ordering_key is not None:
                chosen = await self._choose(ready.topic, whole, queue, selector, None)
                queue = self._unwrapped(chosen)
            return await batching.add(ready, whole, queue, deadline)
        finally:
            self._room.leave()

    async def send_oneway(
        self,
        message: Message | str,
        body: Any = None,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        **options: Any,
    ) -> None:
        """Send without an answer: nobody will know whether it was stored."""
        whole = message_of(message, body, **options)
        deadline = _deadline(None, self._send_timeout_s)

        async def send(messages: Sequence[Message]) -> list[SendResult]:
            [whole] = messages
            ready = self._outgoing(whole)
            async with self._place(deadline):
                chosen = await self._choose(ready.topic, whole, queue, selector, None)
                address = await self.client.broker_address(chosen.broker_name, is_vip=True)
                request = self._requests.with_fields(ready, chosen)
                await self.client.connections.send_oneway(address, request)
            return []

        await self.watched([whole], send)

    async def send_batch(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        timeout: float | timedelta | None = None,
    ) -> list[SendResult]:
        """Send messages of one topic together, in as many requests as their sizes need.

        Raises:
            MessageRefused: they cannot travel together, or one alone is too large; nothing of
                the batch was sent.
            TopicNotFound, NoNameServer, BrokerError, SendFailed: what came before was sent.
        """
        given = list(messages)
        check_batch(given)

        async def send(messages: Sequence[Message]) -> list[SendResult]:
            return await self._send_batch(messages, queue, timeout)

        return list(await self.watched(given, send))

    async def _send_batch(
        self,
        messages: Sequence[Message],
        queue: MessageQueue | None,
        timeout: float | timedelta | None,
    ) -> list[SendResult]:
        encoded = [self._encoded(message) for message in messages]
        first = encoded[0]
        check_topic(first.topic)
        keys = self.client.keys
        identified = zip(encoded, keys.take(len(encoded)), strict=True)
        pieces = list(split_batch(identified, self._size_max))
        topic = self.client.wrap(first.topic)
        results: list[SendResult] = []
        for piece in pieces:
            deadline = _deadline(timeout, self._send_timeout_s)
            elements, message_ids = zip(*piece, strict=True)
            ready = outgoing_batch(
                topic,
                elements,
                message_ids,
                is_store_awaited=first.is_store_awaited,
            )
            async with self._place(deadline):
                results.append(await self._send(ready, first, queue, None, deadline))
        return results

    async def request(
        self,
        message: Message | str,
        body: Any = None,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        ordering_key: str | int | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout: float | timedelta = REQUEST_TIMEOUT_S,
    ) -> ReceivedMessage:
        """Send a message and wait for the reply of one of its consumers.

        Its `value` is what the producer's codec reads; `timeout` is for all of it.

        Raises:
            RequestReplyTimeout: it was sent, and nobody replied in time.
            TooManyPendingCalls: too many requests wait already.
            MessageRefused, TopicNotFound, NoNameServer, BrokerError, SendFailed: as of `send`.
        """
        whole = message_of(message, body, tags, keys, properties, None, ordering_key)
        timeout_s = seconds(timeout)
        deadline = time.monotonic() + timeout_s
        replies = self.client.server_requests.replies
        correlation_id, reply = replies.expect()
        marks = request_properties(correlation_id, self.client.client_id, timeout_s)
        message_id = ""

        async def send(messages: Sequence[Message]) -> list[SendResult]:
            nonlocal message_id
            [whole] = messages
            ready = self._outgoing(whole, marks)
            message_id = ready.message_id
            await self._greet(ready.topic)
            send_deadline = min(deadline, time.monotonic() + self._send_timeout_s)
            async with self._place(send_deadline):
                return [await self._send(ready, whole, queue, selector, send_deadline)]

        try:
            try:
                await self.watched([whole], send)
            except SendFailed:
                # An attempt without an answer may have arrived all the same.
                if not reply.done():
                    raise
            try:
                async with asyncio.timeout(max(deadline - time.monotonic(), 0.0)):
                    received = await reply
            except TimeoutError:
                raise no_reply(message_id, timeout_s) from None
        finally:
            replies.forget(correlation_id)
        received.value = self._codec.decode(received.body)
        return received

    async def reply_to(self, request: ReceivedMessage, body: Any) -> SendResult:
        """Answer a message that was sent by `request`, here or in another language.

        Raises:
            MessageRefused: the message is no request.
            TopicNotFound, NoNameServer, BrokerError, SendFailed: also when the requester is gone.
        """
        topic = reply_topic_of(request)
        marks = reply_properties(request)
        near = request.queue.broker_name
        deadline = _deadline(None, self._send_timeout_s)

        async def send(messages: Sequence[Message]) -> list[SendResult]:
            [whole] = messages
            ready = self._outgoing(whole, marks, wire_topic=topic)
            ready.is_reply = True
            async with self._place(deadline):
                return [
                    await self._send(
                        ready, whole, None, lambda queues, _: queue_near(queues, near), deadline
                    )
                ]

        [result] = await self.watched([Message(topic, body)], send)
        return result

    def transaction(self) -> Transaction:
        """Messages that consumers see when the block ends well, and never if it raises.

        async with producer.transaction() as transaction:
            await transaction.send("orders", b"paid")
            await database.commit()
        """
        return Transaction(self._transactions, self)

    async def send_in_transaction(
        self,
        message: Message | str,
        body: Any = None,
        *,
        execute: Execute,
        tags: str | None = None,
        keys: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        ordering_key: str | int | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout: float | timedelta | None = None,
    ) -> SendResult:
        """Send a message whose end `execute` decides, as transaction listeners do.

        Args:
            execute: is called with the result when the message is stored out of sight: True
                commits it, False drops it. None, or an exception, which is raised here too,
                leaves it to `check`, which brokers ask later. A plain function runs in a thread.

        Raises:
            ConfigError: the producer has no `check`.
            What `transaction().send` raises, and what `execute` raises.
        """
        if not self._has_check:
            raise ConfigError("without check= nobody could answer for what is left open")
        transaction = self.transaction()
        result = await transaction.send(
            message,
            body,
            tags=tags,
            keys=keys,
            properties=properties,
            ordering_key=ordering_key,
            queue=queue,
            selector=selector,
            timeout=timeout,
        )
        await transaction.decide(execute, result)
        return result

    async def recall(self, handle: str, *, timeout: float | timedelta | None = None) -> str:
        """Take back a timed message before its time, by the `recall_handle` of its result.

        Returns the message's id. The broker must allow it (`recallMessageEnable=true`).

        Raises:
            ProtocolError: that is no handle.
            NoPermission: the broker does not allow it.
            BrokerError: code 604 when it is too late, or the handle is another broker's.
            TopicNotFound, NoNameServer, BrokerNotFound, RemotingError
        """
        self.client.check_running()
        known = RecallHandle.decode(handle)
        await self._publish_queues(known.topic)  # with the broker's address
        header = RecallMessage(
            producer_group=self._wire_group, topic=known.topic, recall_handle=handle
        )
        timeout_s = self._send_timeout_s if timeout is None else seconds(timeout)
        answer = await self.client.call_broker(known.broker_name, header, timeout_s=timeout_s)
        return from_fields(RecallMessageResponse, answer.fields or {}).message_id

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Where messages of a topic can go. Raises TopicNotFound, NoNameServer."""
        self.client.check_running()
        found = await self._publish_queues(self.client.wrap(topic))
        return [self._unwrapped(queue) for queue in found]

    # How it is done

    async def watched(self, messages: Sequence[Message], send: Send) -> Sequence[SendResult]:
        """Send with hooks and figures, where there are some."""
        if self._watched is None:
            return await send(messages)
        return await self._watched.run(messages, send)

    def _outgoing(
        self,
        message: Message,
        extra: tuple[tuple[str, str], ...] = (),
        *,
        wire_topic: str | None = None,
    ) -> Outgoing:
        """`extra` are properties that users may not set."""
        self._check_open()
        check_topic(message.topic)
        return self._prepared(message, extra, wire_topic)

    def _check_open(self) -> None:
        self.client.check_running()
        if not self._is_open:
            raise ClientClosed("the producer is closed", hint="Use it within 'async with'")

    def _prepared(
        self,
        message: Message,
        extra: tuple[tuple[str, str], ...] = (),
        wire_topic: str | None = None,
    ) -> Outgoing:
        client = self.client
        if client.namespace:
            extra += ((property_names.INSTANCE_ID, client.namespace),)
        return outgoing(
            self._encoded(message),
            wire_topic or client.wrap(message.topic),
            client.keys.next(),
            compression=self._compression,
            size_max=self._size_max,
            extra=extra,
        )

    async def _greet(self, topic: str) -> None:
        """Brokers push replies to clients that they know by a heartbeat, and ask only those."""
        brokers = {queue.broker_name for queue in await self._publish_queues(topic)}
        greeted = self.client.server_requests.replies.greeted
        if not brokers <= greeted:
            await self.client.heartbeats.beat()
            greeted |= brokers

    def _encoded(self, message: Message) -> Message:
        if self._codec is BYTES and type(message.body) is bytes:
            return message
        return replace(message, body=self._codec.encode(message.body))

    async def _send_ready(
        self, ready: Outgoing, message: Message, queue: MessageQueue | None, deadline: float
    ) -> SendResult:
        return await self._send(ready, message, queue, None, deadline)

    async def _send(
        self,
        ready: Outgoing,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        deadline: float,
    ) -> SendResult:
        is_pinned = queue is not None or selector is not None or message.ordering_key is not None
        attempts = 1 if is_pinned else self._attempts
        failures: list[Exception] = []
        failed_broker: str | None = None
        weak: SendResult | None = None
        for number in range(attempts):
            if deadline <= time.monotonic():
                break
            queues = self.client.routes.known_publish_queues(ready.topic)
            if is_pinned or queues is None or not queues.queues:
                chosen = await self._choose(ready.topic, message, queue, selector, failed_broker)
            else:
                chosen = self._next_queue(ready.topic, queues.queues, failed_broker)
            try:
                result = await self._attempt(
                    ready, chosen, deadline, is_last=number + 1 == attempts
                )
            except (RemotingError, BrokerNotFound) as error:
                failures.append(error)
                self.client.refresh_soon(ready.topic)
            except BrokerError as error:
                if error.code not in RETRIED_CODES or is_pinned:
                    raise
                failures.append(error)
            else:
                if result.status == "SEND_OK" or not self._is_weak_storage_retried:
                    return result
                weak = result
            failed_broker = chosen.broker_name
            self._note_failure(ready.topic, failed_broker, is_last=number + 1 == attempts)
        if weak is not None:
            return weak
        raise _send_failure(ready, failures)

    def _note_failure(self, wire_topic: str, broker: str, *, is_last: bool) -> None:
        if self.client.measures is not None and not is_last:
            self.client.measures.send_again(self.group, self.client.unwrap(wire_topic), broker)

    async def _attempt(
        self, ready: Outgoing, queue: MessageQueue, deadline: float, *, is_last: bool
    ) -> SendResult:
        client = self.client
        started_at = time.monotonic()
        limit_s = max(deadline - started_at, 0.0)
        if self._attempt_timeout_s is not None and not is_last:
            limit_s = min(limit_s, self._attempt_timeout_s)
        is_isolated = True
        try:
            address = client.routes.master_of(queue.broker_name)
            if address is None or client.is_vip_channel:
                address = await client.broker_address(queue.broker_name, is_vip=True)
            make = self._requests.with_fields if client.is_hooked else self._requests.framed
            answer = await client.connections.call(address, make(ready, queue), limit_s)
            if not is_result(answer.code):
                raise broker_failure(answer, address)
            is_isolated = False
        finally:
            if self._is_latency_aware:
                now = time.monotonic()
                self._faults.note(
                    queue.broker_name,
                    (now - started_at) * 1000,
                    now * 1000,
                    is_isolated=is_isolated,
                    is_reachable=not is_isolated,
                )
        result = send_result(answer, ready, self._unwrapped(queue))
        if self._tracer is not None:
            self._tracer.sent(ready, result, address, started_at)
        return result

    async def _choose(
        self,
        topic: str,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        failed_broker: str | None,
    ) -> MessageQueue:
        if queue is not None:
            if self.client.wrap(queue.topic) != topic:
                raise MessageRefused(f"{queue} is no queue of {message.topic}")
            return MessageQueue(queue.broker_name, queue.queue_id, topic)
        queues = await self._publish_queues(topic)
        if selector is not None:
            chosen = selector([self._unwrapped(each) for each in queues], message)
            return MessageQueue(chosen.broker_name, chosen.queue_id, topic)
        if message.ordering_key is not None:
            return queue_by_key(queues, message.ordering_key)
        return self._next_queue(topic, queues, failed_broker)

    def _next_queue(
        self, topic: str, queues: Sequence[MessageQueue], failed_broker: str | None
    ) -> MessageQueue:
        robin = self._robins.get(topic)
        if robin is None:
            robin = self._robins[topic] = RoundRobin()
        if self._is_latency_aware:
            return robin.choose_healthy(
                queues, self._faults, time.monotonic() * 1000, failed_broker
            )
        return robin.choose(queues, failed_broker)

    async def _publish_queues(self, topic: str) -> Sequence[MessageQueue]:
        found = await self.client.publish_queues(
            topic, template=self._template_topic, queue_count=self._new_topic_queues
        )
        if not found.queues:
            raise TopicNotFound(
                f"no broker takes messages of {self.client.unwrap(topic)} at the moment",
                hint="All its brokers are read-only, or their masters are away",
            )
        return found.queues

    def _unwrapped(self, queue: MessageQueue) -> MessageQueue:
        if not self.client.namespace:
            return queue
        return MessageQueue(queue.broker_name, queue.queue_id, self.client.unwrap(queue.topic))

    async def _wait_for_room(self, deadline: float) -> None:
        try:
            await self._room.enter(deadline - time.monotonic())
        except TimeoutError:
            raise SendFailed(
                f"{self._room.taken} messages are on their way, and none arrived in time", ()
            ) from None

    @asynccontextmanager
    async def _place(self, deadline: float) -> AsyncIterator[None]:
        """Be one of the messages that are on their way."""
        if not self._room.enter_at_once():
            await self._wait_for_room(deadline)
        try:
            yield
        finally:
            self._room.leave()

    # Transactions

    def half(self, message: Message) -> Outgoing:
        """A message that stays out of sight. Raises MessageRefused, ClientClosed."""
        ready = self._outgoing(message, half_properties(self._wire_group))
        ready.system_flag = with_transaction_type(ready.system_flag, TransactionType.PREPARED)
        return ready

    async def send_half(
        self,
        ready: Outgoing,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        timeout: float | timedelta | None,
    ) -> SendResult:
        await self._greet(ready.topic)
        deadline = _deadline(timeout, self._send_timeout_s)
        async with self._place(deadline):
            return await self._send(ready, message, queue, selector, deadline)

    def _transaction_ended(self, end: TransactionEnd) -> None:
        if self._tracer is not None:
            self._tracer.transaction_ended(end)

    async def check_transaction(self, request: Command, address: str) -> None:
        self._transactions.answer_soon(request, address)


def seconds(time_span: float | timedelta) -> float:
    return time_span.total_seconds() if isinstance(time_span, timedelta) else float(time_span)


def _deadline(timeout: float | timedelta | None, default_s: float) -> float:
    return time.monotonic() + (default_s if timeout is None else seconds(timeout))


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
