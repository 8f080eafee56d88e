"""From what users give to what leaves: codec, namespace, id and compression of one producer."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from emberq.client.aio.client import Client
from emberq.client.codecs import BYTES, Codec
from emberq.client.core.message import Message
from emberq.client.core.outgoing import (
    Compression,
    Outgoing,
    check_topic,
    outgoing,
    outgoing_batch,
    split_batch,
)
from emberq.record import property_names

Properties = tuple[tuple[str, str], ...]


class Preparation:
    """Of one producer."""

    def __init__(
        self, client: Client, codec: Codec[Any], compression: Compression, size_max: int
    ) -> None:
        self._client = client
        self._codec = codec
        self._compression = compression
        self._size_max = size_max
        # Bodies up to this size leave as they are.
        self.plain_body_max = size_max
        if compression.above_bytes is not None:
            self.plain_body_max = min(size_max, compression.above_bytes - 1)

    def ready(
        self, message: Message, extra: Properties = (), wire_topic: str | None = None
    ) -> Outgoing:
        """`extra` are properties that users may not set. Raises MessageRefused."""
        check_topic(message.topic)
        client = self._client
        if client.namespace:
            extra += ((property_names.INSTANCE_ID, client.namespace),)
        return outgoing(
            self._encoded(message),
            wire_topic or client.wrap(message.topic),
            client.keys.next(),
            compression=self._compression,
            size_max=self._size_max,
            extra=extra,
        )

    def ready_batches(self, messages: Sequence[Message]) -> list[Outgoing]:
        """Messages of one topic, in as many requests as their sizes need. Raises MessageRefused."""
        encoded = [self._encoded(message) for message in messages]
        first = encoded[0]
        check_topic(first.topic)
        topic = self._client.wrap(first.topic)
        identified = zip(encoded, self._client.keys.take(len(encoded)), strict=True)
        return [
            outgoing_batch(
                topic,
                [element for element, _ in piece],
                [message_id for _, message_id in piece],
                is_store_awaited=first.is_store_awaited,
            )
            for piece in split_batch(identified, self._size_max)
        ]

    def _encoded(self, message: Message) -> Message:
        if self._codec is BYTES and type(message.body) is bytes:
            return message
        return replace(message, body=self._codec.encode(message.body))
