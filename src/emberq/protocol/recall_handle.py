"""The ticket with which a producer takes back a timed message before its delivery."""

from base64 import b64decode, urlsafe_b64encode

from msgspec import Struct

from emberq.errors import ProtocolError

_VERSION = "v1"
_PARTS_COUNT = 5  # more of them do no harm
NO_TIME = -1
_TIME_DIGITS_MAX = 18  # the largest numbers that fit in 64 bits whatever their digits


class RecallHandle(Struct, frozen=True, kw_only=True):
    """On the wire: `v1 topic broker time id` as URL-safe Base64."""

    topic: str
    broker_name: str
    deliver_at_ms: int
    # The message's unique key.
    message_id: str

    def encode(self) -> str:
        text = f"{_VERSION} {self.topic} {self.broker_name} {self.deliver_at_ms} {self.message_id}"
        return urlsafe_b64encode(text.encode()).decode("ascii")

    @classmethod
    def decode(cls, handle: str) -> "RecallHandle":
        """Raises ProtocolError for any text that is not such a handle."""
        try:
            padded = handle + "=" * (-len(handle) % 4)
            parts = b64decode(padded, altchars="-_", validate=True).decode().split(" ")
        except ValueError:
            raise ProtocolError("the recall handle is not Base64 text") from None
        if len(parts) < _PARTS_COUNT or parts[0] != _VERSION:
            raise ProtocolError("the recall handle has another form than `v1 topic broker time id`")
        _, topic, broker_name, time, message_id = parts[:_PARTS_COUNT]
        is_number = time.isascii() and time.isdigit() and len(time) <= _TIME_DIGITS_MAX
        return cls(
            topic=topic,
            broker_name=broker_name,
            # Official brokers take a time that they cannot read for one that is over.
            deliver_at_ms=int(time) if is_number else NO_TIME,
            message_id=message_id,
        )
