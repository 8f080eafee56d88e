"""Messages counted in windows of time: frames with a row per window, topic and, if asked, tag."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from emberq.pipelines.times import collect_utc

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import Column, DataFrame, Row

PERCENTILES = (0.5, 0.95, 0.99)
NAMES = ("p50", "p95", "p99")
LATENCIES = tuple(f"latencyMs{name.upper()}" for name in NAMES)
SIZES = tuple(f"sizeBytes{name.upper()}" for name in NAMES)
LARGEST = "largestBytes"
# What windows can be divided by: names in options and results, and columns of the source.
PARTS = {"tag": "tags", "key": "keys"}
# Tags or keys with rows of their own, the most frequent; all others of a window are one row.
PARTS_MAX = 50
OTHERS = "(others)"
NONE = "(none)"
# Rows that come to the driver to be shown: the newest.
RECENT_ROWS_MAX = 5_000
# Columns of windows that are sent.
MESSAGE = "body string, keys string, id string"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def windowed(messages: "DataFrame", window: str, part: str = "") -> "DataFrame":
    """One row per window and topic, and per value of the column `part` if one is named."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

    latency = f.unix_micros("storeTimestamp") - f.unix_micros("bornTimestamp")
    cut: Column = f.window("storeTimestamp", window)
    groups = ["topic", *([part] if part else [])]
    return (
        messages.groupBy(cut.alias("window"), *groups)
        .agg(
            f.count(f.lit(1)).alias("messages"),
            f.sum("size").alias("bytes"),
            f.max("size").alias(LARGEST),
            f.percentile_approx("size", list(PERCENTILES)).alias("sizes"),
            f.percentile_approx(latency / 1000, list(PERCENTILES)).alias("latencies"),
        )
        .select(
            f.col("window.start").alias("windowStart"),
            f.col("window.end").alias("windowEnd"),
            *(*groups, "messages", "bytes", LARGEST),
            *(f.col("sizes")[place].alias(name) for place, name in enumerate(SIZES)),
            *(f.col("latencies")[place].alias(name) for place, name in enumerate(LATENCIES)),
        )
    )


def with_frequent(messages: "DataFrame", part: str) -> "DataFrame":
    """Messages with a column `tag` or `key`, in which those that are seldom have one name."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    value = f.col(PARTS[part])
    frequent = (
        messages.filter(value.isNotNull())
        .groupBy(value.alias("value"))
        .count()
        .orderBy(f.desc("count"), "value")
        .limit(PARTS_MAX)
        .collect()
    )
    is_shown = value.isNull() | value.isin([row["value"] for row in frequent])
    return messages.withColumn(part, f.when(is_shown, value).otherwise(OTHERS))


def as_messages(windows: "DataFrame") -> "DataFrame":
    """Windows as JSON bodies, keyed by topic, each with an id that is the same whoever counts it:
    rows come out of a shuffle, so their place says nothing."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    parts = [f.concat_ws("=", f.lit(name), name) for name in PARTS if name in windows.columns]
    span = [f.unix_millis(name) for name in ("windowStart", "windowEnd")]
    return windows.select(
        f.to_json(f.struct("*")).alias("body"),
        f.col("topic").alias("keys"),
        f.concat_ws(":", "topic", *span, *parts).alias("id"),
    )


def newest(windows: "DataFrame", rows_max: int = RECENT_ROWS_MAX) -> "list[Row]":
    """The last rows, in the order of time."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    names = [name for name in ("topic", *PARTS) if name in windows.columns]
    last = windows.orderBy(f.desc("windowStart"), *(f.desc(name) for name in names))
    rows = collect_utc(last.limit(rows_max))[::-1]
    if len(rows) == rows_max and rows[0]["windowStart"] != rows[-1]["windowStart"]:
        # The first window may lack topics.
        return [row for row in rows if row["windowStart"] != rows[0]["windowStart"]]
    return rows


def since(windows: "DataFrame", moment: datetime) -> "DataFrame":
    """Those that begin then or later."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    micros = (moment - _EPOCH) // timedelta(microseconds=1)
    return windows.filter(f.unix_micros("windowStart") >= micros)


