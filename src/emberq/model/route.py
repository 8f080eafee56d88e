"""Where a topic lives: the brokers that hold it and how many queues each has."""

from msgspec import Struct, field

from emberq.model.static_topic import StaticTopicMapping

MASTER_ID = 0


class QueueData(Struct, frozen=True, kw_only=True):
    """A topic's queues on one broker."""

    broker_name: str = field(name="brokerName")
    permission: int = field(name="perm", default=0)
    read_queue_count: int = field(name="readQueueNums", default=0)
    topic_system_flag: int = field(name="topicSysFlag", default=0)
    write_queue_count: int = field(name="writeQueueNums", default=0)


class BrokerData(Struct, frozen=True, kw_only=True):
    """A broker name with the addresses of its master (id 0) and slaves."""

    addresses: dict[int, str] = field(name="brokerAddrs")
    broker_name: str = field(name="brokerName")
    cluster: str | None = None
    is_acting_master_enabled: bool = field(name="enableActingMaster", default=False)
    zone_name: str | None = field(name="zoneName", default=None)


class TopicRoute(Struct, frozen=True, kw_only=True):
    """The answer to "where is this topic?"."""

    brokers: list[BrokerData] = field(name="brokerDatas", default_factory=list)
    filter_servers: dict[str, list[str]] = field(name="filterServerTable", default_factory=dict)
    order_config: str | None = field(name="orderTopicConf", default=None)
    queues: list[QueueData] = field(name="queueDatas", default_factory=list)
    # Static topics only: broker name → mapping of logical to physical queues.
    queue_mappings: dict[str, StaticTopicMapping] | None = field(
        name="topicQueueMappingByBroker", default=None
    )
