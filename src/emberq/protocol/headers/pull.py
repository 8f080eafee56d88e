"""Reading a queue from an offset."""

from typing import ClassVar

from msgspec import field

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Header, Int32, Int64
from emberq.protocol.headers.common import TopicRequest


class PullMessage(TopicRequest, frozen=True, kw_only=True):
    """`system_flag` says which of the optional parts count: a commit, waiting, a subscription."""

    code: ClassVar = RequestCode.PULL_MESSAGE
    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_message_count: Int32 = field(name="maxMsgNums")
    system_flag: Int32 = field(name="sysFlag")
    commit_offset: Int64
    suspend_timeout_ms: Int64 = field(name="suspendTimeoutMillis")
    subscription: str | None = None
    subscription_version: Int64 = field(name="subVersion")
    expression_type: str | None = None
    max_message_bytes: Int32 | None = field(name="maxMsgBytes", default=None)
    request_source: Int32 | None = None
    # "Froward" is the official spelling.
    forwarded_client_id: str | None = field(name="proxyFrowardClientId", default=None)
    lite_topic: str | None = None


class LitePullMessage(PullMessage, frozen=True, kw_only=True):
    """The same pull by a 5.x consumer that manages its offsets itself."""

    code: ClassVar = RequestCode.LITE_PULL_MESSAGE


class PullMessageResponse(Header, frozen=True, kw_only=True):
    """Clients need the first four with codes 0, 19, 20 and 21."""

    code: ClassVar = RequestCode.PULL_MESSAGE
    suggested_broker_id: Int64 = field(name="suggestWhichBrokerId")
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_system_flag: Int32 | None = field(name="topicSysFlag", default=None)
    group_system_flag: Int32 | None = field(name="groupSysFlag", default=None)
    forbidden_type: Int32 | None = None
