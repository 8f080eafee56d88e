"""At least once: rows are sent as they come. Those of one queue go in their order, in batch
requests; queues go side by side."""

from collections.abc import Awaitable, Iterator, Sequence
from typing import Any

from emberq.client.aio.producer import Producer
from emberq.client.core.message import Message
from emberq.model.queue import MessageQueue
from emberq.spark.encoded_rows import RowEncoder, hex_keys
from emberq.spark.links import link_to
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


class PlainDelivery:
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, batches: Iterator[Any], task: Task) -> int:
        """How many messages were sent. Raises MessageRefused, SendFailed, BrokerError."""
        options = self._options
        link = link_to(options.connection)
        producer = link.run(lambda: producer_of(link, options, options.producer_group), 0)
        rows = RowMessages(options.topic, task.id_prefix if options.has_ids else None)

        async def send(by_queue: ByQueue) -> None:
            await side_by_side(
                _send_in_order(producer, queue, own, options) for queue, own in by_queue.items()
            )

        name = f"a batch of {task.id_prefix}"

        def keys(topic: str, ids: Any, count: int) -> Any:
            return hex_keys(*link.client.keys.take_numbers(count))

        def send_elements(body: bytes, queue: MessageQueue) -> Awaitable[object]:
            return producer.encoded.send(body, queue, name)

        encoded = Encoded(RowEncoder(rows, keys), send_elements)
        sending = RowSending(rows, link, producer, task, options, send, encoded=encoded)
        return sending.run(batches)

    def commit(self, results: Sequence[object]) -> None:
        """Every message was acknowledged before its task ended."""

    def abort(self, results: Sequence[object]) -> None:
        """What was sent stays: a log has no way back. Another attempt repeats the ids."""


async def _send_in_order(
    producer: Producer, queue: MessageQueue, messages: list[Message], options: SinkOptions
) -> None:
    """Plain messages together; one with a delay cannot travel with others."""

    async def send(some: list[Message]) -> None:
        async def once() -> None:
            if some[0].delay is None:
                await producer.send_batch(some, queue=queue)
            else:
                await producer.send(some[0], queue=queue)

        await sent_again(once, producer, queue.topic, options)

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
