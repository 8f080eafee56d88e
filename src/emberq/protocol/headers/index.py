"""Which header a request carries and which its answer, found by request code.

Entries are names: a header's module is imported when somebody first asks for it, so that a
process pays only for the conversations it takes part in.
"""

from functools import cache
from importlib import import_module

from emberq.protocol.codes import RequestCode as Code
from emberq.protocol.header_fields import Header


def request_header_type(code: int) -> type[Header] | None:
    """The header of a request; None when the code has no header fields or is not indexed."""
    return _resolve(_NAMES.get(code, _NO_HEADERS)[0])


def response_header_type(code: int) -> type[Header] | None:
    """The header of the answer; None when it has no header fields or is not indexed."""
    return _resolve(_NAMES.get(code, _NO_HEADERS)[1])


def indexed_codes() -> frozenset[int]:
    """The codes whose headers are known, those that are known to have none included."""
    return frozenset(_NAMES)


@cache
def _resolve(name: str | None) -> type[Header] | None:
    if name is None:
        return None
    module, class_name = name.split(":")
    header_type: type[Header] = getattr(
        import_module(f"emberq.protocol.headers.{module}"), class_name
    )
    return header_type


_NO_HEADERS = (None, None)

# code: (header of the request, header of the answer)
_NAMES: dict[int, tuple[str | None, str | None]] = {
    # Sending
    Code.SEND_MESSAGE: ("send:SendMessage", "send:SendMessageResponse"),
    Code.SEND_MESSAGE_V2: ("send:SendMessageV2", "send:SendMessageResponse"),
    Code.SEND_BATCH_MESSAGE: ("send:SendBatchMessage", "send:SendMessageResponse"),
    Code.CONSUMER_SEND_MSG_BACK: ("send:ConsumerSendMessageBack", None),
    Code.RECALL_MESSAGE: ("send:RecallMessage", "send:RecallMessageResponse"),
    Code.SEND_REPLY_MESSAGE: ("reply:SendReplyMessage", "send:SendMessageResponse"),
    Code.SEND_REPLY_MESSAGE_V2: ("reply:SendReplyMessageV2", "send:SendMessageResponse"),
    Code.PUSH_REPLY_MESSAGE_TO_CLIENT: ("reply:PushReplyMessageToClient", None),
    # Transactions
    Code.END_TRANSACTION: ("transactions:EndTransaction", None),
    Code.CHECK_TRANSACTION_STATE: ("transactions:CheckTransactionState", None),
    Code.RESUME_CHECK_HALF_MESSAGE: ("transactions:ResumeCheckHalfMessage", None),
    # Pulling and offsets
    Code.PULL_MESSAGE: ("pull:PullMessage", "pull:PullMessageResponse"),
    Code.LITE_PULL_MESSAGE: ("pull:LitePullMessage", "pull:PullMessageResponse"),
    Code.QUERY_CONSUMER_OFFSET: ("offsets:QueryConsumerOffset", "offsets:OffsetResponse"),
    Code.UPDATE_CONSUMER_OFFSET: ("offsets:UpdateConsumerOffset", None),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: ("offsets:SearchOffsetByTimestamp", "offsets:OffsetResponse"),
    Code.GET_MAX_OFFSET: ("offsets:GetMaxOffset", "offsets:OffsetResponse"),
    Code.GET_MIN_OFFSET: ("offsets:GetMinOffset", "offsets:OffsetResponse"),
    Code.GET_EARLIEST_MSG_STORETIME: (
        "offsets:GetEarliestMessageStoreTime",
        "offsets:GetEarliestMessageStoreTimeResponse",
    ),
    Code.QUERY_CORRECTION_OFFSET: ("offsets:QueryCorrectionOffset", None),
    Code.CLONE_GROUP_OFFSET: ("offsets:CloneGroupOffset", None),
    # Queries
    Code.QUERY_MESSAGE: ("queries:QueryMessage", "queries:QueryMessageResponse"),
    Code.VIEW_MESSAGE_BY_ID: ("queries:ViewMessageById", None),
    Code.QUERY_CONSUME_QUEUE: ("queries:QueryConsumeQueue", None),
    # Clients and groups
    Code.HEART_BEAT: ("groups:Heartbeat", "groups:HeartbeatResponse"),
    Code.UNREGISTER_CLIENT: ("groups:UnregisterClient", None),
    Code.GET_CONSUMER_LIST_BY_GROUP: ("groups:GetConsumerListByGroup", None),
    Code.NOTIFY_CONSUMER_IDS_CHANGED: ("groups:NotifyConsumerIdsChanged", None),
    Code.LOCK_BATCH_MQ: ("groups:LockBatchMq", None),
    Code.UNLOCK_BATCH_MQ: ("groups:UnlockBatchMq", None),
    Code.CHECK_CLIENT_CONFIG: _NO_HEADERS,
    Code.GET_CONSUMER_CONNECTION_LIST: ("groups:GetConsumerConnectionList", None),
    Code.GET_PRODUCER_CONNECTION_LIST: ("groups:GetProducerConnectionList", None),
    Code.GET_ALL_PRODUCER_INFO: _NO_HEADERS,
    Code.GET_CONSUMER_RUNNING_INFO: ("groups:GetConsumerRunningInfo", None),
    Code.CONSUME_MESSAGE_DIRECTLY: ("groups:ConsumeMessageDirectly", None),
    Code.QUERY_ASSIGNMENT: _NO_HEADERS,
    Code.SET_MESSAGE_REQUEST_MODE: _NO_HEADERS,
    # Moving a group's offsets
    Code.INVOKE_BROKER_TO_RESET_OFFSET: ("reset_offset:InvokeBrokerToResetOffset", None),
    Code.RESET_CONSUMER_CLIENT_OFFSET: ("reset_offset:ResetConsumerClientOffset", None),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: (
        "reset_offset:InvokeBrokerToGetConsumerStatus",
        None,
    ),
    Code.GET_CONSUMER_STATUS_FROM_CLIENT: ("reset_offset:GetConsumerStatusFromClient", None),
    # Topics
    Code.UPDATE_AND_CREATE_TOPIC: ("topics:UpdateAndCreateTopic", None),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: ("topics:UpdateAndCreateTopicList", None),
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: ("topics:UpdateAndCreateStaticTopic", None),
    Code.DELETE_TOPIC_IN_BROKER: ("topics:DeleteTopicInBroker", None),
    Code.GET_ALL_TOPIC_CONFIG: ("topics:GetAllTopicConfig", "topics:GetAllTopicConfigResponse"),
    Code.GET_TOPIC_CONFIG: ("topics:GetTopicConfig", None),
    Code.GET_TOPIC_STATS_INFO: ("topics:GetTopicStatsInfo", None),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: ("topics:QueryTopicConsumeByWho", None),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _NO_HEADERS,
    Code.CLEAN_UNUSED_TOPIC: _NO_HEADERS,
    # Subscription groups
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _NO_HEADERS,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _NO_HEADERS,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: (
        "subscription_groups:GetAllSubscriptionGroupConfig",
        "subscription_groups:GetAllSubscriptionGroupConfigResponse",
    ),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: ("subscription_groups:GetSubscriptionGroupConfig", None),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: ("subscription_groups:UpdateAndGetGroupForbidden", None),
    Code.DELETE_SUBSCRIPTIONGROUP: ("subscription_groups:DeleteSubscriptionGroup", None),
    Code.QUERY_TOPICS_BY_CONSUMER: ("subscription_groups:QueryTopicsByConsumer", None),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: ("subscription_groups:QuerySubscriptionByConsumer", None),
    # Statistics
    Code.GET_CONSUME_STATS: ("statistics:GetConsumeStats", None),
    Code.GET_BROKER_CONSUME_STATS: ("statistics:GetBrokerConsumeStats", None),
    Code.QUERY_CONSUME_TIME_SPAN: ("statistics:QueryConsumeTimeSpan", None),
    Code.VIEW_BROKER_STATS_DATA: ("statistics:ViewBrokerStatsData", None),
    Code.GET_BROKER_RUNTIME_INFO: _NO_HEADERS,
    # A broker's settings and files
    Code.UPDATE_BROKER_CONFIG: _NO_HEADERS,
    Code.GET_BROKER_CONFIG: (None, "broker_config:GetBrokerConfigResponse"),
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: _NO_HEADERS,
    Code.DELETE_EXPIRED_COMMITLOG: _NO_HEADERS,
    Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: _NO_HEADERS,
    Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: _NO_HEADERS,
    Code.GET_COLD_DATA_FLOW_CTR_INFO: _NO_HEADERS,
    Code.SET_COMMITLOG_READ_MODE: ("broker_config:SetCommitLogReadMode", None),
    Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: ("broker_config:CheckRocksdbCqWriteProgress", None),
    Code.EXPORT_ROCKSDB_CONFIG_TO_JSON: ("broker_config:ExportRocksdbConfigToJson", None),
    # Slave and master
    Code.GET_ALL_CONSUMER_OFFSET: _NO_HEADERS,
    Code.GET_ALL_DELAY_OFFSET: _NO_HEADERS,
    Code.GET_ALL_MESSAGE_REQUEST_MODE: _NO_HEADERS,
    Code.GET_TIMER_CHECK_POINT: _NO_HEADERS,
    Code.GET_TIMER_METRICS: _NO_HEADERS,
    Code.EXCHANGE_BROKER_HA_INFO: (
        "slave_sync:ExchangeBrokerHaInfo",
        "slave_sync:ExchangeBrokerHaInfoResponse",
    ),
    Code.GET_BROKER_HA_STATUS: _NO_HEADERS,
    Code.RESET_MASTER_FLUSH_OFFSET: ("slave_sync:ResetMasterFlushOffset", None),
    # Name server
    Code.PUT_KV_CONFIG: ("nameserver:PutKvConfig", None),
    Code.GET_KV_CONFIG: ("nameserver:GetKvConfig", "nameserver:GetKvConfigResponse"),
    Code.DELETE_KV_CONFIG: ("nameserver:DeleteKvConfig", None),
    Code.GET_KVLIST_BY_NAMESPACE: ("nameserver:GetKvListByNamespace", None),
    Code.REGISTER_BROKER: ("nameserver:RegisterBroker", "nameserver:RegisterBrokerResponse"),
    Code.UNREGISTER_BROKER: ("nameserver:UnregisterBroker", None),
    Code.QUERY_DATA_VERSION: ("nameserver:QueryDataVersion", "nameserver:QueryDataVersionResponse"),
    Code.GET_ROUTEINFO_BY_TOPIC: ("nameserver:GetRouteInfoByTopic", None),
    Code.GET_BROKER_CLUSTER_INFO: _NO_HEADERS,
    Code.WIPE_WRITE_PERM_OF_BROKER: (
        "nameserver:WipeWritePermOfBroker",
        "nameserver:WipeWritePermOfBrokerResponse",
    ),
    Code.ADD_WRITE_PERM_OF_BROKER: (
        "nameserver:AddWritePermOfBroker",
        "nameserver:AddWritePermOfBrokerResponse",
    ),
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _NO_HEADERS,
    Code.DELETE_TOPIC_IN_NAMESRV: ("nameserver:DeleteTopicInNameServer", None),
    Code.REGISTER_TOPIC_IN_NAMESRV: ("nameserver:RegisterTopicInNameServer", None),
    Code.GET_TOPICS_BY_CLUSTER: ("nameserver:GetTopicsByCluster", None),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: _NO_HEADERS,
    Code.GET_UNIT_TOPIC_LIST: _NO_HEADERS,
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: _NO_HEADERS,
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _NO_HEADERS,
    Code.UPDATE_NAMESRV_CONFIG: _NO_HEADERS,
    Code.GET_NAMESRV_CONFIG: _NO_HEADERS,
    Code.GET_BROKER_MEMBER_GROUP: ("nameserver:GetBrokerMemberGroup", None),
    Code.BROKER_HEARTBEAT: ("nameserver:BrokerHeartbeat", None),
    Code.NOTIFY_MIN_BROKER_ID_CHANGE: ("nameserver:NotifyMinBrokerIdChange", None),
    # Access
    Code.UPDATE_AND_CREATE_ACL_CONFIG: ("acl:UpdateAndCreateAclConfig", None),
    Code.DELETE_ACL_CONFIG: ("acl:DeleteAclConfig", None),
    Code.GET_BROKER_CLUSTER_ACL_INFO: (None, "acl:GetBrokerClusterAclInfoResponse"),
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: ("acl:UpdateGlobalWhiteAddressesConfig", None),
    Code.GET_BROKER_CLUSTER_ACL_CONFIG: _NO_HEADERS,
    Code.AUTH_CREATE_USER: ("auth:AuthCreateUser", None),
    Code.AUTH_UPDATE_USER: ("auth:AuthUpdateUser", None),
    Code.AUTH_DELETE_USER: ("auth:AuthDeleteUser", None),
    Code.AUTH_GET_USER: ("auth:AuthGetUser", None),
    Code.AUTH_LIST_USER: ("auth:AuthListUser", None),
    Code.AUTH_CREATE_ACL: ("auth:AuthCreateAcl", None),
    Code.AUTH_UPDATE_ACL: ("auth:AuthUpdateAcl", None),
    Code.AUTH_DELETE_ACL: ("auth:AuthDeleteAcl", None),
    Code.AUTH_GET_ACL: ("auth:AuthGetAcl", None),
    Code.AUTH_LIST_ACL: ("auth:AuthListAcl", None),
    # Pop
    Code.POP_MESSAGE: ("pop:PopMessage", "pop:PopMessageResponse"),
    Code.ACK_MESSAGE: ("pop:AckMessage", None),
    Code.BATCH_ACK_MESSAGE: _NO_HEADERS,
    Code.PEEK_MESSAGE: ("pop:PeekMessage", "pop:PopMessageResponse"),
    Code.CHANGE_MESSAGE_INVISIBLETIME: (
        "pop:ChangeMessageInvisibleTime",
        "pop:ChangeMessageInvisibleTimeResponse",
    ),
    Code.NOTIFICATION: ("pop:Notification", "pop:NotificationResponse"),
    Code.POLLING_INFO: ("pop:PollingInfo", "pop:PollingInfoResponse"),
    Code.POP_ROLLBACK: _NO_HEADERS,
    # Controller and container
    Code.CONTROLLER_ALTER_SYNC_STATE_SET: (
        "controller:ControllerAlterSyncStateSet",
        "controller:ControllerAlterSyncStateSetResponse",
    ),
    Code.CONTROLLER_ELECT_MASTER: (
        "controller:ControllerElectMaster",
        "controller:ControllerElectMasterResponse",
    ),
    Code.CONTROLLER_REGISTER_BROKER: (
        "controller:ControllerRegisterBroker",
        "controller:ControllerRegisterBrokerResponse",
    ),
    Code.CONTROLLER_GET_REPLICA_INFO: (
        "controller:ControllerGetReplicaInfo",
        "controller:ControllerGetReplicaInfoResponse",
    ),
    Code.CONTROLLER_GET_METADATA_INFO: (None, "controller:ControllerGetMetadataInfoResponse"),
    Code.CONTROLLER_GET_SYNC_STATE_DATA: _NO_HEADERS,
    Code.GET_BROKER_EPOCH_CACHE: _NO_HEADERS,
    Code.NOTIFY_BROKER_ROLE_CHANGED: ("controller:NotifyBrokerRoleChanged", None),
    Code.UPDATE_CONTROLLER_CONFIG: _NO_HEADERS,
    Code.GET_CONTROLLER_CONFIG: _NO_HEADERS,
    Code.CLEAN_BROKER_DATA: ("controller:CleanBrokerData", None),
    Code.CONTROLLER_GET_NEXT_BROKER_ID: (
        "controller:ControllerGetNextBrokerId",
        "controller:ControllerGetNextBrokerIdResponse",
    ),
    Code.CONTROLLER_APPLY_BROKER_ID: (
        "controller:ControllerApplyBrokerId",
        "controller:ControllerApplyBrokerIdResponse",
    ),
    Code.ADD_BROKER: ("controller:AddBroker", None),
    Code.REMOVE_BROKER: ("controller:RemoveBroker", None),
}
