"""Administration of the 4.x access lists."""

from typing import ClassVar

from msgspec import field

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Header


class UpdateAndCreateAclConfig(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.UPDATE_AND_CREATE_ACL_CONFIG
    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    is_admin: bool = field(name="admin", default=False)
    default_topic_permission: str | None = field(name="defaultTopicPerm", default=None)
    default_group_permission: str | None = field(name="defaultGroupPerm", default=None)
    # Both as `name=PERMISSION` joined by commas.
    topic_permissions: str | None = field(name="topicPerms", default=None)
    group_permissions: str | None = field(name="groupPerms", default=None)


class DeleteAclConfig(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.DELETE_ACL_CONFIG
    access_key: str


class GetBrokerClusterAclInfoResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_BROKER_CLUSTER_ACL_INFO
    # A data version as JSON text; of every file, a JSON map.
    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_address: str = field(name="brokerAddr")
    cluster_name: str


class UpdateGlobalWhiteAddressesConfig(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG
    # Patterns joined by commas.
    white_addresses: str = field(name="globalWhiteAddrs")
    # 4.8 and older do not send it.
    acl_file_path: str | None = field(name="aclFileFullPath", default=None)
