"""From a message to what a send request carries: checks, properties, compression, batches."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from msgspec import Struct

from emberq.client.core.message import Message
from emberq.errors import MessageRefused
from emberq.model.system_topics import FORBIDDEN_TO_SEND, RETRY_PREFIX
from emberq.record import property_names as names
from emberq.record.batch import (
    batch_element_size,
    encode_batch_alike,
    encode_batch_element,
)
from emberq.record.compression import COMPRESSION_LEVEL_DEFAULT, compress
from emberq.record.layout import PROPERTIES_SIZE_MAX
from emberq.record.properties import NAME_END, VALUE_END
from emberq.record.system_flag import CompressionType, with_compression

NAME_LENGTH_MAX: Final = 127
GROUP_LENGTH_MAX: Final = 255
MESSAGE_SIZE_MAX_BYTES: Final = 4 * 1024 * 1024
COMPRESS_ABOVE_BYTES: Final = 4 * 1024
DELAY_LEVEL_MAX: Final = 18
# Names that were found good are not looked at again.
CHECKED_TOPICS_MAX: Final = 1024

_LEGAL_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_KEY_SEPARATOR = " "
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_ID_BEGIN = f"{names.UNIQUE_KEY}{NAME_END}"
_WAIT_BEGIN = f"{VALUE_END}{names.WAIT}{NAME_END}"
_STORE_AWAITED = f"{_WAIT_BEGIN}true{VALUE_END}"
_STORE_NOT_AWAITED = f"{_WAIT_BEGIN}false{VALUE_END}"


class Compression(Struct, frozen=True, kw_only=True):
    """Bodies from this size on are compressed; None: never."""

    above_bytes: int | None = COMPRESS_ABOVE_BYTES
    kind: CompressionType = CompressionType.ZLIB
    level: int = COMPRESSION_LEVEL_DEFAULT


class Outgoing(Struct, gc=False):
    """A message that is ready to leave; the same on every attempt."""

    topic: str
    body: bytes
    properties: str
    message_id: str
    flag: int
    system_flag: int
    is_batch: bool = False
    # To a client that waits for it: another request code.
    is_reply: bool = False


@lru_cache(maxsize=CHECKED_TOPICS_MAX)
def check_topic(topic: str) -> None:
    """Raises MessageRefused for names that no broker takes."""
    if not topic.strip():
        raise MessageRefused("a message needs a topic")
    if len(topic) > NAME_LENGTH_MAX:
        raise MessageRefused(f"the topic {topic[:32]}… is longer than {NAME_LENGTH_MAX} characters")
    if _LEGAL_NAME.fullmatch(topic) is None:
        raise MessageRefused(
            f"the topic {topic!r} may have letters, digits and the characters % | _ - only"
        )
    if topic in FORBIDDEN_TO_SEND:
        raise MessageRefused(f"nobody but the broker sends to {topic}")


@lru_cache(maxsize=CHECKED_TOPICS_MAX)
def is_batch_topic(topic: str) -> bool:
    """Whether messages of a topic may share a request. Raises MessageRefused as `check_topic`."""
    check_topic(topic)
    return not topic.startswith(RETRY_PREFIX)


def check_group(group: str) -> None:
    """Raises MessageRefused for names that no broker takes."""
    if not group.strip() or len(group) > GROUP_LENGTH_MAX or _LEGAL_NAME.fullmatch(group) is None:
        raise MessageRefused(
            f"the group {group[:64]!r} must have 1 to {GROUP_LENGTH_MAX} letters, digits and the "
            "characters % | _ - only"
        )


def outgoing(
    message: Message,
    topic: str,
    message_id: str,
    *,
    compression: Compression,
    size_max: int,
    extra: Iterable[tuple[str, str]] = (),
) -> Outgoing:
    """What leaves for one message; `topic` is its name on the wire.

    Raises:
        MessageRefused: it cannot be sent, now or ever.
    """
    body = checked_body(message.body, size_max)
    system_flag = 0
    above_bytes = compression.above_bytes
    if above_bytes is not None and len(body) >= above_bytes:
        body = compress(body, compression.kind, compression.level)
        system_flag = with_compression(0, compression.kind)
    return Outgoing(
        topic,
        body,
        properties_text(message, message_id, extra),
        message_id,
        message.flag,
        system_flag,
    )


def checked_body(body: object, size_max: int) -> bytes:
    if type(body) is bytes and 0 < len(body) <= size_max:
        return body
    if not isinstance(body, bytes | bytearray | memoryview):
        raise MessageRefused(
            f"a body is bytes, not {type(body).__name__}; give the producer a codec for others"
        )
    if not len(body):
        raise MessageRefused("a message needs a body")
    if len(body) > size_max:
        raise MessageRefused(f"a body of {len(body)} bytes, at most {size_max} can be sent")
    return bytes(body)


def properties_text(
    message: Message, message_id: str, extra: Iterable[tuple[str, str]] = ()
) -> str:
    """The user's properties and ours, as requests carry them.

    Raises:
        MessageRefused: a reserved name, an empty value, a separator inside, or too much of it.
    """
    wait = _STORE_AWAITED if message.is_store_awaited else _STORE_NOT_AWAITED
    end = f"{_ID_BEGIN}{message_id}{wait}"
    if not (extra or message.properties or message.tags or message.keys) and (
        message.ordering_key is None and message.delay is None
    ):
        return end
    parts: list[str] = []
    for name, value in message.properties.items():
        if name in names.RESERVED:
            raise MessageRefused(f"the property {name} is reserved")
        parts.append(_property(name, value))
    if message.tags:
        parts.append(_property(names.TAGS, message.tags))
    if message.keys:
        keys = (message.keys,) if isinstance(message.keys, str) else message.keys
        parts.append(_property(names.KEYS, _KEY_SEPARATOR.join(keys)))
    if message.ordering_key is not None and names.SHARDING_KEY not in message.properties:
        parts.append(_property(names.SHARDING_KEY, str(message.ordering_key)))
    if message.delay is not None:
        parts.append(_property(*delay_property(message.delay)))
    parts += (_property(name, value) for name, value in extra)
    parts.append(end)
    text = "".join(parts)
    if len(text) > PROPERTIES_SIZE_MAX // 3 and len(text.encode()) > PROPERTIES_SIZE_MAX:
        raise MessageRefused(f"properties of more than {PROPERTIES_SIZE_MAX} bytes")
    return text


def _property(name: str, value: str) -> str:
    if not isinstance(value, str):
        raise MessageRefused(f"the property {name} is {type(value).__name__}, expected text")
    if not name or not value.strip():
        raise MessageRefused(f"the property {name!r} is empty")
    if NAME_END in name or VALUE_END in name or NAME_END in value or VALUE_END in value:
        raise MessageRefused(f"the property {name!r} contains a separator")
    return f"{name}{NAME_END}{value}{VALUE_END}"


def delay_property(delay: int | timedelta | datetime) -> tuple[str, str]:
    """Levels work on all brokers, times and moments on brokers of 5.x."""
    if isinstance(delay, bool):
        raise MessageRefused("a delay is a level, a time or a moment")
    if isinstance(delay, int):
        if delay < 0:
            raise MessageRefused(f"the delay level {delay} is negative")
        return names.DELAY, str(delay)
    if isinstance(delay, timedelta):
        if delay < timedelta():
            raise MessageRefused(f"a delay of {delay} lies in the past")
        return names.TIMER_DELAY_MS, str(_whole_ms(delay))
    # A moment without a time zone is local time, as everywhere in Python.
    return names.TIMER_DELIVER_MS, str(_whole_ms(delay.astimezone(UTC) - _EPOCH))


def _whole_ms(span: timedelta) -> int:
    """Rounded up: a message is never early."""
    return -(-span // _MILLISECOND)


def plain_outgoing(topic: str, body: bytes, message_id: str) -> Outgoing:
    """What `outgoing` makes of a message that has nothing but a topic and a body, if that is small
    enough to leave as it is."""
    return Outgoing(topic, body, f"{_ID_BEGIN}{message_id}{_STORE_AWAITED}", message_id, 0, 0)


# Batches


def plain_element_size(message_id: str) -> int:
    """What a message that has nothing but a topic and a body needs beside its body, as part of a
    batch."""
    return batch_element_size(b"", f"{_ID_BEGIN}{message_id}{_STORE_AWAITED}", 0)


def plain_elements(bodies: Sequence[bytes], message_ids: Iterable[str]) -> bytes:
    """Such messages as one batch: what `outgoing` and `encode_batch_element` make of each, all at
    once. Ids of one client are equally long."""
    texts = [f"{_ID_BEGIN}{message_id}{_STORE_AWAITED}".encode() for message_id in message_ids]
    return encode_batch_alike(bodies, texts)


def check_batch(messages: Sequence[Message]) -> None:
    """Raises MessageRefused for messages that cannot travel together."""
    if not messages:
        raise MessageRefused("an empty batch")
    first = messages[0]
    for message in messages:
        if message.topic != first.topic:
            raise MessageRefused("a batch has one topic")
        if message.is_store_awaited != first.is_store_awaited:
            raise MessageRefused("a batch waits for the disk as a whole or not at all")
        if message.delay is not None:
            raise MessageRefused("a delayed message cannot be part of a batch")
    if first.topic.startswith(RETRY_PREFIX):
        raise MessageRefused("retries cannot be sent in a batch")


def split_batch(
    messages: Iterable[tuple[Message, str]], size_max: int
) -> Iterator[list[tuple[bytes, str]]]:
    """Encoded messages with their ids, in pieces that fit into one request each.

    Raises:
        MessageRefused: one message alone does not fit.
    """
    piece: list[tuple[bytes, str]] = []
    size = 0
    for message, message_id in messages:
        text = properties_text(message, message_id).encode()
        body = checked_body(message.body, size_max)
        element = encode_batch_element(body, text, message.flag)
        if len(element) > size_max:
            raise MessageRefused(
                f"a message of {len(element)} bytes, at most {size_max} can be sent"
            )
        if piece and size + len(element) > size_max:
            yield piece
            piece, size = [], 0
        piece.append((element, message_id))
        size += len(element)
    if piece:
        yield piece


def outgoing_batch(
    topic: str,
    elements: Iterable[bytes],
    message_ids: Iterable[str],
    *,
    is_store_awaited: bool,
) -> Outgoing:
    """One request for several messages; the result names all of their ids.

    The batch has no id of its own: 4.9 brokers append its properties to those of every message, and
    all would have the same one.
    """
    wait = _STORE_AWAITED if is_store_awaited else _STORE_NOT_AWAITED
    properties = wait.removeprefix(VALUE_END)
    ids = ",".join(message_ids)
    return Outgoing(topic, b"".join(elements), properties, ids, 0, 0, is_batch=True)
