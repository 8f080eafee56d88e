"""At least once: rows are sent as they come. Those of one queue go in their order, in batch
requests; queues go side by side."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from emberq.client.aio.producer import Producer
from emberq.client.core.message import Message, SendResult, SendStatus
from emberq.errors import SendFailed
from emberq.model.queue import MessageQueue
from emberq.spark.encoded_rows import RowEncoder, unique_keys
from emberq.spark.links import RETRY_PAUSE_FIRST_S, RETRY_PAUSE_MAX_S, link_to
from emberq.spark.outgoing_rows import RowMessages
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
        producer = link.run(lambda: producer_of(link, options, options.producer_group), 0)
        rows = RowMessages(options.topic, task.id_prefix if options.has_ids else None)
        safely = SafeSends(options.retries)

        async def send(by_queue: ByQueue) -> None:
            await side_by_side(
                _send_in_order(producer, queue, own, options, safely)
                for queue, own in by_queue.items()
            )

        name = f"a batch of {task.id_prefix}"

        def keys(topic: str, ids: Any, count: int) -> Any:
            return unique_keys(link.client.keys.take_numbers, count)

        def send_elements(body: bytes, queue: MessageQueue) -> Awaitable[object]:
            async def once() -> list[SendResult]:
                return [await producer.encoded.send(body, queue, name)]

            return safely.send(once, queue)

        encoded = Encoded(RowEncoder(rows, keys), send_elements)
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


async def _send_in_order(
    producer: Producer,
    queue: MessageQueue,
    messages: list[Message],
    options: SinkOptions,
    safely: SafeSends,
) -> None:
    """Plain messages together; one with a delay cannot travel with others."""

    async def send(some: list[Message]) -> None:
        async def once() -> list[SendResult]:
            if some[0].delay is None:
                return await producer.send_batch(some, queue=queue)
            return [await producer.send(some[0], queue=queue)]

        await sent_again(lambda: safely.send(once, queue), producer, queue.topic, options)

    together: list[Message] = []
    for message in messages:
        if message.delay is None:
            together.append(message)
            continue
        if together:
            await send(together)
            together = []
        await send([message])
    if together:
        await send(together)
