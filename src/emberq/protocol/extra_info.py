"""The receipt of a popped message: the text `extraInfo` of its acknowledgement.

It is also the message property POP_CK, and travels back unread by clients.
"""

from enum import IntEnum

from msgspec import Struct, ValidationError, convert

from emberq.errors import ProtocolError
from emberq.protocol.header_fields import Int32, Int64

# An ordered pop has no revive queue; this number stands in its place.
ORDERED_REVIVE_QUEUE_ID = 999


class PopTopicKind(IntEnum):
    """Which topic the message was really read from."""

    NORMAL = 0
    RETRY_V1 = 1  # %RETRY%group_topic
    RETRY_V2 = 2  # %RETRY%group+topic


class PopReceipt(Struct, frozen=True, array_like=True):
    """In wire order, separated by single spaces."""

    start_offset: Int64
    popped_at_ms: Int64
    invisible_time_ms: Int64
    revive_queue_id: Int32
    topic_kind: PopTopicKind
    broker_name: str
    queue_id: Int32
    # Absent in receipts of a whole pop; the ninth part is added by the gRPC proxy.
    queue_offset: Int64 | None = None
    commit_log_offset: Int64 | None = None

    @property
    def is_ordered(self) -> bool:
        return self.revive_queue_id == ORDERED_REVIVE_QUEUE_ID

    def encode(self) -> str:
        text = (
            f"{self.start_offset} {self.popped_at_ms} {self.invisible_time_ms}"
            f" {self.revive_queue_id} {self.topic_kind:d} {self.broker_name} {self.queue_id}"
        )
        if self.queue_offset is None:
            return text
        if self.commit_log_offset is None:
            return f"{text} {self.queue_offset}"
        return f"{text} {self.queue_offset} {self.commit_log_offset}"

    @classmethod
    def decode(cls, text: str) -> "PopReceipt":
        """Raises ProtocolError for a part that is missing or not a number."""
        try:
            return convert(text.split(" "), cls, strict=False)
        except (ValidationError, UnicodeEncodeError) as error:  # the second from lone surrogates
            raise ProtocolError(f"not the receipt of a popped message: {error}") from None
