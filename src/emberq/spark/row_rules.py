"""What a delivery takes of a row; who is refused is told before anything of it is sent. Pure."""

from msgspec import Struct

from emberq.client.core.message import Message
from emberq.client.core.outgoing import (
    MESSAGE_SIZE_MAX_BYTES,
    check_topic,
    checked_body,
    is_batch_topic,
    properties_text,
)
from emberq.errors import MessageRefused
from emberq.record.batch import batch_element_size
from emberq.record.layout import BATCH_ELEMENT_SIZE_MIN, PROPERTIES_SIZE_MAX

SIZE_HINT = "send.maxBytes is the most that is sent: give it the brokers' maxMessageSize"
# As long as those that messages get when they leave.
_UNIQUE_KEY = 32 * "0"


class RowRules(Struct, frozen=True, kw_only=True):
    # Of a body, and of a request that has several of them.
    size_max_bytes: int = MESSAGE_SIZE_MAX_BYTES
    # Rows without a delay may share a request; with `is_never_alone` each goes as a batch, which
    # counts its properties as well.
    is_batched: bool = True
    is_never_alone: bool = False
    # A frame that has a column `id` has a value there in each row.
    has_own_ids: bool = False
    # What messages have beside the properties of their rows.
    more_properties: tuple[tuple[str, str], ...] = ()

    def check(self, message: Message, row: int) -> None:
        """Raises MessageRefused: no broker would take it."""
        try:
            self._check(message)
        except MessageRefused as refusal:
            raise MessageRefused(f"row {row} for {message.topic[:64]}: {refusal}") from None

    def _check(self, message: Message) -> None:
        check_topic(message.topic)
        if self.is_batched and message.delay is None and not is_batch_topic(message.topic):
            raise MessageRefused("retries cannot be sent in a batch")
        if len(message.body) > self.size_max_bytes:
            raise MessageRefused(
                f"a body of {len(message.body)} bytes, at most {self.size_max_bytes} can be sent",
                hint=SIZE_HINT,
            )
        checked_body(message.body, self.size_max_bytes)
        text = properties_text(message, _UNIQUE_KEY, self.more_properties)
        if self.is_never_alone:
            size = batch_element_size(message.body, text, message.flag)
            if size > self.size_max_bytes:
                raise MessageRefused(
                    f"a message of {size} bytes with its properties, at most "
                    f"{self.size_max_bytes} can be sent",
                    hint=SIZE_HINT,
                )


def fits_together(message: Message, size_max_bytes: int) -> bool:
    """Whether a message may be part of a batch of this size."""
    if message.delay is not None:
        return False
    if len(message.body) + PROPERTIES_SIZE_MAX + BATCH_ELEMENT_SIZE_MIN <= size_max_bytes:
        return True
    text = properties_text(message, _UNIQUE_KEY)
    return batch_element_size(message.body, text, message.flag) <= size_max_bytes
