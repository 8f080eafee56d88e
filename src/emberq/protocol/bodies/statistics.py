"""Figures of topics and groups: 202, 208, 303, 315, 317."""

from datetime import UTC, datetime

from msgspec import Struct, field

from emberq.model.queue import MessageQueue


class ConsumeProgress(Struct, frozen=True, kw_only=True):
    """How far a group is in one queue."""

    broker_offset: int = field(name="brokerOffset", default=0)
    consumer_offset: int = field(name="consumerOffset", default=0)
    last_consumed_at_ms: int = field(name="lastTimestamp", default=0)
    pull_offset: int = field(name="pullOffset", default=0)


class ConsumeStats(Struct, frozen=True, kw_only=True):
    """A group's progress in its queues (208)."""

    consume_tps: float = field(name="consumeTps", default=0.0)
    queues: dict[MessageQueue, ConsumeProgress] = field(name="offsetTable", default_factory=dict)


class BrokerConsumeStats(Struct, frozen=True, kw_only=True):
    """The progress of all groups of a broker (317): one map per group."""

    broker_address: str | None = field(name="brokerAddr", default=None)
    groups: list[dict[str, list[ConsumeStats]]] = field(
        name="consumeStatsList", default_factory=list
    )
    total_lag: int = field(name="totalDiff", default=0)
    total_in_flight: int = field(name="totalInflightDiff", default=0)


class QueueBounds(Struct, frozen=True, kw_only=True):
    last_stored_at_ms: int = field(name="lastUpdateTimestamp", default=0)
    offset_max: int = field(name="maxOffset", default=0)
    offset_min: int = field(name="minOffset", default=0)


class TopicStats(Struct, frozen=True, kw_only=True):
    """The queues of a topic (202)."""

    queues: dict[MessageQueue, QueueBounds] = field(name="offsetTable", default_factory=dict)
    put_tps: float = field(name="topicPutTps", default=0.0)


class QueueTimeSpan(Struct, frozen=True, kw_only=True):
    """Which stretch of time a queue holds and where a group is in it. The texts repeat the
    numbers; Java readers ignore them."""

    consumed_at_ms: int = field(name="consumeTimeStamp", default=0)
    consumed_at_text: str | None = field(name="consumeTimeStampStr", default=None)
    delay_ms: int = field(name="delayTime", default=0)
    newest_at_ms: int = field(name="maxTimeStamp", default=0)
    newest_at_text: str | None = field(name="maxTimeStampStr", default=None)
    queue: MessageQueue | None = field(name="messageQueue", default=None)
    oldest_at_ms: int = field(name="minTimeStamp", default=0)
    oldest_at_text: str | None = field(name="minTimeStampStr", default=None)


class ConsumeTimeSpans(Struct, frozen=True, kw_only=True):
    """The answer to 303."""

    queues: list[QueueTimeSpan] = field(name="consumeTimeSpanSet", default_factory=list)


class StatsItem(Struct, frozen=True, kw_only=True):
    average_per_call: float = field(name="avgpt", default=0.0)
    sum: int = 0
    per_second: float = field(name="tps", default=0.0)


class BrokerStats(Struct, frozen=True, kw_only=True):
    """One counter over three stretches of time (315); readers need all three."""

    day: StatsItem = field(name="statsDay", default_factory=StatsItem)
    hour: StatsItem = field(name="statsHour", default_factory=StatsItem)
    minute: StatsItem = field(name="statsMinute", default_factory=StatsItem)


def time_span_text(at_ms: int) -> str:
    """A time as the texts of QueueTimeSpan show it, for instance 2023-11-14#22:13:20:044."""
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{at:%Y-%m-%d#%H:%M:%S}:{at_ms % 1000:03}"
