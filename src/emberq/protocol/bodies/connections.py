"""Who is connected: consumers (203), producers (204, 328)."""

from msgspec import Struct, field

from emberq.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel, Subscription


class ClientConnection(Struct, frozen=True, kw_only=True):
    """One client; `language` is the name that its commands carry."""

    client_address: str | None = field(name="clientAddr", default=None)
    client_id: str | None = field(name="clientId", default=None)
    language: str | None = None
    version: int = 0


class ConsumerConnections(Struct, frozen=True, kw_only=True):
    """The online clients of a group with what they subscribe (203)."""

    connections: list[ClientConnection] = field(name="connectionSet", default_factory=list)
    consume_from_where: ConsumeFromWhere | None = field(name="consumeFromWhere", default=None)
    consume_type: ConsumeType | None = field(name="consumeType", default=None)
    message_model: MessageModel | None = field(name="messageModel", default=None)
    subscriptions: dict[str, Subscription] = field(name="subscriptionTable", default_factory=dict)


class ProducerConnections(Struct, frozen=True, kw_only=True):
    """The online clients of a producer group (204)."""

    connections: list[ClientConnection] = field(name="connectionSet", default_factory=list)


class ProducerClient(Struct, frozen=True, kw_only=True):
    client_id: str | None = field(name="clientId", default=None)
    language: str | None = None
    last_seen_at_ms: int = field(name="lastUpdateTimestamp", default=0)
    client_address: str | None = field(name="remoteIP", default=None)
    version: int = 0


class ProducerTable(Struct, frozen=True, kw_only=True):
    """All producer groups of a broker with their clients (328)."""

    groups: dict[str, list[ProducerClient]] = field(name="data", default_factory=dict)
