"""What a name server tells: routes, clusters, topic names and its key-value table."""

from msgspec import Struct, field

from emberq.model.route import BrokerData, TopicRoute

__all__ = [
    "BrokerMemberGroup",
    "BrokerMemberGroupAnswer",
    "ClusterTable",
    "KeyValueFile",
    "KeyValueTable",
    "TopicNames",
    "TopicRoute",
]


class ClusterTable(Struct, frozen=True, kw_only=True):
    """All brokers by name, and the broker names of each cluster (106)."""

    brokers: dict[str, BrokerData] = field(name="brokerAddrTable", default_factory=dict)
    clusters: dict[str, list[str]] = field(name="clusterAddrTable", default_factory=dict)


class TopicNames(Struct, frozen=True, kw_only=True):
    """Names of topics (206, 224, 304, 305, 311, 312, 313, 343)."""

    broker_address: str | None = field(name="brokerAddr", default=None)
    topics: list[str] = field(name="topicList", default_factory=list)


class KeyValueTable(Struct, frozen=True, kw_only=True):
    """One namespace of the key-value table (103, 219); also a broker's runtime figures (28)."""

    table: dict[str, str] = field(default_factory=dict)


class KeyValueFile(Struct, frozen=True, kw_only=True):
    """kvConfig.json: namespace → key → value. Official name servers write it compactly."""

    namespaces: dict[str, dict[str, str]] = field(name="configTable", default_factory=dict)


class BrokerMemberGroup(Struct, frozen=True, kw_only=True):
    """The addresses of one broker name by broker id."""

    addresses: dict[int, str] = field(name="brokerAddrs", default_factory=dict)
    broker_name: str | None = field(name="brokerName", default=None)
    cluster: str | None = None


class BrokerMemberGroupAnswer(Struct, frozen=True, kw_only=True):
    """The answer to 901."""

    group: BrokerMemberGroup | None = field(name="brokerMemberGroup", default=None)
