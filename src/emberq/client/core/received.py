"""A message as a consumer sees it, and the way from a pull's bytes to such messages.

Most fields are computed when somebody looks at them: a consumer that only wants bodies should not
pay for properties, ids and times.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from emberq.model.queue import MessageQueue
from emberq.model.subscription import Subscription
from emberq.model.system_topics import RETRY_PREFIX
from emberq.record import property_names as names
from emberq.record.batch import iter_batch
from emberq.record.compression import decompress
from emberq.record.decode import iter_records
from emberq.record.host import format_host
from emberq.record.message_id import make_offset_id, visible_message_id
from emberq.record.properties import decode_properties, find_stored_property
from emberq.record.record import Record
from emberq.record.system_flag import COMPRESSED, INNER_BATCH, NEEDS_UNWRAP, compression_type

_TAGS, _RETRY_TOPIC = names.TAGS.encode(), names.RETRY_TOPIC.encode()
NEEDS_UNPACKING = INNER_BATCH | NEEDS_UNWRAP


class ReceivedMessage:
    """What a broker stored. `value` is the body as the consumer's codec reads it."""

    __slots__ = (
        "_body",
        "_properties",
        "_record",
        "max_offset",
        "min_offset",
        "queue",
        "queue_offset",
        "reconsume_times",
        "size",
        "topic",
        "value",
    )

    def __init__(self, record: Record, queue: MessageQueue, topic: str) -> None:
        self._record = record
        self._body: bytes | None = None
        self._properties: dict[str, str] | None = None
        # Where it was read; of a retry that is the retry topic's queue.
        self.queue = queue
        # Where it was sent to first.
        self.topic = topic
        self.queue_offset = record.queue_offset
        # Of the body as it travelled.
        self.size = len(record.body)
        self.reconsume_times = record.reconsume_times
        self.value: Any = None
        # The queue's first and next offset when the message was pulled.
        self.min_offset = 0
        self.max_offset = 0

    def __repr__(self) -> str:
        return (
            f"ReceivedMessage({self.topic!r}, {self.message_id}, queue={self.queue.broker_name}/"
            f"{self.queue.queue_id}, offset={self.queue_offset})"
        )

    @property
    def body(self) -> bytes:
        """Decompressed. Raises RecordError, CompressionUnavailable."""
        body = self._body
        if body is None:
            record = self._record
            plain = record.body
            if record.system_flag & COMPRESSED:
                kind = compression_type(record.system_flag)
                plain = plain if kind is None else decompress(plain, kind)
            body = self._body = bytes(plain)
        return body

    @property
    def stored_body(self) -> bytes:
        """As it travelled, perhaps compressed: `system_flag` says so."""
        return bytes(self._record.body)

    @property
    def record(self) -> Record:
        """The message as it is stored."""
        return self._record

    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def properties(self) -> dict[str, str]:
        if self._properties is None:
            self._properties = decode_properties(self._record.properties)
        return self._properties

    @property
    def tags(self) -> str | None:
        return self.properties.get(names.TAGS)

    @property
    def keys(self) -> list[str]:
        return self.properties.get(names.KEYS, "").split()

    @property
    def message_id(self) -> str:
        """The producer's id, which stays the same through retries of a send."""
        return visible_message_id(self._record)

    @property
    def offset_message_id(self) -> str:
        return make_offset_id(self._record.store_host, self._record.log_offset)

    @property
    def transaction_id(self) -> str | None:
        return self.properties.get(names.TRANSACTION_ID)

    @property
    def queue_id(self) -> int:
        """As the record says."""
        return self._record.queue_id

    @property
    def log_offset(self) -> int:
        return self._record.log_offset

    @property
    def born_at(self) -> datetime:
        return datetime.fromtimestamp(self._record.born_at_ms / 1000, UTC)

    @property
    def born_at_ms(self) -> int:
        return self._record.born_at_ms

    @property
    def stored_at(self) -> datetime:
        return datetime.fromtimestamp(self._record.stored_at_ms / 1000, UTC)

    @property
    def stored_at_ms(self) -> int:
        return self._record.stored_at_ms

    @property
    def born_host(self) -> str:
        return format_host(self._record.born_host)

    @property
    def store_host(self) -> str:
        return format_host(self._record.store_host)

    @property
    def flag(self) -> int:
        return self._record.flag

    @property
    def system_flag(self) -> int:
        return self._record.system_flag

    @property
    def delivery_attempt(self) -> int:
        """1 at first."""
        return self.reconsume_times + 1

    @property
    def lag(self) -> int:
        """Messages of the queue behind this one when it was pulled."""
        return max(self.max_offset - self.queue_offset - 1, 0)


def received_messages(content: bytes, queue: MessageQueue) -> list[ReceivedMessage]:
    """The messages of a pull's answer, those of inner batches one by one.

    Raises:
        RecordError: the bytes are no records.
    """
    messages: list[ReceivedMessage] = []
    is_retry = queue.topic.startswith(RETRY_PREFIX)
    for record in iter_records(content):
        if record.system_flag & NEEDS_UNPACKING == NEEDS_UNPACKING:
            messages += (ReceivedMessage(each, queue, each.topic) for each in unpacked(record))
            continue
        topic = record.topic
        if is_retry:
            origin = find_stored_property(record.properties, _RETRY_TOPIC)
            topic = origin.decode("utf-8", "replace") if origin else topic
        messages.append(ReceivedMessage(record, queue, topic))
    return messages


def wanted(
    messages: Sequence[ReceivedMessage], subscription: Subscription
) -> list[ReceivedMessage]:
    """Those whose tag was asked for: brokers compare hashes only."""
    tags = subscription.tags
    if not tags:
        return list(messages)
    encoded = {tag.encode() for tag in tags}
    return [message for message in messages if _tag_of(message) in encoded]


def _tag_of(message: ReceivedMessage) -> bytes | None:
    return find_stored_property(message._record.properties, _TAGS)


def unpacked(record: Record) -> Iterator[Record]:
    """Messages of an inner batch, with the offsets that they have in their queue."""
    kind = compression_type(record.system_flag)
    body = bytes(record.body) if kind is None else decompress(record.body, kind)
    for number, element in enumerate(iter_batch(body)):
        yield msgspec.structs.replace(
            record,
            body=bytes(element.body),
            properties=element.properties,
            flag=element.flag,
            queue_offset=record.queue_offset + number,
            system_flag=record.system_flag & ~(NEEDS_UNPACKING | 1),
        )