def span_of(windows: "DataFrame") -> tuple[datetime, datetime, timedelta] | None:
    """When the first window and the last one begin, and how long one is; None without windows."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    length = f.unix_micros("windowEnd") - f.unix_micros("windowStart")
    [row] = collect_utc(
        windows.agg(
            f.min("windowStart").alias("first"),
            f.max("windowStart").alias("last"),
            f.max(length).alias("length"),
        )
    )
    if row["first"] is None:
        return None
    return row["first"], row["last"], timedelta(microseconds=row["length"])


def sums_by(windows: "DataFrame", column: str) -> dict[str, int]:
    """How many messages each topic has, or each tag or key."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    rows = windows.groupBy(_named(column).alias("name")).agg(f.sum("messages").alias("messages"))
    return {row["name"]: row["messages"] for row in rows.collect()}


def widened(
    windows: "DataFrame", length: timedelta, column: str, shown: "Collection[str]", others: str
) -> "list[Row]":
    """Rows per `length` of time and name in a column; those that are not to be shown have one name.

    Counts are sums. Of percentiles the highest counts: an average of them would mean nothing.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415

    micros, name = f.unix_micros("windowStart"), _named(column)
    start = micros - f.pmod(micros, f.lit(length // timedelta(microseconds=1)))
    rows = (
        windows.groupBy(
            f.timestamp_micros(start).alias("windowStart"),
            f.when(name.isin(list(shown)), name).otherwise(others).alias("name"),
        )
        .agg(
            *(f.sum(each).alias(each) for each in ("messages", "bytes")),
            *(f.max(each).alias(each) for each in (*SIZES, LARGEST, *LATENCIES)),
        )
        .orderBy("windowStart", "name")
    )
    return collect_utc(rows)


def most_frequent(messages: "DataFrame", column: str, count: int) -> "Sequence[Row]":
    from pyspark.sql import functions as f  # noqa: PLC0415

    return (
        messages.groupBy("topic", column)
        .agg(f.count(f.lit(1)).alias("messages"), f.sum("size").alias("bytes"))
        .orderBy(f.desc("messages"), "topic", column)
        .limit(count)
        .collect()
    )


def most_frequent_of(windows: "DataFrame", part: str, count: int) -> "Sequence[Row]":
    """The same of windows that are divided by tag."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    return (
        windows.groupBy("topic", f.col(part).alias(PARTS[part]))
        .agg(*(f.sum(name).alias(name) for name in ("messages", "bytes")))
        .orderBy(f.desc("messages"), "topic", PARTS[part])
        .limit(count)
        .collect()
    )


def totals_of(messages: "DataFrame") -> dict[str, Any]:
    """Facts about all messages together."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    latency = (f.unix_micros("storeTimestamp") - f.unix_micros("bornTimestamp")) / 1000
    summed = messages.agg(
        f.count(f.lit(1)).alias("messages"),
        f.sum("size").alias("bytes"),
        f.max("size").alias("largest"),
        f.percentile_approx("size", [0.5, 0.99]).alias("sizes"),
        f.percentile_approx(latency, [0.5, 0.99]).alias("latencies"),
        f.min("storeTimestamp").alias("first"),
        f.max("storeTimestamp").alias("last"),
    )
    [row] = collect_utc(summed)
    sizes, latencies = row["sizes"] or [None, None], row["latencies"] or [None, None]
    return {
        "messages": row["messages"],
        "bytes": row["bytes"] or 0,
        "first": row["first"],
        "last": row["last"],
        "size p50": sizes[0],
        "size p99": sizes[1],
        "largest": row["largest"],
        "latency p50 ms": latencies[0],
        "latency p99 ms": latencies[1],
    }


def _named(column: str) -> "Column":
    from pyspark.sql import functions as f  # noqa: PLC0415

    return f.coalesce(column, f.lit(NONE))
