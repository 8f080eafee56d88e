"""A broker's topics."""

from typing import ClassVar

from msgspec import field

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Header, Int32
from emberq.protocol.headers.common import RpcRequest, TopicRequest


class UpdateAndCreateTopic(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.UPDATE_AND_CREATE_TOPIC
    topic: str
    # Required by the official definition, needed by no broker.
    default_topic: str | None = None
    read_queue_count: Int32 = field(name="readQueueNums")
    write_queue_count: Int32 = field(name="writeQueueNums")
    permission: Int32 = field(name="perm")
    # SINGLE_TAG or MULTI_TAG.
    filter_type: str = field(name="topicFilterType")
    system_flag: Int32 | None = field(name="topicSysFlag", default=None)
    is_ordered: bool = field(name="order", default=False)
    # Changes as text: `+key=value,-key`.
    attributes: str | None = None
    is_forced: bool | None = field(name="force", default=None)


class UpdateAndCreateStaticTopic(UpdateAndCreateTopic, frozen=True, kw_only=True):
    """The body maps logical to physical queues."""

    code: ClassVar = RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC


class UpdateAndCreateTopicList(RpcRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST


class DeleteTopicInBroker(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.DELETE_TOPIC_IN_BROKER
    topic: str


class GetAllTopicConfig(Header, frozen=True, kw_only=True):
    """5.5 brokers may ask for the table in pieces; older ones send no fields."""

    code: ClassVar = RequestCode.GET_ALL_TOPIC_CONFIG
    start_index: Int32 | None = field(name="topicSeq", default=None)
    # JSON of the version that the earlier pieces had.
    data_version: str | None = None
    max_topic_count: Int32 | None = field(name="maxTopicNum", default=None)


class GetAllTopicConfigResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_ALL_TOPIC_CONFIG
    total_topic_count: Int32 | None = field(name="totalTopicNum", default=None)


class GetTopicConfig(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_TOPIC_CONFIG
    topic: str


class GetTopicStatsInfo(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_TOPIC_STATS_INFO
    topic: str


class QueryTopicConsumeByWho(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
    topic: str
