"""Events of messages put together into journeys: from the send to each consumer group."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def journeys_of(events: "DataFrame") -> "DataFrame":
    """One row per message and group that began to handle it; a message that nobody handled has
    one row without a group, and one whose send was not traced has no topic."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

    sent, handled = _sent(events), _handled(events)
    return (
        sent.join(handled, "messageId", "full_outer")
        .withColumn("deliveryMs", f.col("firstBeganMs") - f.col("sentMs"))
        .withColumn("endToEndMs", f.col("endedMs") - f.col("sentMs"))
        .select(
            *("messageId", "topic", "tags", "keys", "producerGroup"),
            f.timestamp_millis("sentMs").alias("sentAt"),
            *("sendMs", "isSent", "bodySize", "consumerGroup", "attempts"),
            f.timestamp_millis("firstBeganMs").alias("firstBeganAt"),
            *("deliveryMs", "handlingMs", "endToEndMs", "isConsumed"),
        )
    )


def without_group(journeys: "DataFrame", groups: list[str]) -> "DataFrame":
    """Messages that were sent and that a group has not consumed, one row per message and group.

    Groups that should have them are those given, or else all that consumed of their topics.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415

    messages = journeys.filter("isSent").select("messageId", "topic", "keys", "sentAt").distinct()
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
    """The first send of each message; a repeated one counts for whether it arrived."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    names = ("atMs", "topic", "tags", "keys", "group", "costMs", "bodySize")
    first: Column = f.min(f.struct(*names))
    return (
        events.filter("kind = 'published'")
        .groupBy("messageId")
        .agg(first.alias("first"), f.max("isSuccess").alias("isSent"))
        .select(
            *("messageId", "first.topic", "first.tags", "first.keys"),
            f.col("first.group").alias("producerGroup"),
            f.col("first.atMs").alias("sentMs"),
            f.col("first.costMs").alias("sendMs"),
            *("first.bodySize", "isSent"),
        )
    )


def _handled(events: "DataFrame") -> "DataFrame":
    """Attempts of each group; those that clients end without naming their group have begun."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    began = events.filter("kind = 'consumeBegan'").select(
        *("messageId", "requestId"),
        f.col("group").alias("consumerGroup"),
        f.col("atMs").alias("beganMs"),
    )
    ended = events.filter("kind = 'consumeEnded'").select(
        *("messageId", "requestId", "costMs", "isSuccess")
    )
    good = f.when(f.col("isSuccess"), f.col("costMs"))
    return (
        began.join(ended, ["messageId", "requestId"], "left")
        .groupBy("messageId", "consumerGroup")
        .agg(
            f.count_distinct("requestId").alias("attempts"),
            f.min("beganMs").alias("firstBeganMs"),
            f.min(good).alias("handlingMs"),
            f.min(f.col("beganMs") + good).alias("endedMs"),
            f.coalesce(f.max("isSuccess"), f.lit(False)).alias("isConsumed"),
        )
    )
