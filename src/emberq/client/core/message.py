"""A message to send, and what became of it."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from msgspec import Struct

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


class SendStatus(StrEnum):
    """SEND_OK, or stored with less safety than configured; failures are exceptions."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


class SendResult(Struct, frozen=True, kw_only=True):
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
