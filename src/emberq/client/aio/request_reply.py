"""Request and reply: replies that brokers push are matched to who waits for them.

A request is a message with three properties more; a consumer answers it with a message to the
cluster's reply topic, and the broker that gets it pushes it over the requester's connection (326).
So the requester must be known, by a heartbeat, to the broker that the reply goes to: replies go to
the broker that had the request.
"""

import asyncio
import functools
import inspect
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from emberq.client.core.received import ReceivedMessage
from emberq.errors import (
    MessageRefused,
    ProtocolError,
    RecordError,
    RequestReplyTimeout,
    TooManyPendingCalls,
)
from emberq.model.queue import MessageQueue
from emberq.model.system_topics import REPLY_TOPIC_SUFFIX
from emberq.protocol.command import Command
from emberq.protocol.header_fields import from_fields
from emberq.protocol.headers.reply import PushReplyMessageToClient
from emberq.record import property_names as names
from emberq.record.host import UNKNOWN_HOST, PackedHost, pack_host
from emberq.record.properties import encode_properties, parse_properties
from emberq.record.record import Record
from emberq.remoting.addresses import split_address

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 3.0
# Requests of one client that wait for their replies; more are refused.
PENDING_REPLIES_MAX = 10_000
# For the reply of a handler that runs in a thread, with all that sending it needs.
REPLY_WAIT_S = 30.0

_REPLY_TYPE = "reply"

ReplyTo = Callable[[ReceivedMessage, Any], Awaitable[object]]


class PendingReplies:
    """Who waits for a reply on this client, by correlation id."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}
        # Brokers that had a heartbeat before a request.
        self.greeted: set[str] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def expect(self) -> tuple[str, "asyncio.Future[ReceivedMessage]"]:
        """A new correlation id and its reply; give it back with `forget`.

        Raises:
            TooManyPendingCalls
        """
        if len(self._waiting) >= PENDING_REPLIES_MAX:
            raise TooManyPendingCalls(
                f"{len(self._waiting)} requests wait for their replies; nothing was sent"
            )
        correlation_id = str(uuid.uuid4())
        future = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        return correlation_id, future

    def forget(self, correlation_id: str) -> None:
        self._waiting.pop(correlation_id, None)

    def take(self, request: Command, broker: str) -> None:
        """A reply has arrived; nobody may wait for it any more."""
        try:
            correlation_id, message = pushed_reply(request)
        except (ProtocolError, RecordError) as error:
            log.warning("reply_unreadable broker=%s reason=%s", broker, error)
            return
        future = self._waiting.get(correlation_id)
        if future is None or future.done():
            log.info("reply_unexpected broker=%s correlation_id=%s", broker, correlation_id)
            return
        future.set_result(message)


def request_properties(
    correlation_id: str, client_id: str, timeout_s: float
) -> tuple[tuple[str, str], ...]:
    return (
        (names.CORRELATION_ID, correlation_id),
        (names.REPLY_TO_CLIENT, client_id),
        (names.TTL, str(round(timeout_s * 1000))),
    )


def reply_topic_of(request: ReceivedMessage) -> str:
    """Raises MessageRefused: the message is no request, or no broker has stored it."""
    cluster = request.properties.get(names.CLUSTER)
    if not cluster:
        raise MessageRefused(
            f"{request.message_id} does not say its cluster: it cannot be replied to",
            hint="Only what a broker has stored can",
        )
    return f"{cluster}_{REPLY_TOPIC_SUFFIX}"


def reply_properties(request: ReceivedMessage) -> tuple[tuple[str, str], ...]:
    """Raises MessageRefused: the message is no request."""
    if not is_request(request):
        raise MessageRefused(f"{request.message_id} is no request: nobody waits for a reply")
    copied = (names.CORRELATION_ID, names.REPLY_TO_CLIENT, names.TTL)
    known = request.properties
    return (
        (names.MESSAGE_TYPE, _REPLY_TYPE),
        *((name, known[name]) for name in copied if known.get(name)),
    )


def is_request(message: ReceivedMessage) -> bool:
    known = message.properties
    return bool(known.get(names.CORRELATION_ID) and known.get(names.REPLY_TO_CLIENT))


def queue_near(queues: Sequence[MessageQueue], broker_name: str) -> MessageQueue:
    """A queue of the broker that had the request; any, if that has none."""
    return next((queue for queue in queues if queue.broker_name == broker_name), queues[0])


def pushed_reply(request: Command) -> tuple[str, ReceivedMessage]:
    """The correlation id and the message of a pushed reply.

    Raises:
        ProtocolError, RecordError: it is none.
    """
    header = from_fields(PushReplyMessageToClient, request.fields or {})
    properties = parse_properties(header.properties or "")
    properties[names.ARRIVE_TIME] = str(time.time_ns() // 1_000_000)
    record = Record(
        size_bytes=0,
        magic=0,
        body_crc=0,
        queue_id=header.queue_id,
        flag=header.flag,
        queue_offset=0,
        log_offset=0,
        system_flag=header.system_flag,
        born_at_ms=header.born_at_ms,
        born_host=_host(header.born_host),
        stored_at_ms=header.stored_at_ms,
        store_host=_host(header.store_host),
        reconsume_times=header.reconsume_times or 0,
        prepared_offset=0,
        body=bytes(request.body),
        topic=header.topic,
        properties=encode_properties(properties),
    )
    queue = MessageQueue("", header.queue_id, header.topic)
    return properties.get(names.CORRELATION_ID, ""), ReceivedMessage(record, queue, header.topic)


def _host(address: str) -> PackedHost:
    """Only shown to people; Java may write a slash before it."""
    try:
        return pack_host(*split_address(address.lstrip("/")))
    except (ValueError, RecordError, ProtocolError):
        return UNKNOWN_HOST


def no_reply(message_id: str, timeout_s: float) -> RequestReplyTimeout:
    return RequestReplyTimeout(
        f"nobody replied to {message_id} within {timeout_s:g} s",
        hint="Is there a consumer of the topic that replies?",
    )


def replying(
    function: Callable[[ReceivedMessage], Any],
    reply_to: ReplyTo,
    loop_of: Callable[[], asyncio.AbstractEventLoop],
) -> Callable[[ReceivedMessage], Any]:
    """A handler that sends what `function` returns as the reply; None sends nothing."""

    async def send(message: ReceivedMessage, value: object) -> None:
        if not is_request(message):
            log.info("reply_unwanted message=%s", message)
            return
        await reply_to(message, value)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def handle_async(message: ReceivedMessage) -> None:
            value = await function(message)
            if value is not None:
                await send(message, value)

        return handle_async

    @functools.wraps(function)
    def handle(message: ReceivedMessage) -> None:
        value = function(message)
        if value is not None:
            sending = asyncio.run_coroutine_threadsafe(send(message, value), loop_of())
            sending.result(REPLY_WAIT_S)

    return handle
