"""Finding single messages and queue entries."""

from typing import ClassVar

from msgspec import field

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Header, Int32, Int64
from emberq.protocol.headers.common import TopicRequest


class QueryMessage(TopicRequest, frozen=True, kw_only=True):
    """Messages by key and time."""

    code: ClassVar = RequestCode.QUERY_MESSAGE
    topic: str
    key: str
    max_message_count: Int32 = field(name="maxNum")
    begin_at_ms: Int64 = field(name="beginTimestamp")
    end_at_ms: Int64 = field(name="endTimestamp")
    # K key, U unique key, T tag; 5.5 only.
    index_type: str | None = None
    # Where the answer before this one ended; 5.5 only.
    last_key: str | None = None
    # Not part of the official header: a generic field that older signatures leave out.
    is_unique_key_query: bool | None = field(name="_UNIQUE_KEY_QUERY", default=None)


class QueryMessageResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.QUERY_MESSAGE
    index_updated_at_ms: Int64 = field(name="indexLastUpdateTimestamp")
    index_commit_log_offset: Int64 = field(name="indexLastUpdatePhyoffset")


class ViewMessageById(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.VIEW_MESSAGE_BY_ID
    commit_log_offset: Int64 = field(name="offset")
    topic: str | None = None


class QueryConsumeQueue(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.QUERY_CONSUME_QUEUE
    topic: str | None = None
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None
