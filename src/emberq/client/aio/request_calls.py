"""The producer's side of request and reply: a message that waits for one, and the reply itself."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from emberq.client.aio.client import Client
from emberq.client.aio.preparation import Properties
from emberq.client.aio.request_reply import (
    no_reply,
    queue_near,
    reply_properties,
    reply_topic_of,
    request_properties,
)
from emberq.client.aio.sending import Sending
from emberq.client.aio.watched_sends import Send
from emberq.client.codecs import Codec
from emberq.client.core.message import Message, Selector, SendResult
from emberq.client.core.outgoing import Outgoing
from emberq.client.core.received import ReceivedMessage
from emberq.errors import SendFailed
from emberq.model.queue import MessageQueue

Watched = Callable[[Sequence[Message], Send], Awaitable[Sequence[SendResult]]]


class Prepare(Protocol):
    """Raises MessageRefused, ClientClosed."""

    def __call__(
        self, message: Message, extra: Properties = (), wire_topic: str | None = None
    ) -> Outgoing: ...


class RequestCalls:
    """Of one producer."""

    def __init__(
        self,
        client: Client,
        sending: Sending,
        codec: Codec[Any],
        *,
        prepare: Prepare,
        watched: Watched,
    ) -> None:
        self._client = client
        self._sending = sending
        self._codec = codec
        self._prepare = prepare
        self._watched = watched

    async def request(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        timeout_s: float,
    ) -> ReceivedMessage:
        """Send a message and wait for its reply. Raises what `Producer.request` raises."""
        deadline = time.monotonic() + timeout_s
        replies = self._client.server_requests.replies
        correlation_id, reply = replies.expect()
        marks = request_properties(correlation_id, self._client.client_id, timeout_s)
        message_id = ""

        async def send(messages: Sequence[Message]) -> list[SendResult]:
            nonlocal message_id
            [whole] = messages
            ready = self._prepare(whole, marks)
            message_id = ready.message_id
            await self._sending.greet(ready.topic)
            send_deadline = min(deadline, self._sending.deadline())
            async with self._sending.place(send_deadline):
                return [await self._sending.send(ready, whole, queue, selector, send_deadline)]

        try:
            try:
                await self._watched([message], send)
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
        """Answer a request. Raises what `Producer.reply_to` raises."""
        topic = reply_topic_of(request)
        marks = reply_properties(request)
        near = request.queue.broker_name
        deadline = self._sending.deadline()

        async def send(messages: Sequence[Message]) -> list[SendResult]:
            [whole] = messages
            ready = self._prepare(whole, marks, topic)
            ready.is_reply = True
            async with self._sending.place(deadline):
                return [
                    await self._sending.send(
                        ready, whole, None, lambda queues, _: queue_near(queues, near), deadline
                    )
                ]

        [result] = await self._watched([Message(topic, body)], send)
        return result
