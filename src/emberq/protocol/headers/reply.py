"""The reply half of request and reply."""

from typing import ClassVar

from msgspec import field

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Int32, Int64
from emberq.protocol.headers.common import TopicRequest
from emberq.protocol.headers.send import SendMessage, SendMessageV2


class SendReplyMessage(SendMessage, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.SEND_REPLY_MESSAGE


class SendReplyMessageV2(SendMessageV2, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.SEND_REPLY_MESSAGE_V2


class PushReplyMessageToClient(TopicRequest, frozen=True, kw_only=True):
    """Broker to the requester, answered; the body is the reply's."""

    code: ClassVar = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_count: Int32 = field(name="defaultTopicQueueNums")
    queue_id: Int32
    system_flag: Int32 = field(name="sysFlag")
    born_at_ms: Int64 = field(name="bornTimestamp")
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    is_unit_mode: bool = field(name="unitMode", default=False)
    # Both hosts as ip:port.
    born_host: str
    store_host: str
    stored_at_ms: Int64 = field(name="storeTimestamp")
