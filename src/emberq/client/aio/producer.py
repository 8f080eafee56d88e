"""The producer: sends messages, tries again where that is right, and loses none at its end."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from emberq.client.aio.at_hand import AtHand
from emberq.client.aio.batching import BATCH_BYTES, Batching
from emberq.client.aio.client import Client
from emberq.client.aio.encoded_batches import EncodedBatches
from emberq.client.aio.half_messages import HalfMessages
from emberq.client.aio.life import Life
from emberq.client.aio.preparation import Preparation, Properties
from emberq.client.aio.request_calls import RequestCalls
from emberq.client.aio.request_reply import (
    REQUEST_TIMEOUT_S,
)
from emberq.client.aio.sending import Sending, SendPolicy, seconds
from emberq.client.aio.trace import DEFAULT_REGION, Tracer, trace_group
from emberq.client.aio.trace import SEND_TIMEOUT_S as TRACE_TIMEOUT_S
from emberq.client.aio.transactions import (
    Check,
    Execute,
    Transaction,
    TransactionBook,
    TransactionEnd,
)
from emberq.client.aio.watched_sends import Send, WatchedSends
from emberq.client.codecs import BYTES, codec_for
from emberq.client.core.message import Delay, Message, Selector, SendResult, message_of
from emberq.client.core.outgoing import (
    MESSAGE_SIZE_MAX_BYTES,
    Compression,
    Outgoing,
    check_batch,
    check_group,
    is_batch_topic,
)
from emberq.client.core.received import ReceivedMessage
from emberq.client.hooks import SendHook
from emberq.errors import (
    BrokerError,
    ClientClosed,
    ConfigError,
)
from emberq.model.queue import MessageQueue
from emberq.model.system_topics import DEFAULT_TOPIC
from emberq.protocol.command import Command
from emberq.protocol.header_fields import from_fields
from emberq.protocol.headers.send import RecallMessage, RecallMessageResponse
from emberq.protocol.recall_handle import RecallHandle
from emberq.record import property_names

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
        self._wire_group = self.client.wrap(group)
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
        self._preparation = Preparation(
            self.client, self._codec, compression or Compression(), message_size_max
        )
        self._sending = Sending(
            self.client,
            group,
            SendPolicy(
                timeout_s=seconds(send_timeout),
                attempt_timeout_s=None if attempt_timeout is None else seconds(attempt_timeout),
                attempts=1 + retries,
                is_latency_aware=is_latency_aware,
                is_weak_storage_retried=is_weak_storage_retried,
                template_topic=template_topic,
                new_topic_queues=new_topic_queues,
                in_flight_max=in_flight_max,
            ),
            self._tracer,
        )
        self._transactions = TransactionBook(
            self.client, self._wire_group, self._codec, check, on_end=self._transaction_ended
        )
        self._requests = RequestCalls(
            self.client,
            self._sending,
            self._codec,
            prepare=self._ready,
            watched=self._send_watched,
        )
        # For a transaction, or for whoever ends half messages in a way of their own.
        self.halves = HalfMessages(
            self._sending, self._wire_group, prepare=self._ready, watched=self._send_watched
        )
        # For whoever encodes messages himself.
        self.encoded = EncodedBatches(self.client, self._sending, self._check_open)
        self._batching: Batching | None = None
        if linger:
            self._batching = Batching(
                seconds(linger),
                min(batch_bytes, message_size_max),
                timeout_s=seconds(send_timeout),
                room=self._sending.room,
                prepare=self._preparation.ready,
                send=self._sending.send,
                spawn=self.client.spawn,
                keys=self.client.keys,
            )
        # Bodies up to this size that come with a topic and nothing else need little preparation:
        # where nothing is to be done for a message alone, that is done for a batch at once.
        self._plain_body_max = 0
        is_simple = self._watched is None and not (self._has_check or self.client.namespace)
        if is_simple and self._codec is BYTES:
            self._plain_body_max = self._preparation.plain_body_max
            if self._batching is not None:
                self._plain_body_max = min(self._plain_body_max, self._batching.plain_body_max)

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
                    await self._sending.room.emptied()
            except TimeoutError:
                unanswered = self._sending.room.taken
                log.warning("producer_closed group=%s unanswered=%d", self.group, unanswered)
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
            type(body) is bytes
            and isinstance(message, str)
            and 0 < len(body) <= self._plain_body_max
            and not (tags or keys or properties)
            and (delay is None and ordering_key is None and timeout is None)
            and (queue is None and selector is None)
            and is_batch_topic(message)
        ):
            self._check_open()
            room = self._sending.room
            if room.enter_at_once():
                if self._batching is not None:
                    return await self._batching.add_plain(message, body)
                try:
                    return await self._sending.send_plain(message, body)
                finally:
                    room.leave()
        whole = message_of(message, body, tags, keys, properties, delay, ordering_key)
        deadline = self._sending.deadline(timeout)
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
        ready = self._ready(whole)
        if self._has_check:
            await self._sending.greet(ready.topic)
        room = self._sending.room
        if not room.enter_at_once():
            await self._sending.wait_for_room(deadline)
        try:
            return await self._sending.send(ready, whole, queue, selector, deadline)
        finally:
            room.leave()

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
        ready = self._ready(whole)
        if self._has_check:
            await self._sending.greet(ready.topic)
        async with self._sending.place(deadline):
            if selector is not None or whole.ordering_key is not None:
                chosen = await self._sending.choose(ready.topic, whole, queue, selector)
                queue = self._sending.unwrapped(chosen)
            return await batching.add(ready, whole, queue, deadline)

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
        deadline = self._sending.deadline()

        async def send(messages: Sequence[Message]) -> list[SendResult]:
            [whole] = messages
            ready = self._ready(whole)
            async with self._sending.place(deadline):
                await self._sending.send_oneway(ready, whole, queue, selector)
            return []

        await self._send_watched([whole], send)

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
            results: list[SendResult] = []
            for ready in self._preparation.ready_batches(messages):
                deadline = self._sending.deadline(timeout)
                async with self._sending.place(deadline):
                    sent = await self._sending.send(ready, messages[0], queue, None, deadline)
                    results.append(sent)
            return results

        return list(await self._send_watched(given, send))

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
        return await self._requests.request(whole, queue, selector, seconds(timeout))

    async def reply_to(self, request: ReceivedMessage, body: Any) -> SendResult:
        """Answer a message that was sent by `request`, here or in another language.

        Raises:
            MessageRefused: the message is no request.
            TopicNotFound, NoNameServer, BrokerError, SendFailed: also when the requester is gone.
        """
        return await self._requests.reply_to(request, body)

    def transaction(self) -> Transaction:
        """Messages that consumers see when the block ends well, and never if it raises.

        async with producer.transaction() as transaction:
            await transaction.send("orders", b"paid")
            await database.commit()
        """
        return Transaction(self._transactions, self.halves)

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
        await self._sending.queues(known.topic)  # with the broker's address
        header = RecallMessage(
            producer_group=self._wire_group, topic=known.topic, recall_handle=handle
        )
        timeout_s = self._sending.deadline(timeout) - time.monotonic()
        try:
            answer = await self.client.call_broker(known.broker_name, header, timeout_s=timeout_s)
        except BrokerError:
            self._trace_recall(known, {}, is_success=False)
            raise
        fields = answer.fields or {}
        self._trace_recall(known, fields, is_success=True)
        return from_fields(RecallMessageResponse, fields).message_id

    def _trace_recall(
        self, handle: RecallHandle, answer: Mapping[str, str], *, is_success: bool
    ) -> None:
        if self._tracer is not None:
            region = answer.get(property_names.MESSAGE_REGION, DEFAULT_REGION)
            topic = self.client.unwrap(handle.topic)
            self._tracer.recalled(topic, handle.message_id, region, is_success=is_success)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Where messages of a topic can go. Raises TopicNotFound, NoNameServer."""
        self.client.check_running()
        found = await self._sending.queues(self.client.wrap(topic))
        return [self._sending.unwrapped(queue) for queue in found]

    # How it is done

    async def _send_watched(self, messages: Sequence[Message], send: Send) -> Sequence[SendResult]:
        """Send with hooks and figures, where there are some."""
        if self._watched is None:
            return await send(messages)
        return await self._watched.run(messages, send)

    def _ready(
        self, message: Message, extra: Properties = (), wire_topic: str | None = None
    ) -> Outgoing:
        """`extra` are properties that users may not set."""
        self._check_open()
        return self._preparation.ready(message, extra, wire_topic)

    def _check_open(self) -> None:
        self.client.check_running()
        if not self._is_open:
            raise ClientClosed("the producer is closed", hint="Use it within 'async with'")

    # Transactions

    def _transaction_ended(self, end: TransactionEnd) -> None:
        if self._tracer is not None:
            self._tracer.transaction_ended(end)

    async def check_transaction(self, request: Command, address: str) -> None:
        self._transactions.answer_soon(request, address)
