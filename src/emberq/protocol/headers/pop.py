"""Consuming without owning a queue (5.x)."""

from typing import ClassVar

from msgspec import field

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Header, Int32, Int64
from emberq.protocol.headers.common import TopicRequest


class PopMessage(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.POP_MESSAGE
    consumer_group: str
    topic: str
    # -1 is any queue.
    queue_id: Int32
    max_message_count: Int32 = field(name="maxMsgNums")
    invisible_time_ms: Int64 = field(name="invisibleTime")
    poll_time_ms: Int64 = field(name="pollTime")
    born_at_ms: Int64 = field(name="bornTime")
    # Where a new group begins: 0 at the first message, 1 at the next.
    init_mode: Int32
    expression_type: str | None = field(name="expType", default=None)
    expression: str | None = field(name="exp", default=None)
    is_ordered: bool = field(name="order", default=False)
    attempt_id: str | None = None


class PopMessageResponse(Header, frozen=True, kw_only=True):
    """The three lists belong to the messages of the body."""

    code: ClassVar = RequestCode.POP_MESSAGE
    popped_at_ms: Int64 = field(name="popTime")
    invisible_time_ms: Int64 = field(name="invisibleTime")
    # 999 when the pop was ordered.
    revive_queue_id: Int32 = field(name="reviveQid")
    rest_count: Int64 = field(name="restNum")
    start_offset_list: str | None = field(name="startOffsetInfo", default=None)
    message_offset_list: str | None = field(name="msgOffsetInfo", default=None)
    order_count_list: str | None = field(name="orderCountInfo", default=None)


class AckMessage(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.ACK_MESSAGE
    consumer_group: str
    topic: str
    queue_id: Int32
    # The text of emberq.protocol.extra_info.
    extra_info: str
    offset: Int64
    lite_topic: str | None = None


class PeekMessage(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.PEEK_MESSAGE
    topic: str
    queue_id: Int32
    max_message_count: Int32 = field(name="maxMsgNums")
    consumer_group: str


class ChangeMessageInvisibleTime(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    invisible_time_ms: Int64 = field(name="invisibleTime")
    lite_topic: str | None = None
    is_suspended: bool = field(name="suspend", default=False)


class ChangeMessageInvisibleTimeResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
    popped_at_ms: Int64 = field(name="popTime")
    invisible_time_ms: Int64 = field(name="invisibleTime")
    revive_queue_id: Int32 = field(name="reviveQid")


class Notification(TopicRequest, frozen=True, kw_only=True):
    """Wait until there is something to pop."""

    code: ClassVar = RequestCode.NOTIFICATION
    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time_ms: Int64 = field(name="pollTime")
    born_at_ms: Int64 = field(name="bornTime")
    is_ordered: bool = field(name="order", default=False)
    attempt_id: str | None = None
    expression_type: str | None = field(name="expType", default=None)
    expression: str | None = field(name="exp", default=None)


class NotificationResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.NOTIFICATION
    has_message: bool = field(name="hasMsg", default=False)
    is_polling_full: bool = field(name="pollingFull", default=False)


class PollingInfo(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.POLLING_INFO
    consumer_group: str
    topic: str
    queue_id: Int32


class PollingInfoResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.POLLING_INFO
    polling_count: Int32 = field(name="pollingNum")
