"""Frames into topics: every row a message, where it says, with an id that repeats."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from emberq.spark.outgoing_rows import ID_PROPERTY
from tests.spark.cluster import DEADLINE_S, Topics, until


def write(frame: DataFrame, topics: Topics, topic: str | None = None, **options: Any) -> None:
    writer = frame.write.format("rocketmq").mode("append").options(**topics.options, **options)
    writer.save(topic)


def read(spark: SparkSession, topics: Topics, topic: str) -> list[Any]:
    columns = "body,keys,tags,properties,queueId,queueOffset,storeTimestamp,flag"
    reader = spark.read.format("rocketmq").options(**topics.options).option("bodyAs", "string")
    frame = reader.option("columns", columns).load(topic)
    stored = frame.withColumn("storedMs", f.unix_millis("storeTimestamp"))
    return sorted(stored.collect(), key=lambda row: (row.queueId, row.queueOffset))


def test_every_column_arrives(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make(queues=4)
    frame = spark.sql(
        "SELECT 'hello' AS body, 'k1 k2' AS keys, 'red' AS tags, 3 AS queueId, 7 AS flag, "
        "map('size', 'groß') AS properties"
    )

    write(frame, topics, topic)

    (row,) = read(spark, topics, topic)
    assert (row.body, row.keys, row.tags, row.queueId) == ("hello", "k1 k2", "red", 3)
    assert row.flag == 7
    assert row.properties["size"] == "groß"
    assert row.properties[ID_PROPERTY].endswith("-0-0-0")


def test_rows_name_their_topics_and_values_may_be_bytes(
    spark: SparkSession, topics: Topics
) -> None:
    one, two = topics.make("-1"), topics.make("-2")
    frame = spark.createDataFrame(
        [(one, bytearray(b"a")), (two, bytearray(b"b")), (two, bytearray(b"c"))],
        "topic string, value binary",
    )

    write(frame, topics)

    assert [row.body for row in read(spark, topics, one)] == ["a"]
    assert sorted(row.body for row in read(spark, topics, two)) == ["b", "c"]


def test_rows_of_one_key_stay_in_one_queue_and_in_order(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.make(queues=4)
    frame = spark.range(0, 3000, 1, 1).selectExpr(
        "cast(id AS string) AS body", "concat('key-', id % 10) AS shardingKey"
    )

    write(frame, topics, topic)

    rows = read(spark, topics, topic)
    assert len(rows) == 3000
    for key in range(10):
        own = [row for row in rows if int(row.body) % 10 == key]
        assert len({row.queueId for row in own}) == 1
        assert [int(row.body) for row in own] == sorted(int(row.body) for row in own)


def test_rows_without_a_key_are_spread_and_have_ids_of_their_own(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.make(queues=2)
    frame = spark.range(0, 5000, 1, 2).selectExpr("repeat('x', 300) AS body")

    write(frame, topics, topic)

    rows = read(spark, topics, topic)
    assert len(rows) == 5000
    assert {row.queueId for row in rows} == {0, 1}
    assert len({row.properties[ID_PROPERTY] for row in rows}) == 5000


def test_a_row_may_be_delivered_later(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make(queues=1)
    soon = datetime.now(UTC) + timedelta(seconds=2)
    at = spark.createDataFrame([("at a time", soon)], "body string, deliverAt timestamp")
    level = spark.sql("SELECT 'by a level' AS body, 1 AS delayLevel")  # a second
    begin_ms = time.time_ns() // 1_000_000

    write(at, topics, topic)
    write(level, topics, topic)

    until(lambda: len(read(spark, topics, topic)) == 2)
    stored_ms = {row.body: row.storedMs for row in read(spark, topics, topic)}
    assert stored_ms["at a time"] >= soon.timestamp() * 1000  # not even in its millisecond
    assert stored_ms["by a level"] >= begin_ms + 1000


@pytest.mark.parametrize("zone", ["GMT+8", "UTC+8", "Z"])
def test_a_moment_is_the_same_in_zones_that_only_spark_knows(
    spark: SparkSession, topics: Topics, zone: str
) -> None:
    topic = topics.make(queues=1)
    past = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    frame = spark.createDataFrame([("x", past)], "body string, deliverAt timestamp")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        write(frame, topics, topic)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")

    assert [row.body for row in read(spark, topics, topic)] == ["x"]


def test_a_stream_copies_a_topic_and_a_repeated_batch_repeats_its_ids(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.make("-from"), topics.make("-to")
    topics.send(source, [b"%d" % number for number in range(50)])

    def copy(checkpoint: str) -> None:
        frame = spark.readStream.format("rocketmq").options(**topics.options)
        rows = frame.option("startingOffsets", "earliest").load(source).select("body", "tags")
        query = (
            rows.writeStream.format("rocketmq")
            .options(**topics.options, topic=target)
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(int(DEADLINE_S))

    copy("c")
    copy("c")

    rows = read(spark, topics, target)
    assert sorted(int(row.body) for row in rows) == list(range(50))
    assert len({row.properties[ID_PROPERTY] for row in rows}) == 50
    # As after a crash between the sink and Spark's commit: the batch is done once more.
    for commit in (tmp_path / "c" / "commits").iterdir():
        commit.unlink()
    copy("c")

    again = read(spark, topics, target)
    assert len(again) == 100
    assert len({row.properties[ID_PROPERTY] for row in again}) == 50


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 'x' AS body, 1 AS colour", "the sink knows no column 'colour'"),
        ("SELECT 'x' AS tag, 'y' AS body", "did you mean tags"),
        ("SELECT 1 AS body", "column body is int; the sink takes binary or string"),
        ("SELECT 'x' AS tags", "a message needs a column body"),
        ("SELECT cast(null AS string) AS body", "row 0 has no body"),
        ("SELECT 'x' AS body, 99 AS queueId", "row 0: .* has no queue 99"),
        ("SELECT 'x' AS body, ' ' AS tags", "row 0 for .*: the property 'TAGS' is empty"),
        ("SELECT '' AS body", "row 0 for .*: a message needs a body"),
        (
            "SELECT 'x' AS body, timestamp'+12000-01-01 00:00:00' AS deliverAt",
            "row 0 has no year from 1 to 9999 in its column deliverAt",
        ),
    ],
)
def test_what_cannot_be_sent_is_told(
    spark: SparkSession, topics: Topics, query: str, message: str
) -> None:
    topic = topics.make()

    with pytest.raises(PySparkException, match=message):
        write(spark.sql(query), topics, topic)


def test_a_topic_is_not_overwritten(spark: SparkSession, topics: Topics) -> None:
    frame = spark.sql("SELECT 'x' AS body")

    with pytest.raises(PySparkException, match="a topic cannot be overwritten"):
        frame.write.format("rocketmq").mode("overwrite").options(**topics.options).save("any")
