"""Acknowledgements of popped messages, several in one request (200151)."""

from typing import ClassVar

from msgspec import Struct, field

from emberq.protocol.ack_bits import decode_ack_bits


class BatchAckEntry(Struct, frozen=True, kw_only=True):
    """Messages of one pop; position i of `bits` (ack_bits.py) is offset `start_offset + i`."""

    WIRE_ALIASES: ClassVar = {
        "bitSet": "b",
        "consumerGroup": "c",
        "invisibleTime": "it",
        "popTime": "pt",
        "queueId": "q",
        "retry": "r",
        "reviveQueueId": "rq",
        "startOffset": "so",
        "topic": "t",
    }

    bits: str = field(name="b", default="")
    group: str | None = field(name="c", default=None)
    invisible_ms: int = field(name="it", default=0)
    popped_at_ms: int = field(name="pt", default=0)
    queue_id: int = field(name="q", default=0)
    retry: str | None = field(name="r", default=None)
    revive_queue_id: int = field(name="rq", default=0)
    start_offset: int = field(name="so", default=0)
    topic: str | None = field(name="t", default=None)

    def offsets(self) -> list[int]:
        """The acknowledged queue offsets, ascending.

        Raises:
            ProtocolError: the bit set is damaged or longer than a pop can be.
        """
        return [self.start_offset + position for position in decode_ack_bits(self.bits)]


class BatchAck(Struct, frozen=True, kw_only=True):
    entries: list[BatchAckEntry] = field(name="acks", default_factory=list)
    broker_name: str | None = field(name="brokerName", default=None)
