"""Topics as tables for SQL, in a session."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from emberq.pipelines.topic_positions import options_of_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_topics(
    session: "SparkSession", topics: list[str], source: Mapping[str, str]
) -> dict[str, list[str]]:
    """Make each topic a temporary view of its name, bodies as text; returns their columns."""
    columns = {}
    for topic in topics:
        frame = (
            session.read.format("rocketmq")
            .options(**options_of_topic({"bodyAs": "string", **source}, topic, topics))
            .load()
        )
        frame.createOrReplaceTempView(f"`{topic}`")
        columns[topic] = frame.columns
    return columns
