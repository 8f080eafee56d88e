"""A topic's settings and its permission bits."""

from enum import IntFlag, StrEnum

from msgspec import Struct, field


class Permission(IntFlag):
    """What may be done with a topic's queues."""

    INHERIT = 1
    WRITE = 2
    READ = 4
    PRIORITY = 8


class TopicFilterType(StrEnum):
    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


class TopicFlag(IntFlag):
    """Bits of a topic's sysFlag."""

    UNIT = 1
    UNIT_SUBSCRIPTION = 2


READ_WRITE = int(Permission.READ | Permission.WRITE)
QUEUE_COUNT_DEFAULT = 16
# Who lists a topic's queues makes an entry for each; official brokers know no limit.
QUEUE_COUNT_MAX = 65_536


class TopicConfig(Struct, frozen=True, kw_only=True):
    """What a broker knows of one topic. Permissions and flags stay plain numbers: brokers of
    later versions may set bits we do not know, and we pass them on."""

    attributes: dict[str, str] = {}
    is_ordered: bool = field(name="order", default=False)
    permission: int = field(name="perm", default=READ_WRITE)
    read_queue_count: int = field(name="readQueueNums", default=QUEUE_COUNT_DEFAULT)
    filter_type: TopicFilterType = field(name="topicFilterType", default=TopicFilterType.SINGLE_TAG)
    name: str = field(name="topicName", default="")
    system_flag: int = field(name="topicSysFlag", default=0)
    write_queue_count: int = field(name="writeQueueNums", default=QUEUE_COUNT_DEFAULT)
