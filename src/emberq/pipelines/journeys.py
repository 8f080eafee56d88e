"""Events of messages put together into journeys: from the send to each consumer group.

Not every message that is stored is for consumers: half messages wait for the end of their
transaction, and timed ones can be recalled. The column `state` says so; it is null for all others.
"""

from typing import TYPE_CHECKING

from emberq.client.core.trace_reading import MESSAGE_TYPES
from emberq.client.core.trace_records import HALF

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OPEN, RECALLED, ROLLED_BACK, COMMITTED = "open", "recalled", "rolledBack", "committed"
# Of several states that are told of a message, the one that comes last here counts.
_STATES = (OPEN, RECALLED, ROLLED_BACK, COMMITTED)


def journeys_of(events: "DataFrame") -> "DataFrame":
    """One row per message and group that began to handle it; a message that nobody handled has
    one row without a group, and one of which no producer told has no topic."""
    return _put_together(_sent(events), _handled(events))


def is_for_consumers() -> "Column":
    """Of journeys: whether the message was sent for groups to have it."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

    return f.col("isSent") & withheld_as().isNull()


def withheld_as() -> "Column":
    """Of journeys: the state for which no group can be expected to have the message, or null. One
    that any group has is there for all, whatever was told of its end."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    is_withheld = f.col("state").isin(OPEN, RECALLED, ROLLED_BACK) & f.col("consumerGroup").isNull()
    return f.when(is_withheld, f.col("state"))


def of_topics(journeys: "DataFrame", topics: list[str], *, has_unknown: bool) -> "DataFrame":
    """Those of messages of these topics, or all if none is named; and, if they are wanted, those
    of messages whose topic nobody has told yet."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

    if not topics:
        return journeys
    is_wanted = f.col("topic").isin(topics)
    return journeys.filter(is_wanted | f.col("topic").isNull() if has_unknown else is_wanted)


def merged(journeys: "DataFrame") -> "DataFrame":
    """One row per message and group of several that were written as more became known.

    Of two rows the later one knows all that the earlier one knew, or it knows only what came long
    after. Either way the send is the first one, and what was done once stays done.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415

    of_send = ("topic", "tags", "keys", "producerGroup", "sendMs", "bodySize")
    is_send = f.col("isSent").isNotNull()
    first: Column = f.min(f.when(is_send, f.struct("sentAt", *of_send)))
    sent = (
        journeys.filter("isSent IS NOT NULL OR state IS NOT NULL")
        .groupBy("messageId")
        .agg(first.alias("first"), f.max("isSent").alias("isSent"), *_state_of("state"))
        .select(
            *("messageId", "isSent", "state"),
            *(_topic(), f.unix_millis("first.sentAt").alias("sentMs")),
            *(f"first.{name}" for name in of_send if name != "topic"),
        )
    )
    handled = (
        journeys.filter("consumerGroup IS NOT NULL")
        .groupBy("messageId", "consumerGroup")
        .agg(
            f.max("attempts").alias("attempts"),
            f.min(f.unix_millis("firstBeganAt")).alias("firstBeganMs"),
            f.min(f.unix_millis("endedAt")).alias("endedMs"),
            f.min("handlingMs").alias("handlingMs"),
            f.max("isConsumed").alias("isConsumed"),
        )
    )
    return _put_together(sent, handled)


