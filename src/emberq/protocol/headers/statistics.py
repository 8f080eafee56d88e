"""How far groups have come and how much a broker moves."""

from typing import ClassVar

from msgspec import field

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Header
from emberq.protocol.headers.common import TopicRequest


class GetConsumeStats(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_CONSUME_STATS
    consumer_group: str
    topic: str | None = None
    # Topic names joined by semicolons.
    topic_list: str | None = None


class GetBrokerConsumeStats(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_BROKER_CONSUME_STATS
    is_ordered: bool = field(name="isOrder", default=False)


class QueryConsumeTimeSpan(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.QUERY_CONSUME_TIME_SPAN
    topic: str
    group: str | None = None


class ViewBrokerStatsData(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.VIEW_BROKER_STATS_DATA
    statistic_name: str | None = field(name="statsName", default=None)
    statistic_key: str | None = field(name="statsKey", default=None)
