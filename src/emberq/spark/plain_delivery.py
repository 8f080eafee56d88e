"""At least once: rows are sent as they come. Those of one queue go in their order, in batch
requests; queues go side by side."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

from emberq.client.aio.producer import Producer
from emberq.client.core.message import Message, SendResult, SendStatus
from emberq.errors import SendFailed
from emberq.model.queue import MessageQueue
from emberq.spark.encoded_rows import RowEncoder, unique_keys
from emberq.spark.links import RETRY_PAUSE_FIRST_S, RETRY_PAUSE_MAX_S, link_to
from emberq.spark.outgoing_rows import RowMessages
from emberq.spark.row_requests import requests_of
from emberq.spark.row_rules import RowRules
from emberq.spark.row_sending import (
    ByQueue,
    Encoded,
    RowSending,
    Task,
    producer_of,
    sent_again,
    side_by_side,
)
from emberq.spark.sink_options import SinkOptions

log = logging.getLogger(__name__)


class PlainDelivery:
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, batches: Iterator[Any], task: Task) -> int:
        """How many messages were sent. Raises MessageRefused, SendFailed, BrokerError."""
        options = self._options
        link = link_to(options.connection)
        producer = link.run(lambda: producer_of(link, options.producer_group), 0)
        rules = RowRules(size_max_bytes=options.send_max_bytes)
        rows = RowMessages(options.topic, task.id_prefix if options.has_ids else None, rules)
        sends = _Sends(producer, options, f"a batch of {task.id_prefix}")

        async def send(by_queue: ByQueue) -> None:
            await side_by_side(sends.in_order(queue, own) for queue, own in by_queue.items())

        def keys(topic: str, ids: Any, count: int) -> Any:
            return unique_keys(link.client.keys.take_numbers, count)

        encoded = Encoded(RowEncoder(rows, keys), sends.safely)
        sending = RowSending(rows, link, producer, task, options, send, encoded=encoded)
        return sending.run(batches)

    def commit(self, results: Sequence[object]) -> None:
        """Every message was acknowledged before its task ended."""

    def abort(self, results: Sequence[object]) -> None:
        """What was sent stays: a log has no way back. Another attempt repeats the ids."""


class SafeSends:
    """Of one task: what a broker has, but could not make as safe as it should be, is sent again."""

    def __init__(self, retries: int) -> None:
        self._retries = retries
        self._is_warned = False

    async def send(
        self, once: Callable[[], Awaitable[Sequence[SendResult]]], queue: MessageQueue
    ) -> None:
        """Raises SendFailed: the broker is too slow, again and again; and what `once` raises."""
        pause_s = RETRY_PAUSE_FIRST_S
        for attempt in range(self._retries + 1):
            if attempt:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_PAUSE_MAX_S)
            unsafe = {result.status for result in await once()} - {SendStatus.SEND_OK}
            if SendStatus.SLAVE_NOT_AVAILABLE in unsafe:
                # It stays so until somebody starts a slave, and counts as sent for all clients.
                self._warn(queue.broker_name)
                unsafe.remove(SendStatus.SLAVE_NOT_AVAILABLE)
            if not unsafe:
                return
            log.info("stored_unsafely broker=%s status=%s", queue.broker_name, min(unsafe))
        raise SendFailed(
            f"{queue.broker_name} has messages of {queue.topic}, but answered {min(unsafe)} "
            f"{self._retries + 1} times: a crash may take them",
            (),
        )

    def _warn(self, broker_name: str) -> None:
        if not self._is_warned:
            log.warning("stored_without_slave broker=%s", broker_name)
        self._is_warned = True


class _Sends:
    """Of one task."""

    def __init__(self, producer: Producer, options: SinkOptions, name: str) -> None:
        """Failures call a batch by this name."""
        self._producer = producer
        self._options = options
        self._name = name
        self._safe = SafeSends(options.retries)

    async def in_order(self, queue: MessageQueue, messages: Sequence[Message]) -> None:
        """One request after the other, each until it arrives."""
        options, take_keys = self._options, self._producer.client.keys.take
        for request in requests_of(messages, take_keys, options.send_max_bytes):
            work = partial(self.safely, request, queue)
            await sent_again(work, self._producer, queue.topic, options)

    async def safely(self, request: bytes | Message, queue: MessageQueue) -> None:
        """Elements of a batch, or a message that goes alone."""
        await self._safe.send(partial(self._once, request, queue), queue)

    async def _once(self, request: bytes | Message, queue: MessageQueue) -> list[SendResult]:
        producer, timeout_s = self._producer, self._options.timeout_s
        if isinstance(request, Message):
            return [await producer.send(request, queue=queue, timeout=timeout_s)]
        return [await producer.encoded.send(request, queue, self._name, timeout_s)]
