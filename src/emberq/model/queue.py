"""The name of one queue of a topic on one broker."""

from msgspec import Struct, field


class MessageQueue(Struct, frozen=True, order=True):
    broker_name: str = field(name="brokerName")
    queue_id: int = field(name="queueId")
    topic: str
