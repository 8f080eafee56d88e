"""A topic's settings and its permission bits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntFlag, StrEnum
from types import MappingProxyType


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


READ_WRITE = Permission.READ | Permission.WRITE
QUEUE_COUNT_DEFAULT = 16
NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """What a broker knows of one topic. Permissions and flags stay plain numbers: brokers of
    later versions may set bits we do not know, and we pass them on."""

    name: str
    read_queue_count: int = QUEUE_COUNT_DEFAULT
    write_queue_count: int = QUEUE_COUNT_DEFAULT
    permission: int = int(READ_WRITE)
    filter_type: TopicFilterType = TopicFilterType.SINGLE_TAG
    system_flag: int = 0
    is_ordered: bool = False
    attributes: Mapping[str, str] = field(default=NO_ATTRIBUTES)
