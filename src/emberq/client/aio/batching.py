"""Automatic batching: single sends that come within `linger` of each other leave together.

Every caller waits for its own result. What cannot share a request (a compressed body, one that is
larger than a batch) leaves alone, in its turn: messages of one queue never overtake each other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from copy import copy
from itertools import count
from typing import Any, Protocol

from msgspec import Struct

from emberq.client.core.message import Message, SendResult
from emberq.client.core.outgoing import (
    Outgoing,
    outgoing_batch,
    plain_element_size,
    plain_elements,
)
from emberq.errors import BrokerError, ClientClosed, ConfigError
from emberq.model.queue import MessageQueue
from emberq.model.system_topics import RETRY_PREFIX
from emberq.protocol.codes import ResponseCode
from emberq.record.batch import batch_element_size, encode_batch_element
from emberq.record.message_id import UniqueKeyGenerator

BATCH_BYTES = 32 * 1024
# Answers name the id of every message: this many are some 70 KB.
BATCH_MESSAGES_MAX = 2048
LINGER_MAX_S = 60.0


class Waiting(Struct):
    """A message, and the caller who waits for its result."""

    message: Message
    deadline: float
    result: "asyncio.Future[SendResult]"
    # None: the message is plain, and made ready with its companions.
    ready: Outgoing | None


class Batch(Struct):
    """Messages of one topic that may share a request; `queue` is None if any will do."""

    loop: asyncio.AbstractEventLoop
    queue: MessageQueue | None
    is_store_awaited: bool
    timer: asyncio.TimerHandle | None = None
    size: int = 0
    waiting: list[Waiting] = []


class SendOne(Protocol):
    """The producer's way to send a request, with its attempts."""

    def __call__(
        self,
        ready: Outgoing,
        message: Message,
        queue: MessageQueue | None,
        deadline: float,
    ) -> Awaitable[SendResult]: ...


_Key = tuple[str, bool, MessageQueue | None]


