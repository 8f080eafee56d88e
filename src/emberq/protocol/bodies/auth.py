"""Users and rights: administration of 5.x (3001 to 3010) and of 4.x (54)."""

from msgspec import Struct, field


class User(Struct, frozen=True, kw_only=True):
    """A user (3001, 3002, 3004). Type is Super or Normal, status enable or disable."""

    password: str | None = None
    status: str | None = field(name="userStatus", default=None)
    type: str | None = field(name="userType", default=None)
    username: str | None = None


class PolicyEntry(Struct, frozen=True, kw_only=True):
    actions: list[str] | None = None
    decision: str | None = None
    resource: str | None = None
    source_addresses: list[str] | None = field(name="sourceIps", default=None)


class Policy(Struct, frozen=True, kw_only=True):
    entries: list[PolicyEntry] | None = None
    type: str | None = field(name="policyType", default=None)


class AccessControl(Struct, frozen=True, kw_only=True):
    """The policies of one subject, for instance `User:billing` (3006, 3007, 3009)."""

    policies: list[Policy] | None = None
    subject: str | None = None


# Lists are the whole body of their answers.
Users = list[User]
AccessControls = list[AccessControl]


class PlainAccount(Struct, frozen=True, kw_only=True):
    """One account of plain_acl.yml."""

    access_key: str | None = field(name="accessKey", default=None)
    is_admin: bool = field(name="admin", default=False)
    group_permission_default: str | None = field(name="defaultGroupPerm", default=None)
    topic_permission_default: str | None = field(name="defaultTopicPerm", default=None)
    group_permissions: list[str] | None = field(name="groupPerms", default=None)
    secret_key: str | None = field(name="secretKey", default=None)
    topic_permissions: list[str] | None = field(name="topicPerms", default=None)
    white_address: str | None = field(name="whiteRemoteAddress", default=None)


class PlainAcl(Struct, frozen=True, kw_only=True):
    """The answer to 54."""

    global_white_addresses: list[str] | None = field(name="globalWhiteAddrs", default=None)
    accounts: list[PlainAccount] | None = field(name="plainAccessConfigs", default=None)
