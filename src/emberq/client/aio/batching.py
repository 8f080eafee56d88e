"""Automatic batching: single sends that come within `linger` of each other leave together.

Every caller waits for its own result. What cannot share a request (a compressed body, one that is
larger than a batch) leaves alone, in its turn: messages of one queue never overtake each other.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from copy import copy
from itertools import compress, count
from math import inf
from typing import Any, Protocol

from msgspec import Struct

from emberq.client.aio.room import Room
from emberq.client.core.message import Message, Selector, SendResult
from emberq.client.core.outgoing import (
    Outgoing,
    is_batch_topic,
    outgoing_batch,
    plain_element_size,
    plain_elements,
)
from emberq.errors import BrokerError, ClientClosed, ConfigError
from emberq.model.queue import MessageQueue
from emberq.protocol.codes import ResponseCode
from emberq.record.batch import batch_element_size, encode_batch_element
from emberq.record.message_id import UniqueKeyGenerator

BATCH_BYTES = 32 * 1024
# Answers name the id of every message: this many are some 70 KB.
BATCH_MESSAGES_MAX = 2048
LINGER_MAX_S = 60.0


class Prepared(Struct):
    """A message that is ready to leave."""

    ready: Outgoing
    message: Message


class Batch(Struct):
    """Messages of one topic that may share a request; `queue` is None if any will do."""

    topic: str  # as it is on the wire
    is_store_awaited: bool
    queue: MessageQueue | None
    loop: asyncio.AbstractEventLoop
    timer: asyncio.TimerHandle | None = None
    size: int = 0
    # The shortest of all that are in it.
    deadline: float = inf
    has_plain: bool = False
    # Messages whose callers give back their own places in the room; the batch does it for others.
    prepared_count: int = 0
    # Of plain messages only the bodies: they are made ready together.
    entries: list[bytes | Prepared] = []
    results: "list[asyncio.Future[SendResult]]" = []

    def drop_who_gave_up(self) -> None:
        stay = [not result.done() for result in self.results]
        if not all(stay):
            self.entries = list(compress(self.entries, stay))
            self.results = list(compress(self.results, stay))


class SendOne(Protocol):
    """The producer's way to send a request, with its attempts."""

    def __call__(
        self,
        ready: Outgoing,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
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
        timeout_s: float,
        room: Room,
        prepare: Callable[[Message], Outgoing],
        send: SendOne,
        spawn: Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"],
        keys: UniqueKeyGenerator,
    ) -> None:
        """`timeout_s` is for plain messages, which name none. Raises ConfigError."""
        if not 0 < linger_s <= LINGER_MAX_S:
            raise ConfigError(f"linger={linger_s}: expected 0 to {LINGER_MAX_S:.0f} seconds")
        if batch_bytes <= 0:
            raise ConfigError(f"batch_bytes={batch_bytes}: expected a number above 0")
        self._linger_s = linger_s
        self._timeout_s = timeout_s
        self._room = room
        self._bytes_max = batch_bytes
        self._prepare = prepare
        self._send = send
        self._spawn = spawn
        self._keys = keys
        self._open: dict[_Key, Batch] = {}
        # Of those the ones that have plain messages, by topic.
        self._plain: dict[str, Batch] = {}
        self._plain_size = plain_element_size(keys.next())
        self.plain_body_max = max(batch_bytes - self._plain_size, 0)

    @staticmethod
    def takes(message: Message) -> bool:
        """Whether brokers store such a message as part of a batch."""
        return message.delay is None and is_batch_topic(message.topic)

    def add(
        self, ready: Outgoing, message: Message, queue: MessageQueue | None, deadline: float
    ) -> "asyncio.Future[SendResult]":
        """Wait for company and leave; the future is the message's own result, or what sending the
        batch raises. The shortest deadline in a batch is the batch's."""
        size = batch_element_size(ready.body, ready.properties, ready.flag)
        key = (ready.topic, message.is_store_awaited, queue)
        entry = Prepared(ready, message)
        if not ready.system_flag and size <= self._bytes_max:
            return self._wait(key, entry, size, deadline)
        if key in self._open:
            self._leave(key)  # which must not be overtaken
        result = self._wait(key, entry, 0, deadline)
        self._leave(key)
        return result

    def add_plain(self, topic: str, body: bytes) -> "asyncio.Future[SendResult]":
        """The same for a message that has a topic and a body and nothing else; the body is not
        empty, and at most `plain_body_max` long. Its place in the room is given back here."""
        size = len(body) + self._plain_size
        batch = self._plain.get(topic)
        if batch is None or batch.size + size > self._bytes_max:
            batch = self._batch_for((topic, True, None), size)
            if not batch.has_plain:  # those that follow have more time
                batch.has_plain = True
                batch.deadline = min(batch.deadline, time.monotonic() + self._timeout_s)
                self._plain[topic] = batch
        # As in `_put`, without another call: there are very many of these.
        batch.size += size
        result: asyncio.Future[SendResult] = batch.loop.create_future()
        batch.entries.append(body)
        results = batch.results
        results.append(result)
        if len(results) >= BATCH_MESSAGES_MAX:
            self._leave((topic, True, None))
        return result

    def _wait(
        self, key: _Key, entry: Prepared, size: int, deadline: float
    ) -> "asyncio.Future[SendResult]":
        batch = self._batch_for(key, size)
        batch.deadline = min(batch.deadline, deadline)
        batch.prepared_count += 1
        return self._put(batch, entry, size)

    def _batch_for(self, key: _Key, size: int) -> Batch:
        """The open one if it has so many bytes left."""
        batch = self._open.get(key)
        if batch is not None and batch.size + size > self._bytes_max:
            self._leave(key)
            batch = None
        if batch is None:
            loop = asyncio.get_running_loop()
            batch = self._open[key] = Batch(*key, loop)
            batch.timer = loop.call_later(self._linger_s, self._leave, key)
        return batch

    def _put(
        self, batch: Batch, entry: bytes | Prepared, size: int
    ) -> "asyncio.Future[SendResult]":
        batch.size += size
        result: asyncio.Future[SendResult] = batch.loop.create_future()
        batch.entries.append(entry)
        results = batch.results
        results.append(result)
        if len(results) >= BATCH_MESSAGES_MAX:
            self._leave((batch.topic, batch.is_store_awaited, batch.queue))
        return result

    def flush(self) -> None:
        """Whoever waits leaves now."""
        for key in list(self._open):
            self._leave(key)

    def _leave(self, key: _Key) -> None:
        batch = self._open.pop(key)
        if batch.has_plain:
            del self._plain[batch.topic]
        if batch.timer is not None:
            batch.timer.cancel()
        places = len(batch.results) - batch.prepared_count
        batch.drop_who_gave_up()
        if not batch.results:
            self._room.leave_together(places)
            return
        task = self._spawn(self._travel(batch), "batch")
        task.add_done_callback(lambda done: self._travelled(batch, places))

    def _travelled(self, batch: Batch, places: int) -> None:
        self._room.leave_together(places)
        for waiting in batch.results:
            if not waiting.done():
                waiting.set_exception(ClientClosed("the client was closed before the send ended"))

    async def _travel(self, batch: Batch) -> None:
        if len(batch.results) == 1:
            await self._alone(batch, 0)
            return
        elements, message_ids = self._elements(batch)
        ready = outgoing_batch(
            batch.topic,
            elements,
            message_ids,
            is_store_awaited=batch.is_store_awaited,
        )
        first = Message(batch.topic, b"")  # what all have in common: the queue is theirs
        try:
            result = await self._send(ready, first, batch.queue, None, batch.deadline)
        except BrokerError as error:
            if error.code != ResponseCode.MESSAGE_ILLEGAL:
                _fail(batch.results, error)
                return
            # Nothing was stored. One message is to blame, and the others should not suffer.
            for number in range(len(batch.results)):
                await self._alone(batch, number)
        except Exception as error:
            _fail(batch.results, error)
        else:
            for waiting, own in zip(batch.results, _shared_out(result, message_ids), strict=True):
                if not waiting.done():
                    waiting.set_result(own)

    def _elements(self, batch: Batch) -> tuple[Sequence[bytes], list[str]]:
        bodies = [entry for entry in batch.entries if type(entry) is bytes]
        if len(bodies) == len(batch.entries):
            message_ids = self._keys.take(len(bodies))
            return (plain_elements(bodies, message_ids),), message_ids
        readies = [self._prepared(batch, entry).ready for entry in batch.entries]
        elements = [
            encode_batch_element(ready.body, ready.properties.encode(), ready.flag)
            for ready in readies
        ]
        return elements, [ready.message_id for ready in readies]

    async def _alone(self, batch: Batch, number: int) -> None:
        prepared = self._prepared(batch, batch.entries[number])
        waiting = batch.results[number]
        try:
            result = await self._send(
                prepared.ready, prepared.message, batch.queue, None, batch.deadline
            )
        except Exception as error:
            _fail([waiting], error)
        else:
            if not waiting.done():
                waiting.set_result(result)

    def _prepared(self, batch: Batch, entry: bytes | Prepared) -> Prepared:
        if isinstance(entry, Prepared):
            return entry
        message = Message(batch.topic, entry)
        return Prepared(self._prepare(message), message)


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


def _fail(results: "Sequence[asyncio.Future[SendResult]]", error: Exception) -> None:
    for waiting in results:
        if not waiting.done():
            # Each caller raises its own: tracebacks grow on the object.
            waiting.set_exception(copy(error))
