"""Where a topic lives: the brokers that hold it and how many queues each has."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MASTER_ID = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueData:
    """A topic's queues on one broker."""

    broker_name: str
    read_queue_count: int
    write_queue_count: int
    permission: int
    topic_system_flag: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerData:
    """A broker name with the addresses of its master (id 0) and slaves."""

    cluster: str
    broker_name: str
    addresses: Mapping[int, str]
    zone_name: str | None = None
    is_acting_master_enabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRoute:
    """The answer to "where is this topic?"."""

    queues: tuple[QueueData, ...]
    brokers: tuple[BrokerData, ...]
    filter_servers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    order_config: str | None = None
    # Static topics only: broker name → mapping of logical to physical queues, passed on as read.
    queue_mappings: Mapping[str, Mapping[str, Any]] | None = None
