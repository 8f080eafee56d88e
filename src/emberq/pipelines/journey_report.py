"""What journeys tell: totals, and tables by topic, by group and by message."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from emberq.pipelines.job import ReportTable
from emberq.pipelines.journeys import OPEN, RECALLED, ROLLED_BACK, is_for_consumers, withheld_as
from emberq.pipelines.times import collect_utc

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PERCENTILES = (0.5, 0.95, 0.99)
NAMES = ("p50", "p95", "p99")
# Messages that are stored, but not for consumers.
_WITHHELD = {OPEN: "in open transactions", ROLLED_BACK: "rolled back", RECALLED: "recalled"}
TAGS = "Most frequent tags"
# In the order in which they happen, for those of one millisecond.
_STEPS = ["published", "transactionEnded", "recalled", "consumeBegan", "consumeEnded"]


def totals_of(journeys: "DataFrame") -> dict[str, Any]:
    from pyspark.sql import functions as f  # noqa: PLC0415

    def count(condition: "Column") -> "Column":
        return f.count_distinct(f.when(condition, f.col("messageId")))

    row = journeys.agg(
        f.count_distinct("messageId").alias("messages"),
        count(is_for_consumers()).alias("sent"),
        *(count(withheld_as() == state).alias(state) for state in _WITHHELD),
        count(f.col("isConsumed")).alias("consumed"),
        *(
            f.percentile_approx(column, [0.5, 0.99]).alias(column)
            for column in ("deliveryMs", "endToEndMs")
        ),
    ).collect()[0]
    sizes = (
        sent_messages(journeys)
        .agg(
            f.sum("bodySize").alias("bytes"),
            f.percentile_approx("bodySize", [0.5, 0.99]).alias("sizes"),
            f.max("bodySize").alias("largest"),
        )
        .collect()[0]
    )
    size = sizes["sizes"] or [None, None]
    delivery, whole = row["deliveryMs"] or [None, None], row["endToEndMs"] or [None, None]
    return {
        "messages": row["messages"],
        "sent": row["sent"],
        **{name: row[state] for state, name in _WITHHELD.items()},
        "consumed by a group or more": row["consumed"],
        "bytes": sizes["bytes"],
        "size p50": size[0],
        "size p99": size[1],
        "largest": sizes["largest"],
        "delivery p50 ms": delivery[0],
        "delivery p99 ms": delivery[1],
        "end to end p50 ms": whole[0],
        "end to end p99 ms": whole[1],
    }


def sends_of(journeys: "DataFrame") -> ReportTable:
    from pyspark.sql import functions as f  # noqa: PLC0415

    columns = ("messageId", "topic", "producerGroup", "isSent", "sendMs")
    rows = (
        journeys.filter("isSent IS NOT NULL")
        .select(*columns, withheld_as().alias("withheld"))
        .distinct()
        .groupBy("topic", "producerGroup")
        .agg(
            f.count(f.lit(1)),
            f.sum((~f.col("isSent")).cast("bigint")),
            *(f.count_if(f.col("withheld") == state) for state in _WITHHELD),
            f.percentile_approx("sendMs", list(PERCENTILES)),
        )
        .orderBy("topic", "producerGroup")
        .collect()
    )
    return ReportTable(
        title="Sends",
        columns=[
            *("topic", "producer group", "messages", "failed"),
            *(*_WITHHELD.values(), *_units("send")),
        ],
        rows=[[*row[:-1], *(row[-1] or [None] * 3)] for row in rows],
    )


def sizes_of(journeys: "DataFrame") -> ReportTable:
    """Bodies, as producers told of them."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    rows = (
        sent_messages(journeys)
        .filter("topic IS NOT NULL")
        .groupBy("topic")
        .agg(
            f.count(f.lit(1)),
            f.sum("bodySize"),
            f.percentile_approx("bodySize", list(PERCENTILES)),
            f.max("bodySize"),
        )
        .orderBy("topic")
        .collect()
    )
    return ReportTable(
        title="Sizes of bodies",
        columns=["topic", "messages", "bytes", *(f"size {name}" for name in NAMES), "largest"],
        rows=[[*row[:3], *(row[3] or [None] * 3), row[4]] for row in rows],
    )


