"""What a consumer says about itself when asked (307, 309). Brokers relay these byte for byte."""

from enum import StrEnum
from typing import ClassVar

from msgspec import Struct, field

from emberq.model.queue import MessageQueue
from emberq.model.subscription import Subscription


class CachedQueue(Struct, frozen=True, kw_only=True):
    """A queue that the client pulls, with the messages it holds of it."""

    WIRE_ALIASES: ClassVar = {"dropped": "droped"}  # Go clients spell it right

    cached_message_count: int = field(name="cachedMsgCount", default=0)
    cached_offset_max: int = field(name="cachedMsgMaxOffset", default=0)
    cached_offset_min: int = field(name="cachedMsgMinOffset", default=0)
    cached_size_mib: int = field(name="cachedMsgSizeInMiB", default=0)
    commit_offset: int = field(name="commitOffset", default=0)
    is_dropped: bool = field(name="droped", default=False)
    last_consumed_at_ms: int = field(name="lastConsumeTimestamp", default=0)
    last_locked_at_ms: int = field(name="lastLockTimestamp", default=0)
    last_pulled_at_ms: int = field(name="lastPullTimestamp", default=0)
    is_locked: bool = field(name="locked", default=False)
    unacknowledged_message_count: int = field(name="transactionMsgCount", default=0)
    unacknowledged_offset_max: int = field(name="transactionMsgMaxOffset", default=0)
    unacknowledged_offset_min: int = field(name="transactionMsgMinOffset", default=0)
    try_unlock_count: int = field(name="tryUnlockTimes", default=0)


class PoppedQueue(Struct, frozen=True, kw_only=True):
    """A queue that the client pops."""

    is_dropped: bool = field(name="droped", default=False)
    last_popped_at_ms: int = field(name="lastPopTimestamp", default=0)
    unacknowledged_count: int = field(name="waitAckCount", default=0)


class ConsumeRates(Struct, frozen=True, kw_only=True):
    """Figures of one topic in the client."""

    failed_message_count: int = field(name="consumeFailedMsgs", default=0)
    failed_tps: float = field(name="consumeFailedTPS", default=0.0)
    consumed_tps: float = field(name="consumeOKTPS", default=0.0)
    consume_time_ms: float = field(name="consumeRT", default=0.0)
    pull_time_ms: float = field(name="pullRT", default=0.0)
    pull_tps: float = field(name="pullTPS", default=0.0)


class ConsumerRunningState(Struct, frozen=True, kw_only=True):
    """The answer to 307."""

    thread_dump: str | None = field(name="jstack", default=None)
    popped_queues: dict[MessageQueue, PoppedQueue] = field(name="mqPopTable", default_factory=dict)
    queues: dict[MessageQueue, CachedQueue] = field(name="mqTable", default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    rates: dict[str, ConsumeRates] = field(name="statusTable", default_factory=dict)
    subscriptions: list[Subscription] = field(name="subscriptionSet", default_factory=list)
    user_values: dict[str, str] = field(name="userConsumerInfo", default_factory=dict)


class DirectConsumeOutcome(StrEnum):
    # In wire order: Go clients send the position.
    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"


class DirectConsumeResult(Struct, frozen=True, kw_only=True):
    """What the listener did with the message that an administrator sent (309)."""

    is_auto_commit: bool = field(name="autoCommit", default=True)
    outcome: DirectConsumeOutcome | None = field(name="consumeResult", default=None)
    is_ordered: bool = field(name="order", default=False)
    remark: str | None = None
    spent_ms: int = field(name="spentTimeMills", default=0)
