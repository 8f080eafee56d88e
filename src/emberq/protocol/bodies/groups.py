"""Consumer groups: their settings (200, 201, 225, 352, 353), members (38) and topics (300, 345)."""

from msgspec import Struct, field

from emberq.model.data_version import DataVersion
from emberq.model.group import GroupConfig
from emberq.model.subscription import Subscription

__all__ = [
    "ClientCheck",
    "ConsumerIds",
    "GroupConfig",
    "GroupForbidden",
    "GroupList",
    "GroupNames",
    "GroupSubscription",
    "GroupTable",
]


class GroupTable(Struct, frozen=True, kw_only=True):
    """All groups of a broker (201)."""

    data_version: DataVersion = field(name="dataVersion", default_factory=DataVersion)
    # group → topic → bits of what is forbidden
    forbidden: dict[str, dict[str, int]] = field(name="forbiddenTable", default_factory=dict)
    groups: dict[str, GroupConfig] = field(name="subscriptionGroupTable", default_factory=dict)


class GroupList(Struct, frozen=True, kw_only=True):
    """Groups to create or change together (225)."""

    groups: list[GroupConfig] | None = field(name="groupConfigList", default=None)


class GroupNames(Struct, frozen=True, kw_only=True):
    """Who consumes a topic (300)."""

    groups: list[str] = field(name="groupList", default_factory=list)


class ConsumerIds(Struct, frozen=True, kw_only=True):
    """The clients of a group that are online (38)."""

    client_ids: list[str] = field(name="consumerIdList", default_factory=list)


class GroupForbidden(Struct, frozen=True, kw_only=True):
    """Whether a group may read a topic (353)."""

    group: str | None = None
    is_readable: bool | None = field(name="readable", default=None)
    topic: str | None = None


class GroupSubscription(Struct, frozen=True, kw_only=True):
    """A group's subscription of one topic (345)."""

    group: str | None = None
    subscription: Subscription | None = field(name="subscriptionData", default=None)
    topic: str | None = None


class ClientCheck(Struct, frozen=True, kw_only=True):
    """A client asks whether the broker can compile its filter (46)."""

    client_id: str | None = field(name="clientId", default=None)
    group: str | None = None
    namespace: str | None = None
    subscription: Subscription | None = field(name="subscriptionData", default=None)
