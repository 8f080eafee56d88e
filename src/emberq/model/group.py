"""A consumer group's settings on a broker."""

from enum import StrEnum

from msgspec import Struct, field

RETRY_COUNT_DEFAULT = 16
RETRY_QUEUE_COUNT_DEFAULT = 1
CONSUME_TIMEOUT_MINUTES_DEFAULT = 15
# Official delays before retry 1, 2, …; the last one repeats.
RETRY_DELAYS_MS = [
    *(1000 * seconds for seconds in (1, 5, 10, 30)),
    *(60_000 * minutes for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120)),
]


class RetryPolicyType(StrEnum):
    EXPONENTIAL = "EXPONENTIAL"
    CUSTOMIZED = "CUSTOMIZED"


class CustomizedRetryPolicy(Struct, frozen=True, kw_only=True):
    delays_ms: list[int] = field(name="next", default_factory=lambda: list(RETRY_DELAYS_MS))


class ExponentialRetryPolicy(Struct, frozen=True, kw_only=True):
    initial_ms: int = field(name="initial", default=5_000)
    max_ms: int = field(name="max", default=7_200_000)
    multiplier: int = 2


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How long a failed message waits; without its own numbers a type has the defaults."""

    customized: CustomizedRetryPolicy | None = field(name="customizedRetryPolicy", default=None)
    exponential: ExponentialRetryPolicy | None = field(name="exponentialRetryPolicy", default=None)
    type: RetryPolicyType = RetryPolicyType.CUSTOMIZED


class FixedSubscription(Struct, frozen=True, kw_only=True):
    """A subscription that an administrator wrote into a group's settings."""

    expression: str | None = None
    expression_type: str | None = field(name="expressionType", default=None)
    topic: str | None = None
    version: int = 0


class GroupConfig(Struct, frozen=True, kw_only=True):
    """What a broker knows of one consumer group."""

    attributes: dict[str, str] = {}
    broker_id: int = field(name="brokerId", default=0)
    is_broadcast_enabled: bool = field(name="consumeBroadcastEnable", default=True)
    is_consume_enabled: bool = field(name="consumeEnable", default=True)
    is_consume_from_min_enabled: bool = field(name="consumeFromMinEnable", default=True)
    is_consume_orderly: bool = field(name="consumeMessageOrderly", default=False)
    consume_timeout_minutes: int = field(
        name="consumeTimeoutMinute", default=CONSUME_TIMEOUT_MINUTES_DEFAULT
    )
    name: str = field(name="groupName", default="")
    retry_policy: RetryPolicy = field(name="groupRetryPolicy", default_factory=RetryPolicy)
    system_flag: int = field(name="groupSysFlag", default=0)
    is_change_notified: bool = field(name="notifyConsumerIdsChangedEnable", default=True)
    retry_count_max: int = field(name="retryMaxTimes", default=RETRY_COUNT_DEFAULT)
    retry_queue_count: int = field(name="retryQueueNums", default=RETRY_QUEUE_COUNT_DEFAULT)
    subscriptions: list[FixedSubscription] | None = field(name="subscriptionDataSet", default=None)
    broker_id_when_slow: int = field(name="whichBrokerWhenConsumeSlowly", default=1)
