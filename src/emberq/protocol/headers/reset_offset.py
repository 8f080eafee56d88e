"""Moving a group to another place, and asking its clients where they are."""

from typing import ClassVar

from msgspec import field

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Int32, Int64
from emberq.protocol.headers.common import TopicRequest


class InvokeBrokerToResetOffset(TopicRequest, frozen=True, kw_only=True):
    """A tool asks a broker."""

    code: ClassVar = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    topic: str
    group: str
    # -1 is the end of the queue.
    timestamp_ms: Int64 = field(name="timestamp")
    is_forced: bool = field(name="isForce", default=False)
    # -1 is all queues.
    queue_id: Int32 = -1
    offset: Int64 | None = None


class ResetConsumerClientOffset(InvokeBrokerToResetOffset, frozen=True, kw_only=True):
    """Broker to consumer, oneway; the body holds the offsets."""

    code: ClassVar = RequestCode.RESET_CONSUMER_CLIENT_OFFSET


class InvokeBrokerToGetConsumerStatus(TopicRequest, frozen=True, kw_only=True):
    """A tool asks a broker."""

    code: ClassVar = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    topic: str
    group: str
    # A client id despite its wire name; absent means every client of the group.
    client_id: str | None = field(name="clientAddr", default=None)


class GetConsumerStatusFromClient(InvokeBrokerToGetConsumerStatus, frozen=True, kw_only=True):
    """Broker to consumer, answered."""

    code: ClassVar = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
