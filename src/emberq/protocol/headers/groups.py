"""Clients and the groups they form: who is online and what they are doing."""

from typing import ClassVar

from msgspec import field

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Header, Int32
from emberq.protocol.headers.common import RpcRequest, TopicRequest


class Heartbeat(RpcRequest, frozen=True, kw_only=True):
    """All that matters is in the body."""

    code: ClassVar = RequestCode.HEART_BEAT


class HeartbeatResponse(Header, frozen=True, kw_only=True):
    """What 5.x brokers say about heartbeats without subscriptions; absent means unsupported."""

    code: ClassVar = RequestCode.HEART_BEAT
    is_heartbeat_v2_supported: bool | None = field(name="IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_subscription_changed: bool | None = field(name="IS_SUB_CHANGE", default=None)


class UnregisterClient(RpcRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.UNREGISTER_CLIENT
    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class GetConsumerListByGroup(RpcRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_CONSUMER_LIST_BY_GROUP
    consumer_group: str


class NotifyConsumerIdsChanged(RpcRequest, frozen=True, kw_only=True):
    """Broker to consumer, oneway: share out the queues again."""

    code: ClassVar = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    consumer_group: str


class LockBatchMq(RpcRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.LOCK_BATCH_MQ


class UnlockBatchMq(RpcRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.UNLOCK_BATCH_MQ


class GetConsumerConnectionList(RpcRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_CONSUMER_CONNECTION_LIST
    consumer_group: str


class GetProducerConnectionList(RpcRequest, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_PRODUCER_CONNECTION_LIST
    producer_group: str


class GetConsumerRunningInfo(RpcRequest, frozen=True, kw_only=True):
    """Asked by a tool and passed on by the broker, fields unchanged, to the client."""

    code: ClassVar = RequestCode.GET_CONSUMER_RUNNING_INFO
    consumer_group: str
    client_id: str
    has_stack_traces: bool = field(name="jstackEnable", default=False)


class ConsumeMessageDirectly(TopicRequest, frozen=True, kw_only=True):
    """Asked by a tool and passed on by the broker with the message as body."""

    code: ClassVar = RequestCode.CONSUME_MESSAGE_DIRECTLY
    consumer_group: str
    client_id: str | None = None
    message_id: str | None = field(name="msgId", default=None)
    broker_name: str | None = None
    topic: str | None = None
    topic_system_flag: Int32 | None = field(name="topicSysFlag", default=None)
    group_system_flag: Int32 | None = field(name="groupSysFlag", default=None)
