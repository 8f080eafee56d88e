"""Store directories as sources: beside a running broker, and copied, without any."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from emberq.errors import TopicNotFound
from emberq.spark.options import parse_source
from emberq.spark.planning import QueueSlice
from emberq.spark.pulling import pulled
from emberq.spark.store_place import BROKER_NAME, StorePlace
from tests.spark.cluster import Topics, until

COLUMNS = ("queueId", "queueOffset", "body", "keys", "properties")


def fill(topics: Topics) -> str:
    """Two topics whose records lie between each other in the log."""
    topic, other = topics.make(), topics.make("-other", queues=1)
    for number in range(30):
        topics.send(topic, [b"%d" % number, b"%d more" % number], number % 2, keys=f"k{number}")
        topics.send(other, [b"x" * 10 * number + b"y"])
    return topic


def load(spark: SparkSession, topic: str, options: dict[str, Any]) -> DataFrame:
    return spark.read.format("rocketmq").options(**options).load(topic)


def rows(frame: DataFrame) -> list[Any]:
    return sorted(frame.select(*COLUMNS).collect(), key=lambda row: (row[0], row[1]))


def test_files_of_a_running_broker_give_the_same_rows(spark: SparkSession, topics: Topics) -> None:
    topic = fill(topics)
    over_network = load(spark, topic, topics.options)

    local = load(spark, topic, {**topics.options, "scan": "local"})

    assert rows(local) == rows(over_network)
    assert len(rows(local)) == 60


def test_a_copied_store_is_read_without_a_broker(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = fill(topics)
    expected = rows(load(spark, topic, topics.options))
    copied = tmp_path / "copy"

    # A queue's newest entries reach its file within a moment.
    def is_complete() -> bool:
        shutil.rmtree(copied, ignore_errors=True)
        # Tables are written anew all the time while a broker runs; messages are not among them.
        ignored = shutil.ignore_patterns("config")
        shutil.copytree(topics.cluster.broker.store, copied, ignore=ignored)
        place = StorePlace(parse_source({"subscribe": topic, "store": str(copied)}))
        try:
            return sum(each.max_offset for each in place.heads(place.queues()).values()) == 60
        except TopicNotFound:
            return False

    until(is_complete)
    store = {"store": str(copied)}
    stored = load(spark, topic, store)

    assert rows(stored) == expected
    assert {row.brokerName for row in stored.collect()} == {BROKER_NAME}
    assert load(spark, topic, {**store, "view": "index"}).count() == 60
    offsets = load(spark, topic, {**store, "view": "offsets"}).collect()
    assert [row["count"] for row in offsets] == [30, 30]
    middle = expected[15]
    assert middle.keys == "k14"
    assert load(spark, topic, {**store, "columns": "tags", "tags": "none"}).count() == 0


def test_what_is_no_store_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="is not a store"):
        load(spark, "any", {"store": str(tmp_path)}).collect()


def test_files_and_pulls_have_the_same_messages(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, [b"x"])
    auto = parse_source({**topics.options, "subscribe": topic, "scan": "auto"})
    each = QueueSlice(topics.queue(topic), 0, 1)

    assert len(list(pulled(each, auto))) == 1
    assert load(spark, topic, {**topics.options, "scan": "auto"}).count() == 1
