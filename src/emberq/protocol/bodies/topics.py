"""Topic settings: whole tables (21, in 103), several (18) or one (351)."""

from msgspec import Struct, field

from emberq.model.data_version import DataVersion
from emberq.model.static_topic import StaticTopicMapping, StaticTopicMappingDetail
from emberq.model.topic import QUEUE_COUNT_DEFAULT, READ_WRITE, TopicConfig, TopicFilterType

__all__ = [
    "DataVersion",
    "StaticTopicMappingDetail",
    "TopicList",
    "TopicTable",
    "TopicWithMapping",
]


class TopicTable(Struct, frozen=True, kw_only=True):
    """All topics of a broker. The mappings belong to static topics and come with 5.x only."""

    data_version: DataVersion = field(name="dataVersion", default_factory=DataVersion)
    mapping_data_version: DataVersion | None = field(name="mappingDataVersion", default=None)
    topics: dict[str, TopicConfig] = field(name="topicConfigTable", default_factory=dict)
    mapping_details: dict[str, StaticTopicMappingDetail] | None = field(
        name="topicQueueMappingDetailMap", default=None
    )
    mappings: dict[str, StaticTopicMapping] | None = field(
        name="topicQueueMappingInfoMap", default=None
    )


class TopicList(Struct, frozen=True, kw_only=True):
    """Topics to create or change together (18)."""

    topics: list[TopicConfig] | None = field(name="topicConfigList", default=None)


class TopicWithMapping(Struct, frozen=True, kw_only=True):
    """One topic (351): the members of a topic's settings with the mapping of a static one."""

    attributes: dict[str, str] = {}
    mapping_detail: StaticTopicMappingDetail | None = field(name="mappingDetail", default=None)
    is_ordered: bool = field(name="order", default=False)
    permission: int = field(name="perm", default=READ_WRITE)
    read_queue_count: int = field(name="readQueueNums", default=QUEUE_COUNT_DEFAULT)
    filter_type: TopicFilterType = field(name="topicFilterType", default=TopicFilterType.SINGLE_TAG)
    name: str = field(name="topicName", default="")
    system_flag: int = field(name="topicSysFlag", default=0)
    write_queue_count: int = field(name="writeQueueNums", default=QUEUE_COUNT_DEFAULT)
