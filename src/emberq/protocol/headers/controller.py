"""Brokers, containers and the controller that appoints masters (5.x)."""

from typing import ClassVar

from msgspec import field

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Header, Int32, Int64


class ControllerAlterSyncStateSet(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 | None = None
    invoked_at_ms: Int64 = field(name="invokeTime", default=0)


class ControllerAlterSyncStateSetResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET
    new_sync_state_set_epoch: Int32 = 0


class ControllerElectMaster(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CONTROLLER_ELECT_MASTER
    cluster_name: str
    broker_name: str
    broker_id: Int64 = -1
    is_designated: bool = field(name="designateElect", default=False)
    invoked_at_ms: Int64 | None = field(name="invokeTime", default=None)


class ControllerElectMasterResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CONTROLLER_ELECT_MASTER
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class ControllerRegisterBroker(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CONTROLLER_REGISTER_BROKER
    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: Int64 | None = None
    broker_address: str | None = None
    invoked_at_ms: Int64 = field(name="invokeTime", default=0)


class ControllerRegisterBrokerResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CONTROLLER_REGISTER_BROKER
    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class ControllerGetReplicaInfo(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CONTROLLER_GET_REPLICA_INFO
    broker_name: str | None = None


class ControllerGetReplicaInfoResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CONTROLLER_GET_REPLICA_INFO
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


class ControllerGetMetadataInfoResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CONTROLLER_GET_METADATA_INFO
    group: str | None = None
    leader_id: str | None = field(name="controllerLeaderId", default=None)
    leader_address: str | None = field(name="controllerLeaderAddress", default=None)
    is_leader: bool = False
    peers: str | None = None


class NotifyBrokerRoleChanged(Header, frozen=True, kw_only=True):
    """Controller to broker: who is master now."""

    code: ClassVar = RequestCode.NOTIFY_BROKER_ROLE_CHANGED
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: Int64 | None = None


class CleanBrokerData(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CLEAN_BROKER_DATA
    cluster_name: str | None = None
    broker_name: str
    # Ids joined by semicolons.
    broker_ids: str | None = field(name="brokerControllerIdsToClean", default=None)
    cleans_living_broker: bool = field(name="isCleanLivingBroker", default=False)
    invoked_at_ms: Int64 = field(name="invokeTime", default=0)


class ControllerGetNextBrokerId(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CONTROLLER_GET_NEXT_BROKER_ID
    cluster_name: str | None = None
    broker_name: str | None = None


class ControllerGetNextBrokerIdResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CONTROLLER_GET_NEXT_BROKER_ID
    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Int64 | None = None


class ControllerApplyBrokerId(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CONTROLLER_APPLY_BROKER_ID
    cluster_name: str | None = None
    broker_name: str | None = None
    applied_broker_id: Int64 | None = None
    register_check_code: str | None = None


class ControllerApplyBrokerIdResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CONTROLLER_APPLY_BROKER_ID
    cluster_name: str | None = None
    broker_name: str | None = None


class AddBroker(Header, frozen=True, kw_only=True):
    """Start a broker inside a container process."""

    code: ClassVar = RequestCode.ADD_BROKER
    config_path: str | None = None


class RemoveBroker(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.REMOVE_BROKER
    broker_name: str
    cluster_name: str = field(name="brokerClusterName")
    broker_id: Int64