def tags_of(journeys: "DataFrame", count: int) -> ReportTable:
    from pyspark.sql import functions as f  # noqa: PLC0415

    rows = (
        sent_messages(journeys)
        .filter("topic IS NOT NULL")
        .groupBy("topic", "tags")
        .agg(f.count(f.lit(1)).alias("messages"), f.sum("bodySize").alias("bytes"))
        .orderBy(f.desc("messages"), "topic", "tags")
        .limit(count)
        .collect()
    )
    return ReportTable(
        title=TAGS, columns=["topic", "tags", "messages", "bytes"], rows=[list(row) for row in rows]
    )


def sent_messages(journeys: "DataFrame") -> "DataFrame":
    """One row per message that was for consumers, or that one of them has."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    is_shown = is_for_consumers() | f.col("consumerGroup").isNotNull()
    columns = ("messageId", "topic", "tags", "sentAt", "bodySize")
    return journeys.filter(is_shown).select(*columns).distinct()


def groups_of(journeys: "DataFrame") -> ReportTable:
    from pyspark.sql import functions as f  # noqa: PLC0415

    rows = (
        journeys.filter("consumerGroup IS NOT NULL")
        .groupBy("topic", "consumerGroup")
        .agg(
            f.sum(f.col("isConsumed").cast("bigint")),
            f.sum((f.col("attempts") > 1).cast("bigint")),
            f.percentile_approx("deliveryMs", list(PERCENTILES)),
            f.percentile_approx("handlingMs", list(PERCENTILES)),
        )
        .orderBy("topic", "consumerGroup")
        .collect()
    )
    return ReportTable(
        title="Consumer groups",
        columns=["topic", "group", "consumed", "retried", *_units("delivery"), *_units("handling")],
        rows=[[*row[:4], *(row[4] or [None] * 3), *(row[5] or [None] * 3)] for row in rows],
    )


def missing_counts_of(missing: "DataFrame") -> ReportTable:
    rows = missing.groupBy("topic", "consumerGroup").count().orderBy("topic", "consumerGroup")
    return ReportTable(
        title="Not consumed",
        columns=["topic", "group", "messages"],
        rows=[list(row) for row in rows.collect()],
    )


def missing_of(missing: "DataFrame", count: int) -> ReportTable:
    names = ("sentAt", "topic", "consumerGroup", "messageId", "keys")
    rows = missing.select(*names).orderBy("sentAt", "messageId", "consumerGroup").limit(count)
    return ReportTable(
        title="Not consumed, the oldest",
        columns=["sent", "topic", "group", "message", "keys"],
        rows=[list(row) for row in collect_utc(rows)],
    )


def slowest_of(journeys: "DataFrame", count: int) -> ReportTable:
    from pyspark.sql import functions as f  # noqa: PLC0415

    names = ("sentAt", "topic", "consumerGroup", "messageId", "keys")
    times = ("sendMs", "deliveryMs", "handlingMs", "endToEndMs", "attempts")
    rows = (
        journeys.filter("endToEndMs IS NOT NULL")
        .select(*names, *times)
        .orderBy(f.desc("endToEndMs"), "messageId")
        .limit(count)
    )
    return ReportTable(
        title="The slowest",
        columns=[
            *("sent", "topic", "group", "message", "keys"),
            *("send ms", "delivery ms", "handling ms", "end to end ms", "attempts"),
        ],
        rows=[list(row) for row in collect_utc(rows)],
    )


def steps_of(events: "DataFrame", id_or_key: str) -> ReportTable:
    from pyspark.sql import functions as f  # noqa: PLC0415

    is_named = (f.col("messageId") == id_or_key) | f.array_contains(
        f.split(f.coalesce("keys", f.lit("")), " "), id_or_key
    )
    of_event = ("kind", "messageId", "group", "clientHost", "storeHost")
    of_end = ("costMs", "isSuccess", "state")
    rows = (
        events.filter(is_named)
        .select(f.timestamp_millis("atMs").alias("at"), *of_event, *of_end)
        .orderBy("messageId", "at", f.array_position(f.lit(_STEPS), f.col("kind")))
    )
    return ReportTable(
        title=f"Steps of {id_or_key}",
        columns=[
            *("at", "step", "message", "group", "client", "broker"),
            *("cost ms", "success", "state"),
        ],
        rows=[[_to_ms(row["at"]), *row[1:]] for row in collect_utc(rows)],
    )


def _to_ms(at: datetime) -> str:
    """Steps of a message are often less than a second apart."""
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


def _units(what: str) -> list[str]:
    return [f"{what} {name} ms" for name in NAMES]
