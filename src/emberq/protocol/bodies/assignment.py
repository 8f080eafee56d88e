"""Queues that a broker assigns to a client (400)."""

from msgspec import Struct, field

from emberq.model.queue import MessageQueue
from emberq.model.subscription import MessageModel, MessageRequestMode


class AssignmentQuery(Struct, frozen=True, kw_only=True):
    client_id: str | None = field(name="clientId", default=None)
    group: str | None = field(name="consumerGroup", default=None)
    message_model: MessageModel | None = field(name="messageModel", default=None)
    strategy_name: str | None = field(name="strategyName", default=None)
    topic: str | None = None


class QueueAssignment(Struct, frozen=True, kw_only=True):
    attachments: dict[str, str] | None = None
    queue: MessageQueue | None = field(name="messageQueue", default=None)
    mode: MessageRequestMode = MessageRequestMode.PULL


class Assignments(Struct, frozen=True, kw_only=True):
    """Absent assignments mean "no valid result": the client keeps what it has."""

    assignments: list[QueueAssignment] | None = field(name="messageQueueAssignments", default=None)