def _put_together(sent: "DataFrame", handled: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f  # noqa: PLC0415

    return (
        sent.join(handled, "messageId", "full_outer")
        .withColumn("deliveryMs", f.col("firstBeganMs") - f.col("sentMs"))
        .withColumn("endToEndMs", f.col("endedMs") - f.col("sentMs"))
        .select(
            *("messageId", "topic", "tags", "keys", "producerGroup"),
            f.timestamp_millis("sentMs").alias("sentAt"),
            *("sendMs", "isSent", "bodySize", "consumerGroup", "attempts"),
            f.timestamp_millis("firstBeganMs").alias("firstBeganAt"),
            f.timestamp_millis("endedMs").alias("endedAt"),
            *("deliveryMs", "handlingMs", "endToEndMs", "isConsumed", "state"),
        )
    )


def without_group(journeys: "DataFrame", groups: list[str]) -> "DataFrame":
    """Messages for consumers that a group has not consumed, one row per message and group.

    Groups that should have them are those given, or else all that consumed of their topics.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415

    names = ("messageId", "topic", "keys", "sentAt")
    messages = journeys.filter(is_for_consumers()).select(*names).distinct()
    if groups:
        named = f.explode(f.array(*(f.lit(group) for group in groups))).alias("consumerGroup")
        expected = messages.select("topic").distinct().select("topic", named)
    else:
        expected = (
            journeys.filter("topic IS NOT NULL AND consumerGroup IS NOT NULL")
            .select("topic", "consumerGroup")
            .distinct()
        )
    consumed = journeys.filter("isConsumed").select("messageId", "consumerGroup")
    return messages.join(expected, "topic").join(
        consumed, ["messageId", "consumerGroup"], "left_anti"
    )


def _sent(events: "DataFrame") -> "DataFrame":
    """What producers told of each message: its first send, a repeated one counting for whether it
    arrived, and its state."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    names = ("atMs", "topic", "tags", "keys", "group", "costMs", "bodySize")
    is_send = f.col("kind") == "published"
    first: Column = f.min(f.when(is_send, f.struct(*names)))
    return (
        events.filter(f.col("kind").isin("published", "transactionEnded", "recalled"))
        .withColumn("told", _told())
        .filter(is_send | f.col("told").isNotNull())
        .groupBy("messageId")
        .agg(
            first.alias("first"),
            f.max(f.when(is_send, f.col("isSuccess"))).alias("isSent"),
            *_state_of("told"),
        )
        .select(
            *("messageId", _topic(), "first.tags", "first.keys"),
            f.col("first.group").alias("producerGroup"),
            f.col("first.atMs").alias("sentMs"),
            f.col("first.costMs").alias("sendMs"),
            *("first.bodySize", "isSent", "state"),
        )
    )


def _told() -> "Column":
    """The state that an event tells of: of half messages, and of those that are recalled."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    kind, state = f.col("kind"), f.col("state")
    is_end, is_half = kind == "transactionEnded", f.col("messageType") == MESSAGE_TYPES[HALF]
    return (
        f.when(is_end & state.startswith("COMMIT"), COMMITTED)
        .when(is_end & state.startswith("ROLLBACK"), ROLLED_BACK)
        .when((kind == "recalled") & f.col("isSuccess"), RECALLED)
        .when(is_end | ((kind == "published") & is_half), OPEN)
    )


def _state_of(told: str) -> "tuple[Column, Column]":
    """Of several rows of a message: its state, and its topic as any of them tells it."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    states = f.array(*(f.lit(state) for state in _STATES))
    rank = f.max(f.array_position(states, f.col(told)) - 1)
    return f.get(states, rank).alias("state"), f.min("topic").alias("anyTopic")


def _topic() -> "Column":
    from pyspark.sql import functions as f  # noqa: PLC0415

    return f.coalesce("first.topic", "anyTopic").alias("topic")


def _handled(events: "DataFrame") -> "DataFrame":
    """Attempts of each group. One whose begin is not known began as long before its end as it
    took; if that names no group either, as with clients before 4.9, it cannot be told of."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    began = events.filter("kind = 'consumeBegan'").select(
        *("messageId", "requestId"),
        f.col("group").alias("beganGroup"),
        f.col("atMs").alias("beganMs"),
    )
    ended = events.filter("kind = 'consumeEnded'").select(
        *("messageId", "requestId", "costMs", "isSuccess"),
        f.col("group").alias("endedGroup"),
        (f.col("atMs") - f.col("costMs")).alias("likelyBeganMs"),
    )
    good = f.when(f.col("isSuccess"), f.col("costMs"))
    return (
        began.join(ended, ["messageId", "requestId"], "full_outer")
        .withColumn("consumerGroup", f.coalesce("beganGroup", "endedGroup"))
        .withColumn("beganMs", f.coalesce("beganMs", "likelyBeganMs"))
        .filter("consumerGroup IS NOT NULL")
        .groupBy("messageId", "consumerGroup")
        .agg(
            f.count_distinct("requestId").alias("attempts"),
            f.min("beganMs").alias("firstBeganMs"),
            f.min(good).alias("handlingMs"),
            f.min(f.col("beganMs") + good).alias("endedMs"),
            f.coalesce(f.max("isSuccess"), f.lit(False)).alias("isConsumed"),
        )
    )
