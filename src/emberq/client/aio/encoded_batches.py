"""Batches whose messages somebody else has encoded, with ids and properties.

Neither hooks nor figures of the client see what is in them.
"""

from collections.abc import Callable
from datetime import timedelta

from emberq.client.aio.client import Client
from emberq.client.aio.sending import Sending
from emberq.client.core.message import Message, SendResult
from emberq.client.core.outgoing import check_topic, outgoing_batch
from emberq.model.queue import MessageQueue


class EncodedBatches:
    """Of one producer."""

    def __init__(self, client: Client, sending: Sending, check_open: Callable[[], None]) -> None:
        self._client = client
        self._sending = sending
        self._check_open = check_open

    async def send(
        self,
        elements: bytes,
        queue: MessageQueue,
        name: str,
        timeout: float | timedelta | None = None,
    ) -> SendResult:
        """Send what fits into one request (docs/formats/batch.md); failures call it by its name.

        Raises:
            MessageRefused, TopicNotFound, NoNameServer, BrokerError, SendFailed
        """
        self._check_open()
        check_topic(queue.topic)
        topic = self._client.wrap(queue.topic)
        ready = outgoing_batch(topic, (elements,), (name,), is_store_awaited=True)
        deadline = self._sending.deadline(timeout)
        async with self._sending.place(deadline):
            whole = Message(queue.topic, elements)
            return await self._sending.send(ready, whole, queue, None, deadline)
