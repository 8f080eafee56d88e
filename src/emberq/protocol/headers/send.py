"""Storing messages, and the consumer's way of giving one back."""

from typing import ClassVar

from msgspec import field

from emberq.protocol.codes import EmberqCode, RequestCode
from emberq.protocol.header_fields import Header, Int32, Int64
from emberq.protocol.headers.common import RpcRequest, TopicRequest


class SendMessage(TopicRequest, frozen=True, kw_only=True):
    """One message with long field names; the body is the message's."""

    code: ClassVar = RequestCode.SEND_MESSAGE
    producer_group: str
    topic: str
    # The topic whose settings are copied when `topic` must be created.
    default_topic: str
    default_topic_queue_count: Int32 = field(name="defaultTopicQueueNums")
    # Below 0 the broker chooses.
    queue_id: Int32
    system_flag: Int32 = field(name="sysFlag")
    born_at_ms: Int64 = field(name="bornTimestamp")
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    is_unit_mode: bool = field(name="unitMode", default=False)
    is_batch: bool = field(name="batch", default=False)
    max_reconsume_times: Int32 | None = None


class SendMessageV2(TopicRequest, frozen=True, kw_only=True):
    """Same meaning and attributes as the long form; the peer writes one-letter names."""

    code: ClassVar[RequestCode | EmberqCode] = RequestCode.SEND_MESSAGE_V2
    has_strict_numbers: ClassVar = True
    producer_group: str = field(name="a")
    topic: str = field(name="b")
    default_topic: str = field(name="c")
    default_topic_queue_count: Int32 = field(name="d")
    queue_id: Int32 = field(name="e")
    system_flag: Int32 = field(name="f")
    born_at_ms: Int64 = field(name="g")
    flag: Int32 = field(name="h")
    properties: str | None = field(name="i", default=None)
    reconsume_times: Int32 | None = field(name="j", default=None)
    is_unit_mode: bool = field(name="k", default=False)
    max_reconsume_times: Int32 | None = field(name="l", default=None)
    is_batch: bool = field(name="m", default=False)
    target_broker_name: str | None = field(name="n", default=None)


class SendBatchMessage(SendMessageV2, frozen=True, kw_only=True):
    """The short form with `is_batch` set; the body holds all messages."""

    code: ClassVar = RequestCode.SEND_BATCH_MESSAGE


class SendOnce(SendMessageV2, frozen=True, kw_only=True):
    """A batch whose messages are stored unless they are (docs/formats/send-once.md)."""

    code: ClassVar = EmberqCode.SEND_ONCE


class SendMessageResponse(Header, frozen=True, kw_only=True):
    """Where the message went; clients need the first three whenever it was stored."""

    code: ClassVar = RequestCode.SEND_MESSAGE
    # The offset message id; of a batch, all of them joined by commas.
    message_id: str = field(name="msgId")
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_unique_id: str | None = field(name="batchUniqId", default=None)
    recall_handle: str | None = None
    # Generic fields of the official broker rather than of its header; absent in some errors.
    region_id: str | None = field(name="MSG_REGION", default=None)
    is_trace_on: bool | None = field(name="TRACE_ON", default=None)


class ConsumerSendMessageBack(RpcRequest, frozen=True, kw_only=True):
    """A consumer could not handle a message: deliver it again later."""

    code: ClassVar = RequestCode.CONSUMER_SEND_MSG_BACK
    commit_log_offset: Int64 = field(name="offset")
    group: str
    delay_level: Int32
    origin_message_id: str | None = field(name="originMsgId", default=None)
    origin_topic: str | None = None
    is_unit_mode: bool = field(name="unitMode", default=False)
    max_reconsume_times: Int32 | None = None


class RecallMessage(TopicRequest, frozen=True, kw_only=True):
    """Take back a timed message before it is delivered."""

    code: ClassVar = RequestCode.RECALL_MESSAGE
    producer_group: str | None = None
    topic: str
    recall_handle: str


class RecallMessageResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.RECALL_MESSAGE
    message_id: str = field(name="msgId")
