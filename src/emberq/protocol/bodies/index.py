"""Which body belongs to which code; modules are imported when their body is first asked for."""

from functools import cache
from importlib import import_module
from typing import Any, Final

from emberq.protocol.codes import RequestCode

# Bodies of these are properties text (properties_text.py) in the direction that has one.
PROPERTIES_TEXT_CODES: Final = frozenset(
    {
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.UPDATE_NAMESRV_CONFIG,
        RequestCode.GET_NAMESRV_CONFIG,
    }
)

# Bodies of these are message records or the bytes of one message (emberq.record), or, for the
# timer's check point, a binary file.
RECORD_CODES: Final = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.POP_MESSAGE,
        RequestCode.PEEK_MESSAGE,
        RequestCode.QUERY_MESSAGE,
        RequestCode.VIEW_MESSAGE_BY_ID,
        RequestCode.CHECK_TRANSACTION_STATE,
        RequestCode.GET_TIMER_CHECK_POINT,
    }
)


def request_body_type(code: int) -> Any:
    """The type of a request's JSON body for `decode_body`; None when there is none."""
    return _resolve(_BODIES.get(code, _NO_BODIES)[0])


def response_body_type(code: int) -> Any:
    """The type of an answer's JSON body; None when there is none."""
    return _resolve(_BODIES.get(code, _NO_BODIES)[1])


def indexed_codes() -> frozenset[int]:
    """The codes that have a JSON body in some direction."""
    return frozenset(_BODIES)


@cache
def _resolve(reference: str | None) -> Any:
    if reference is None:
        return None
    module, _, name = reference.partition(":")
    return getattr(import_module(f"emberq.protocol.bodies.{module}"), name)


_NO_BODIES: Final = (None, None)

_BODIES: Final[dict[int, tuple[str | None, str | None]]] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: ("topics:TopicList", None),
    RequestCode.GET_ALL_TOPIC_CONFIG: (None, "topics:TopicTable"),
    RequestCode.GET_BROKER_RUNTIME_INFO: (None, "routes:KeyValueTable"),
    RequestCode.HEART_BEAT: ("heartbeat:Heartbeat", None),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: (None, "groups:ConsumerIds"),
    RequestCode.LOCK_BATCH_MQ: ("locks:QueueLocks", "locks:LockedQueues"),
    RequestCode.UNLOCK_BATCH_MQ: ("locks:QueueLocks", None),
    RequestCode.GET_ALL_CONSUMER_OFFSET: (None, "offsets:ConsumerOffsetTable"),
    RequestCode.GET_ALL_DELAY_OFFSET: (None, "offsets:DelayOffsetTable"),
    RequestCode.GET_TIMER_METRICS: (None, "timers:TimerMetricsTable"),
    RequestCode.CHECK_CLIENT_CONFIG: ("groups:ClientCheck", None),
    RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: (None, "auth:PlainAcl"),
    RequestCode.GET_TIMER_METRICS: (None, "ha:TimerMetrics"),
    RequestCode.REGISTER_BROKER: ("registration:RegisterBrokerBody", "routes:KeyValueTable"),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: (None, "routes:TopicRoute"),
    RequestCode.GET_BROKER_CLUSTER_INFO: (None, "routes:ClusterTable"),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: ("groups:GroupConfig", None),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: (None, "groups:GroupTable"),
    RequestCode.GET_TOPIC_STATS_INFO: (None, "statistics:TopicStats"),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: (None, "connections:ConsumerConnections"),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: (None, "connections:ProducerConnections"),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: (None, "routes:TopicNames"),
    RequestCode.GET_CONSUME_STATS: (None, "statistics:ConsumeStats"),
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: ("routes:TopicRoute", None),
    RequestCode.GET_KVLIST_BY_NAMESPACE: (None, "routes:KeyValueTable"),
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: ("offsets:QueueOffsets", None),
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: (None, "offsets:ConsumerStatus"),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: (None, "offsets:QueueOffsets"),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: (None, "offsets:ConsumerStatus"),
    RequestCode.GET_TOPICS_BY_CLUSTER: (None, "routes:TopicNames"),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: ("groups:GroupList", None),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: (None, "groups:GroupNames"),
    RequestCode.QUERY_CONSUME_TIME_SPAN: (None, "statistics:ConsumeTimeSpans"),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: (None, "routes:TopicNames"),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: (None, "routes:TopicNames"),
    RequestCode.GET_CONSUMER_RUNNING_INFO: (None, "running:ConsumerRunningState"),
    RequestCode.QUERY_CORRECTION_OFFSET: (None, "offsets:CorrectionOffsets"),
    # The request's body is one message record.
    RequestCode.CONSUME_MESSAGE_DIRECTLY: (None, "running:DirectConsumeResult"),
    RequestCode.GET_UNIT_TOPIC_LIST: (None, "routes:TopicNames"),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: (None, "routes:TopicNames"),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: (None, "routes:TopicNames"),
    RequestCode.VIEW_BROKER_STATS_DATA: (None, "statistics:BrokerStats"),
    RequestCode.GET_BROKER_CONSUME_STATS: (None, "statistics:BrokerConsumeStats"),
    RequestCode.QUERY_CONSUME_QUEUE: (None, "queries:ConsumeQueueEntries"),
    RequestCode.QUERY_DATA_VERSION: ("topics:DataVersion", "topics:DataVersion"),
    RequestCode.GET_ALL_PRODUCER_INFO: (None, "connections:ProducerTable"),
    RequestCode.QUERY_TOPICS_BY_CONSUMER: (None, "routes:TopicNames"),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: (None, "groups:GroupSubscription"),
    RequestCode.GET_TOPIC_CONFIG: (None, "topics:TopicWithMapping"),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: (None, "groups:GroupConfig"),
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: (None, "groups:GroupForbidden"),
    RequestCode.QUERY_ASSIGNMENT: ("assignment:AssignmentQuery", "assignment:Assignments"),
    RequestCode.SET_MESSAGE_REQUEST_MODE: ("request_mode:RequestModeSetting", None),
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: (None, "request_mode:RequestModeTable"),
    RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC: ("topics:StaticTopicMappingDetail", None),
    RequestCode.GET_BROKER_MEMBER_GROUP: (None, "routes:BrokerMemberGroupAnswer"),
    RequestCode.GET_BROKER_HA_STATUS: (None, "ha:HaStatus"),
    RequestCode.GET_BROKER_EPOCH_CACHE: (None, "ha:EpochCache"),
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: ("ha:SyncStateSet", None),
    RequestCode.AUTH_CREATE_USER: ("auth:User", None),
    RequestCode.AUTH_UPDATE_USER: ("auth:User", None),
    RequestCode.AUTH_GET_USER: (None, "auth:User"),
    RequestCode.AUTH_LIST_USER: (None, "auth:Users"),
    RequestCode.AUTH_CREATE_ACL: ("auth:AccessControl", None),
    RequestCode.AUTH_UPDATE_ACL: ("auth:AccessControl", None),
    RequestCode.AUTH_GET_ACL: (None, "auth:AccessControl"),
    RequestCode.AUTH_LIST_ACL: (None, "auth:AccessControls"),
    RequestCode.BATCH_ACK_MESSAGE: ("batch_ack:BatchAck", None),
}
