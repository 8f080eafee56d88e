"""A broker's consumer groups and what they subscribe to."""

from typing import ClassVar

from msgspec import field

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Header, Int32
from emberq.protocol.headers.common import RpcRequest, TopicRequest


class GetAllSubscriptionGroupConfig(Header, frozen=True, kw_only=True):
    """5.5 brokers may ask for the table in pieces; older ones send no fields."""

    code: ClassVar = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    start_index: Int32 | None = field(name="groupSeq", default=None)
    # JSON of the version that the earlier pieces had.
    data_version: str | None = None
    max_group_count: Int32 | None = field(name="maxGroupNum", default=None)


class GetAllSubscriptionGroupConfigResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    total_group_count: Int32 | None = field(name="totalGroupNum", default=None)


class GetSubscriptionGroupConfig(RpcRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
    group: str


class UpdateAndGetGroupForbidden(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN
    group: str
    topic: str
    # Absent: only tell.
    is_readable: bool | None = field(name="readable", default=None)


class DeleteSubscriptionGroup(RpcRequest, frozen=True, kw_only=True):
    """The flag has another name in each line: write both, obey either."""

    code: ClassVar = RequestCode.DELETE_SUBSCRIPTIONGROUP
    group_name: str
    remove_offset: bool = False
    clean_offset: bool = False

    @property
    def forgets_offsets(self) -> bool:
        return self.remove_offset or self.clean_offset


class QueryTopicsByConsumer(RpcRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.QUERY_TOPICS_BY_CONSUMER
    group: str


class QuerySubscriptionByConsumer(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
    group: str
    topic: str | None = None