class Batching:
    """Collects the single sends of one producer."""

    def __init__(
        self,
        linger_s: float,
        batch_bytes: int,
        *,
        prepare: Callable[[Message], Outgoing],
        send: SendOne,
        spawn: Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"],
        keys: UniqueKeyGenerator,
    ) -> None:
        """Raises ConfigError."""
        if not 0 < linger_s <= LINGER_MAX_S:
            raise ConfigError(f"linger={linger_s}: expected 0 to {LINGER_MAX_S:.0f} seconds")
        if batch_bytes <= 0:
            raise ConfigError(f"batch_bytes={batch_bytes}: expected a number above 0")
        self._linger_s = linger_s
        self._bytes_max = batch_bytes
        self._prepare = prepare
        self._send = send
        self._spawn = spawn
        self._keys = keys
        self._open: dict[_Key, Batch] = {}
        self._plain_size = plain_element_size(keys.next())
        self.plain_body_max = max(batch_bytes - self._plain_size, 0)

    @staticmethod
    def takes(message: Message) -> bool:
        """Whether brokers store such a message as part of a batch."""
        return message.delay is None and not message.topic.startswith(RETRY_PREFIX)

    def add(
        self, ready: Outgoing, message: Message, queue: MessageQueue | None, deadline: float
    ) -> "asyncio.Future[SendResult]":
        """Wait for company and leave; the future is the message's own result, or what sending the
        batch raises. The shortest deadline in a batch is the batch's."""
        size = batch_element_size(ready.body, ready.properties, ready.flag)
        key = (ready.topic, message.is_store_awaited, queue)
        if ready.system_flag or size > self._bytes_max:
            if key in self._open:
                self._leave(key)  # which must not be overtaken
            return self._wait(key, size, message, deadline, ready, is_single=True)
        return self._wait(key, size, message, deadline, ready)

    def add_plain(self, message: Message, deadline: float) -> "asyncio.Future[SendResult]":
        """The same for a plain message, whose body is at most `plain_body_max` long."""
        key = (message.topic, message.is_store_awaited, None)
        return self._wait(key, len(message.body) + self._plain_size, message, deadline, None)

    def _wait(
        self,
        key: _Key,
        size: int,
        message: Message,
        deadline: float,
        ready: Outgoing | None,
        *,
        is_single: bool = False,
    ) -> "asyncio.Future[SendResult]":
        batch = self._open.get(key)
        if batch is not None and batch.size + size > self._bytes_max:
            self._leave(key)
            batch = None
        if batch is None:
            batch = self._new_batch(key, is_single=is_single)
        result: asyncio.Future[SendResult] = batch.loop.create_future()
        batch.waiting.append(Waiting(message, deadline, result, ready))
        batch.size += size
        if is_single or len(batch.waiting) >= BATCH_MESSAGES_MAX:
            self._leave(key)
        return result

    def _new_batch(self, key: _Key, *, is_single: bool) -> Batch:
        loop = asyncio.get_running_loop()
        batch = self._open[key] = Batch(loop, key[2], key[1])
        if not is_single:
            batch.timer = loop.call_later(self._linger_s, self._leave, key)
        return batch

    def flush(self) -> None:
        """Whoever waits leaves now."""
        for key in list(self._open):
            self._leave(key)

    def _leave(self, key: _Key) -> None:
        batch = self._open.pop(key)
        if batch.timer is not None:
            batch.timer.cancel()
        # Who gave up meanwhile does not travel.
        batch.waiting = [each for each in batch.waiting if not each.result.done()]
        if not batch.waiting:
            return
        task = self._spawn(self._travel(key[0], batch), "batch")
        task.add_done_callback(lambda done: _abandon(batch.waiting))

    async def _travel(self, topic: str, batch: Batch) -> None:
        waiting = batch.waiting
        if len(waiting) == 1:
            await self._alone(waiting[0], batch.queue)
            return
        elements, message_ids = self._elements(waiting)
        ready = outgoing_batch(
            topic,
            elements,
            message_ids,
            self._keys.next(),
            is_store_awaited=batch.is_store_awaited,
        )
        deadline = min(each.deadline for each in waiting)
        try:
            result = await self._send(ready, waiting[0].message, batch.queue, deadline)
        except BrokerError as error:
            if error.code != ResponseCode.MESSAGE_ILLEGAL:
                _fail(waiting, error)
                return
            # Nothing was stored. One message is to blame, and the others should not suffer.
            for each in waiting:
                await self._alone(each, batch.queue)
        except Exception as error:
            _fail(waiting, error)
        else:
            for each, own in zip(waiting, _shared_out(result, message_ids), strict=True):
                if not each.result.done():
                    each.result.set_result(own)

    def _elements(self, waiting: Sequence[Waiting]) -> tuple[list[bytes], list[str]]:
        if all(each.ready is None for each in waiting):
            message_ids = self._keys.take(len(waiting))
            return plain_elements([each.message for each in waiting], message_ids), message_ids
        readies = [each.ready or self._prepare(each.message) for each in waiting]
        elements = [
            encode_batch_element(ready.body, ready.properties.encode(), ready.flag)
            for ready in readies
        ]
        return elements, [ready.message_id for ready in readies]

    async def _alone(self, waiting: Waiting, queue: MessageQueue | None) -> None:
        try:
            ready = waiting.ready or self._prepare(waiting.message)
            result = await self._send(ready, waiting.message, queue, waiting.deadline)
        except Exception as error:
            _fail([waiting], error)
        else:
            if not waiting.result.done():
                waiting.result.set_result(result)


def _shared_out(result: SendResult, message_ids: Sequence[str]) -> list[SendResult]:
    """Brokers give a batch consecutive places, and name its messages in their order."""
    offset_ids = result.offset_message_id.split(",")
    if len(offset_ids) != len(message_ids):
        # Stored as one record: all are found by its id.
        offset_ids = [result.offset_message_id] * len(message_ids)
    # Not `replace`, which takes twice the time for every message.
    status, queue, transaction_id = result.status, result.queue, result.transaction_id
    recall_handle, region, is_trace_on = result.recall_handle, result.region, result.is_trace_on
    return [
        SendResult(
            status=status,
            message_id=message_id,
            offset_message_id=offset_id,
            queue=queue,
            queue_offset=queue_offset,
            transaction_id=transaction_id,
            recall_handle=recall_handle,
            region=region,
            is_trace_on=is_trace_on,
        )
        for queue_offset, message_id, offset_id in zip(
            count(result.queue_offset), message_ids, offset_ids, strict=False
        )
    ]


def _fail(waiting: Sequence[Waiting], error: Exception) -> None:
    for each in waiting:
        if not each.result.done():
            # Each caller raises its own: tracebacks grow on the object.
            each.result.set_exception(copy(error))


def _abandon(waiting: Sequence[Waiting]) -> None:
    for each in waiting:
        if not each.result.done():
            each.result.set_exception(ClientClosed("the client was closed before the send ended"))
