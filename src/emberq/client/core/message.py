"""A message to send, and what became of it."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from emberq.errors import MessageRefused
from emberq.model.queue import MessageQueue

# A level of the broker's list (1 is 1 s, 18 is 2 h, unless it is configured otherwise), a time
# to wait, or a moment.
Delay = int | timedelta | datetime


class Message(Struct, frozen=True):
    """What a producer sends. `body` is bytes, or whatever the producer's codec turns into bytes."""

    topic: str
    body: Any
    tags: str | None = None
    keys: str | Sequence[str] = ()
    properties: Mapping[str, str] = {}
    delay: Delay | None = None
    # Messages of one key keep their order: they go to one queue.
    ordering_key: str | int | None = None
    flag: int = 0
    # Whether the broker answers only when the message is as safe as it is configured to be.
    is_store_awaited: bool = True


# Chooses a queue for a message.
Selector = Callable[[Sequence[MessageQueue], Message], MessageQueue]


def message_of(
    message: Message | str,
    body: Any = None,
    tags: str | None = None,
    keys: str | Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    delay: Delay | None = None,
    ordering_key: str | int | None = None,
) -> Message:
    """A message as it was given, or made of its parts."""
    if isinstance(message, str):
        if body is None:
            raise MessageRefused(f"a message to {message} needs a body")
        return Message(message, body, tags, keys, properties or {}, delay, ordering_key)
    if body is not None or tags or keys or properties or delay is not None:
        raise MessageRefused("give a Message, or a topic and its parts, not both")
    return message if ordering_key is None else replace(message, ordering_key=ordering_key)


class SendStatus(StrEnum):
    """SEND_OK, or stored with less safety than configured; failures are exceptions."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


# Outside the garbage collector: there is one for every message, and it points at no container.
class SendResult(Struct, frozen=True, kw_only=True, gc=False):
    """Where a message went."""

    status: SendStatus
    # The producer's own id, the same on every attempt; of a batch, all of them by commas.
    message_id: str
    # The broker's id, by which it finds the message at once.
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    recall_handle: str | None = None
    region: str = "DefaultRegion"
    is_trace_on: bool = True
