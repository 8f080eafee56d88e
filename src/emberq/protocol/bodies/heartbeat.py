"""What a client tells a broker about itself every 30 seconds (34)."""

from msgspec import Struct, field
from msgspec.structs import replace

from emberq.model.subscription import (
    SQL92_EXPRESSION,
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    Subscription,
)
from emberq.record.string_hash import tag_code


class ConsumerPresence(Struct, frozen=True, kw_only=True):
    """A consumer group that runs in the client."""

    # Go clients may send a name that nobody knows; it then counts as the default.
    consume_from_where: ConsumeFromWhere = field(
        name="consumeFromWhere", default=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    )
    consume_type: ConsumeType = field(name="consumeType", default=ConsumeType.CONSUME_PASSIVELY)
    group: str = field(name="groupName")
    message_model: MessageModel = field(name="messageModel", default=MessageModel.CLUSTERING)
    subscriptions: list[Subscription] = field(name="subscriptionDataSet", default_factory=list)
    is_unit_mode: bool = field(name="unitMode", default=False)


class ProducerPresence(Struct, frozen=True, kw_only=True):
    """A producer group that runs in the client."""

    group: str = field(name="groupName")


class Heartbeat(Struct, frozen=True, kw_only=True):
    client_id: str = field(name="clientID", default="")
    consumers: list[ConsumerPresence] = field(name="consumerDataSet", default_factory=list)
    fingerprint: int = field(name="heartbeatFingerprint", default=0)
    producers: list[ProducerPresence] = field(name="producerDataSet", default_factory=list)
    is_without_subscriptions: bool = field(name="withoutSub", default=False)


def with_own_tag_codes(subscription: Subscription) -> Subscription:
    """Recompute the tag codes from the tags: Go clients hash UTF-8 bytes, while queues hold
    hashes of UTF-16 units, so a non-ASCII tag of theirs would match nothing."""
    if subscription.expression_type == SQL92_EXPRESSION:
        return subscription
    return replace(subscription, tag_codes=[tag_code(tag) for tag in subscription.tags])
