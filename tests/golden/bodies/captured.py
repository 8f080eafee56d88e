"""The captured bodies with our types for them."""

from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent

# Official class → module and name of ours.
TYPES = {
    "AclConfig": "auth:PlainAcl",
    "AclInfo": "auth:AccessControl",
    "BatchAckMessageRequestBody": "batch_ack:BatchAck",
    "BrokerStatsData": "statistics:BrokerStats",
    "CheckClientRequestBody": "groups:ClientCheck",
    "ClusterInfo": "routes:ClusterTable",
    "ConsumeMessageDirectlyResult": "running:DirectConsumeResult",
    "ConsumeStats": "statistics:ConsumeStats",
    "ConsumeStatsList": "statistics:BrokerConsumeStats",
    "ConsumerConnection": "connections:ConsumerConnections",
    "ConsumerOffsetManager": "offsets:ConsumerOffsetTable",
    "ConsumerOffsetSerializeWrapper": "offsets:ConsumerOffsetTable",
    "ConsumerRunningInfo": "running:ConsumerRunningState",
    "CreateTopicListRequestBody": "topics:TopicList",
    "DataVersion": "topics:DataVersion",
    "DelayOffsetSerializeWrapper": "offsets:DelayOffsetTable",
    "EpochEntryCache": "ha:EpochCache",
    "GetBrokerMemberGroupResponseBody": "routes:BrokerMemberGroupAnswer",
    "GetConsumerListByGroupResponseBody": "groups:ConsumerIds",
    "GetConsumerStatusBody": "offsets:ConsumerStatus",
    "GroupForbidden": "groups:GroupForbidden",
    "GroupList": "groups:GroupNames",
    "HARuntimeInfo": "ha:HaStatus",
    "HeartbeatData": "heartbeat:Heartbeat",
    "KVConfigSerializeWrapper": "routes:KeyValueFile",
    "KVTable": "routes:KeyValueTable",
    "LockBatchRequestBody": "locks:QueueLocks",
    "LockBatchResponseBody": "locks:LockedQueues",
    "MessageRequestModeSerializeWrapper": "request_mode:RequestModeTable",
    "ProducerConnection": "connections:ProducerConnections",
    "ProducerTableInfo": "connections:ProducerTable",
    "QueryAssignmentRequestBody": "assignment:AssignmentQuery",
    "QueryAssignmentResponseBody": "assignment:Assignments",
    "QueryConsumeQueueResponseBody": "queries:ConsumeQueueEntries",
    "QueryConsumeTimeSpanBody": "statistics:ConsumeTimeSpans",
    "QueryCorrectionOffsetBody": "offsets:CorrectionOffsets",
    "QuerySubscriptionResponseBody": "groups:GroupSubscription",
    "RegisterBrokerBody": "registration:RegisterBrokerBody",
    "ResetOffsetBody": "offsets:QueueOffsets",
    "ResetOffsetBodyForC": "offsets:QueueOffsetList",
    "SetMessageRequestModeRequestBody": "request_mode:RequestModeSetting",
    "SubscriptionGroupConfig": "groups:GroupConfig",
    "SubscriptionGroupList": "groups:GroupList",
    "SubscriptionGroupWrapper": "groups:GroupTable",
    "SyncStateSet": "ha:SyncStateSet",
    "TimerMetrics_TimerMetricsSerializeWrapper": "ha:TimerMetrics",
    "TopicConfigAndMappingSerializeWrapper": "topics:TopicTable",
    "TopicConfigAndQueueMapping": "topics:TopicWithMapping",
    "TopicConfigSerializeWrapper": "topics:TopicTable",
    "TopicList": "routes:TopicNames",
    "TopicQueueMappingDetail": "topics:StaticTopicMappingDetail",
    "TopicRouteData": "routes:TopicRoute",
    "TopicStatsTable": "statistics:TopicStats",
    "UnlockBatchRequestBody": "locks:QueueLocks",
    "UserInfo": "auth:User",
}


def captured(version: str, form: str) -> list[tuple[str, str]]:
    """Pairs of an official class and the text of its body; form is "full" or "empty"."""
    lines = (FOLDER / f"{version}.tsv").read_text("utf-8").splitlines()
    bodies = [line.split("\t") for line in lines]
    return [(name.split(".")[0], body) for name, body in bodies if name.endswith(form)]


def type_of(official: str) -> Any:
    """Our type for an official class."""
    module, _, name = TYPES[official].partition(":")
    return getattr(import_module(f"emberq.protocol.bodies.{module}"), name)
