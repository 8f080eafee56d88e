"""Automatic batching: single sends that come within `linger` of each other leave together.

Every caller waits for its own result. What cannot share a request (a compressed body, one that is
larger than a batch) leaves alone, in its turn: messages of one queue never overtake each other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from copy import copy
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from emberq.client.core.message import Message, SendResult
from emberq.client.core.outgoing import Outgoing, outgoing_batch
from emberq.errors import BrokerError, ClientClosed, ConfigError
from emberq.model.queue import MessageQueue
from emberq.model.system_topics import RETRY_PREFIX
from emberq.protocol.codes import ResponseCode
from emberq.record.batch import encode_batch_element

BATCH_BYTES = 32 * 1024
# Answers name the id of every message: this many are some 70 KB.
BATCH_MESSAGES_MAX = 2048
LINGER_MAX_S = 60.0


class Waiting(Struct):
    """A message, and the caller who waits for its result."""

    ready: Outgoing
    message: Message
    element: bytes
    deadline: float
    result: "asyncio.Future[SendResult]"


class Batch(Struct):
    """Messages of one topic that may share a request; `queue` is None if any will do."""

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
        send: SendOne,
        spawn: Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"],
        next_id: Callable[[], str],
    ) -> None:
        """Raises ConfigError."""
        if not 0 < linger_s <= LINGER_MAX_S:
            raise ConfigError(f"linger={linger_s}: expected 0 to {LINGER_MAX_S:.0f} seconds")
        if batch_bytes <= 0:
            raise ConfigError(f"batch_bytes={batch_bytes}: expected a number above 0")
        self._linger_s = linger_s
        self._bytes_max = batch_bytes
        self._send = send
        self._spawn = spawn
        self._next_id = next_id
        self._open: dict[_Key, Batch] = {}

    @staticmethod
    def takes(message: Message) -> bool:
        """Whether brokers store such a message as part of a batch."""
        return message.delay is None and not message.topic.startswith(RETRY_PREFIX)

    async def add(
        self, ready: Outgoing, message: Message, queue: MessageQueue | None, deadline: float
    ) -> SendResult:
        """Wait for company, leave, and return the message's own result.

        Raises what sending the batch raises. The shortest deadline in a batch is the batch's.
        """
        loop = asyncio.get_running_loop()
        is_single = ready.system_flag != 0
        element = b""
        if not is_single:
            element = encode_batch_element(ready.body, ready.properties.encode(), ready.flag)
            is_single = len(element) > self._bytes_max
        waiting = Waiting(ready, message, element, deadline, loop.create_future())
        key = (ready.topic, message.is_store_awaited, queue)
        batch = self._open.get(key)
        if batch is not None and (is_single or batch.size + len(element) > self._bytes_max):
            self._leave(key)
            batch = None
        if batch is None:
            batch = self._open[key] = Batch(queue, message.is_store_awaited)
            if not is_single:
                batch.timer = loop.call_later(self._linger_s, self._leave, key)
        batch.waiting.append(waiting)
        batch.size += len(element)
        if is_single or len(batch.waiting) >= BATCH_MESSAGES_MAX:
            self._leave(key)
        return await waiting.result

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
        ready = outgoing_batch(
            topic,
            [(each.element, each.ready.message_id) for each in waiting],
            self._next_id(),
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
            for each, own in zip(waiting, _shared_out(result, waiting), strict=True):
                if not each.result.done():
                    each.result.set_result(own)

    async def _alone(self, waiting: Waiting, queue: MessageQueue | None) -> None:
        try:
            result = await self._send(waiting.ready, waiting.message, queue, waiting.deadline)
        except Exception as error:
            _fail([waiting], error)
        else:
            if not waiting.result.done():
                waiting.result.set_result(result)


def _shared_out(result: SendResult, waiting: Sequence[Waiting]) -> list[SendResult]:
    """Brokers give a batch consecutive places, and name its messages in their order."""
    offset_ids = result.offset_message_id.split(",")
    if len(offset_ids) != len(waiting):
        # Stored as one record: all are found by its id.
        offset_ids = [result.offset_message_id] * len(waiting)
    return [
        replace(
            result,
            message_id=each.ready.message_id,
            offset_message_id=offset_id,
            queue_offset=result.queue_offset + number,
        )
        for number, (each, offset_id) in enumerate(zip(waiting, offset_ids, strict=True))
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
