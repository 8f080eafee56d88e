"""What brokers, clients and tools ask a name server."""

from typing import ClassVar

from msgspec import field

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Header, Int32, Int64
from emberq.protocol.headers.common import TopicRequest


class PutKvConfig(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.PUT_KV_CONFIG
    namespace: str
    key: str
    value: str


class GetKvConfig(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_KV_CONFIG
    namespace: str
    key: str


class GetKvConfigResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_KV_CONFIG
    value: str | None = None


class DeleteKvConfig(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.DELETE_KV_CONFIG
    namespace: str
    key: str


class GetKvListByNamespace(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_KVLIST_BY_NAMESPACE
    namespace: str


class RegisterBroker(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.REGISTER_BROKER
    broker_name: str
    broker_address: str = field(name="brokerAddr")
    cluster_name: str
    ha_server_address: str = field(name="haServerAddr")
    broker_id: Int64
    is_compressed: bool = field(name="compressed", default=False)
    # 0 says that the body was not summed.
    body_crc32: Int32 = 0
    heartbeat_timeout_ms: Int64 | None = field(name="heartbeatTimeoutMillis", default=None)
    is_acting_master_enabled: bool | None = field(name="enableActingMaster", default=None)
    # Not part of the official header: a generic field that 5.x clients add to every request.
    zone_name: str | None = field(name="__ZONE_NAME", default=None)


class RegisterBrokerResponse(Header, frozen=True, kw_only=True):
    """Where a slave finds its master; empty for a master."""

    code: ClassVar = RequestCode.REGISTER_BROKER
    ha_server_address: str | None = field(name="haServerAddr", default=None)
    master_address: str | None = field(name="masterAddr", default=None)


class UnregisterBroker(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.UNREGISTER_BROKER
    broker_name: str
    broker_address: str = field(name="brokerAddr")
    cluster_name: str
    broker_id: Int64


class QueryDataVersion(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.QUERY_DATA_VERSION
    broker_name: str
    broker_address: str = field(name="brokerAddr")
    cluster_name: str
    broker_id: Int64


class QueryDataVersionResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.QUERY_DATA_VERSION
    is_changed: bool = field(name="changed")


class GetRouteInfoByTopic(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_ROUTEINFO_BY_TOPIC
    topic: str
    accepts_standard_json_only: bool | None = field(name="acceptStandardJsonOnly", default=None)


class DeleteTopicInNameServer(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.DELETE_TOPIC_IN_NAMESRV
    topic: str
    # With a cluster, only that cluster's brokers leave the topic.
    cluster_name: str | None = None


class RegisterTopicInNameServer(TopicRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.REGISTER_TOPIC_IN_NAMESRV
    topic: str


class GetTopicsByCluster(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_TOPICS_BY_CLUSTER
    cluster: str


class WipeWritePermOfBroker(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.WIPE_WRITE_PERM_OF_BROKER
    broker_name: str


class WipeWritePermOfBrokerResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.WIPE_WRITE_PERM_OF_BROKER
    topic_count: Int32 = field(name="wipeTopicCount")


class AddWritePermOfBroker(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.ADD_WRITE_PERM_OF_BROKER
    broker_name: str


class AddWritePermOfBrokerResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.ADD_WRITE_PERM_OF_BROKER
    topic_count: Int32 = field(name="addTopicCount")


class GetBrokerMemberGroup(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_BROKER_MEMBER_GROUP
    cluster_name: str
    broker_name: str


class BrokerHeartbeat(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.BROKER_HEARTBEAT
    cluster_name: str
    broker_address: str = field(name="brokerAddr")
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    # The official spelling has "Mills" here and "Millis" in a registration.
    heartbeat_timeout_ms: Int64 | None = field(name="heartbeatTimeoutMills", default=None)
    election_priority: Int32 | None = None


class NotifyMinBrokerIdChange(Header, frozen=True, kw_only=True):
    """Name server to broker, oneway: another member of the group is now the lowest."""

    code: ClassVar = RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE
    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_address: str | None = field(name="minBrokerAddr", default=None)
    offline_broker_address: str | None = field(name="offlineBrokerAddr", default=None)
    ha_broker_address: str | None = field(name="haBrokerAddr", default=None)
