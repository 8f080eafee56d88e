"""A stream whose batch Spark does once more, as after a crash between the sink and its commit."""

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.cluster import DEADLINE_S


def copy_twice(
    spark: SparkSession,
    options: Mapping[str, str],
    source: str,
    target: str,
    checkpoint: Path,
    **of_sink: str,
) -> None:
    """Copy a topic in one batch, forget that it is done, and let the query do it again."""
    _copy(spark, options, source, target, checkpoint, of_sink)
    for commit in (checkpoint / "commits").iterdir():
        commit.unlink()
    _copy(spark, options, source, target, checkpoint, of_sink)


def _copy(
    spark: SparkSession,
    options: Mapping[str, str],
    source: str,
    target: str,
    checkpoint: Path,
    of_sink: Mapping[str, str],
) -> None:
    frame = spark.readStream.format("rocketmq").options(**options)
    query = (
        frame.option("startingOffsets", "earliest")
        .load(source)
        .select("body")
        .writeStream.format("rocketmq")
        .options(**options, topic=target, **of_sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(DEADLINE_S))
