"""Topics as tables of Apache Spark: `spark.read.format("rocketmq")`, batch and streaming.

Where EmberQ is installed, Spark finds the format by itself. `register` is for sessions that do
not look for it.
"""

from typing import TYPE_CHECKING

from emberq.spark.interpreter import worker_python
from emberq.spark.local_session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from emberq.spark.query_metrics import QueryMetrics
    from emberq.spark.tracking import OffsetTracker

__all__ = ["local_session", "offset_tracker", "register", "track", "worker_python"]


def register(spark: "SparkSession") -> None:
    """Make the formats `rocketmq` and `emberq` known to a session."""
    from emberq.spark.source import EmberqSource, RocketmqSource  # noqa: PLC0415 - needs PySpark

    spark.dataSource.register(RocketmqSource)
    spark.dataSource.register(EmberqSource)


def track(
    spark: "SparkSession",
    group: str,
    *,
    query: str | None = None,
    metrics: "QueryMetrics | None" = None,
    **options: str,
) -> "OffsetTracker":
    """Commit a group's offsets whenever a micro-batch of the session is done.

    The source itself commits one batch late, and never the last one. With `commitOffsets` set to
    `listener` this is the only one who commits. `lag` of what is returned counts messages.

    Args:
        query: the name of the query; without it all queries of the session count.
        metrics: is told batches, rows, seconds and lag; `docs/guides/tracing-and-metrics.md`.
        options: those of the connection, such as `nameServer`.
    """
    tracker = offset_tracker(group, query=query, metrics=metrics, **options)
    spark.streams.addListener(tracker)
    return tracker


def offset_tracker(
    group: str,
    *,
    query: str | None = None,
    metrics: "QueryMetrics | None" = None,
    **options: str,
) -> "OffsetTracker":
    """Who commits a group's offsets from the progress of queries, not yet listening to any."""
    from emberq.spark.option_table import CONNECTION  # noqa: PLC0415
    from emberq.spark.option_values import OptionTexts  # noqa: PLC0415
    from emberq.spark.options import SourceOptions, parse_connection  # noqa: PLC0415 - see above
    from emberq.spark.tracking import OffsetTracker  # noqa: PLC0415

    texts = OptionTexts(options, [option.name for option in CONNECTION])
    connection = parse_connection(texts)
    return OffsetTracker(SourceOptions(connection=connection, group=group), query, metrics)
