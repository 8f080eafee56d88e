"""Where a group stands in a queue, and where the queue begins and ends."""

from typing import ClassVar

from msgspec import field

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Header, Int32, Int64
from emberq.protocol.headers.common import RpcRequest, TopicRequest


class QueryConsumerOffset(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.QUERY_CONSUMER_OFFSET
    consumer_group: str
    topic: str
    queue_id: Int32
    is_zero_if_not_found: bool | None = field(name="setZeroIfNotFound", default=None)


class UpdateConsumerOffset(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.UPDATE_CONSUMER_OFFSET
    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class SearchOffsetByTimestamp(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    topic: str
    queue_id: Int32
    timestamp_ms: Int64 = field(name="timestamp")
    # LOWER or UPPER in any case; LOWER when absent.
    boundary_type: str | None = None
    lite_topic: str | None = None


class GetMaxOffset(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_MAX_OFFSET
    topic: str
    queue_id: Int32
    is_committed: bool = field(name="committed", default=True)


class GetMinOffset(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_MIN_OFFSET
    topic: str
    queue_id: Int32


class OffsetResponse(Header, frozen=True, kw_only=True):
    """The answer to all questions for one offset."""

    code: ClassVar = RequestCode.QUERY_CONSUMER_OFFSET
    offset: Int64


class GetEarliestMessageStoreTime(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_EARLIEST_MSG_STORETIME
    topic: str
    queue_id: Int32


class GetEarliestMessageStoreTimeResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_EARLIEST_MSG_STORETIME
    # -1 when the queue is empty.
    timestamp_ms: Int64 = field(name="timestamp")


class QueryCorrectionOffset(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.QUERY_CORRECTION_OFFSET
    # Group names joined by commas.
    filter_groups: str | None = None
    compare_group: str
    topic: str


class CloneGroupOffset(RpcRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CLONE_GROUP_OFFSET
    source_group: str = field(name="srcGroup")
    target_group: str = field(name="destGroup")
    topic: str | None = None
    is_offline: bool = field(name="offline", default=False)
