"""Exclusive queues of orderly consumers (41, 42)."""

from msgspec import Struct, field

from emberq.model.queue import MessageQueue


class QueueLocks(Struct, frozen=True, kw_only=True):
    """The queues that a client wants to lock (41) or gives back (42)."""

    client_id: str = field(name="clientId", default="")
    group: str = field(name="consumerGroup")
    queues: list[MessageQueue] = field(name="mqSet", default_factory=list)
    is_only_this_broker: bool = field(name="onlyThisBroker", default=False)


class LockedQueues(Struct, frozen=True, kw_only=True):
    """The asked queues that now belong to the client (41)."""

    queues: list[MessageQueue] = field(name="lockOKMQSet", default_factory=list)
