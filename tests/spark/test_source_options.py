"""Options that belong together, or do not, as a person meets them through Spark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.cluster import Topics
from tests.spark.streams import Sink, Streams, numbered

SQL = "n > 1"


@pytest.fixture
def streams(spark: SparkSession, topics: Topics, tmp_path: Path) -> Iterator[Streams]:
    made = Streams(spark, topics.options, tmp_path)
    yield made
    made.stop()


def load(spark: SparkSession, topics: Topics, topic: str, **options: Any) -> DataFrame:
    return spark.read.format("rocketmq").options(**topics.options, **options).load(topic)


def filled(topics: Topics) -> str:
    """Three messages: offsets 0 and 1 are red, 1 and 2 match the expression."""
    topic = topics.make(queues=1)
    for number, tag in ((1, "red"), (2, "red"), (3, "blue")):
        topics.send(topic, [b"%d" % number], tags=tag, properties={"n": str(number)})
    return topic


def test_an_expression_counts_whatever_is_said_of_files(
    spark: SparkSession, topics: Topics
) -> None:
    topic = filled(topics)

    frame = load(spark, topics, topic, scan="auto", sqlFilter=SQL)

    assert sorted(bytes(row.body) for row in frame.collect()) == [b"2", b"3"]
    assert load(spark, topics, topic, scan="local", tags="red").count() == 2
    with pytest.raises(PySparkException, match="scan=local reads files: use scan=auto"):
        load(spark, topics, topic, scan="local", sqlFilter=SQL).collect()


def test_source_and_sink_speak_tls_sign_and_keep_to_their_namespace(
    spark: SparkSession, topics: Topics
) -> None:
    """The broker takes both kinds of connections, and looks at no signature."""
    own = {
        **topics.options,
        "tls": "true",
        "accessKey": "reader",
        "secretKey": "secret",
        "namespace": "shop",
    }
    topic = topics.name()
    topics.producer.create_topic(f"shop%{topic}", queues=1)
    rows = spark.createDataFrame([(b"1",), (b"2",)], "body binary")

    rows.write.format("rocketmq").mode("append").options(**own).save(topic)

    reader = spark.read.format("rocketmq").options(**own, **{"pull.timeoutMs": "5000"})
    read = reader.load(topic).collect()
    assert sorted((row.topic, bytes(row.body)) for row in read) == [(topic, b"1"), (topic, b"2")]
    assert load(spark, topics, f"shop%{topic}").count() == 2


def test_a_query_may_keep_its_offsets_to_itself(
    spark: SparkSession, topics: Topics, streams: Streams
) -> None:
    topic, group = topics.make(queues=1), topics.name("-group")
    topics.send(topic, numbered(0, 3))

    query = streams.start(
        topic, Sink(), startingOffsets="earliest", consumerGroup=group, commitOffsets="none"
    )
    query.processAllAvailable()
    topics.send(topic, numbered(3, 6))
    query.processAllAvailable()  # and so the batch before is done

    groups = {**topics.options, "view": "groups", "consumerGroup": group}
    found = spark.read.format("rocketmq").options(**groups).load(topic).collect()
    assert [(row.committedOffset, row.maxOffset) for row in found] == [(None, 6)]


def test_an_index_has_the_messages_that_a_filter_chooses(
    spark: SparkSession, topics: Topics
) -> None:
    topic = filled(topics)

    def index(**options: str) -> dict[int, int]:
        frame = load(spark, topics, topic, view="index", **options)
        return {row.queueOffset: row["size"] for row in frame.collect()}

    whole = index()
    assert sorted(whole) == [0, 1, 2]
    assert index(tags="red") == {offset: whole[offset] for offset in (0, 1)}
    assert index(sqlFilter=SQL) == {offset: whole[offset] for offset in (1, 2)}
    timed = index(sqlFilter=SQL, columns="queueOffset,size,storeTimestamp")
    assert timed == {offset: whole[offset] for offset in (1, 2)}


def test_views_of_queues_refuse_filters(spark: SparkSession, topics: Topics) -> None:
    with pytest.raises(PySparkException, match="tags chooses messages, and the view offsets is"):
        load(spark, topics, "any", view="offsets", tags="red").collect()


def test_a_schema_takes_names_in_any_case(
    spark: SparkSession, topics: Topics, streams: Streams, tmp_path: Path
) -> None:
    topic, schema = filled(topics), "Body binary, queueoffset bigint, TAGS string"
    found: list[Any] = []

    batch = spark.read.format("rocketmq").schema(schema).options(**topics.options).load(topic)
    stream = spark.readStream.format("rocketmq").schema(schema).options(**topics.options)
    writer = stream.option("startingOffsets", "earliest").load(topic).writeStream
    query = streams.started(
        writer.foreachBatch(lambda frame, _: found.extend(frame.collect()))
        .option("checkpointLocation", str(tmp_path / "schema"))
        .trigger(availableNow=True)
    )
    assert query.awaitTermination(60)

    assert batch.columns == ["Body", "queueoffset", "TAGS"]
    rows = sorted((bytes(row.Body), row.queueoffset, row.TAGS) for row in batch.collect())
    assert rows == [(b"1", 0, "red"), (b"2", 1, "red"), (b"3", 2, "blue")]
    assert sorted((bytes(row[0]), row[1], row[2]) for row in found) == rows
    assert load(spark, topics, topic, columns="BODY").columns == ["body"]


def test_a_stream_that_is_told_to_end_says_that_it_would_not(
    topics: Topics, streams: Streams
) -> None:
    topic = filled(topics)

    with pytest.raises(StreamingQueryException, match="endingOffsets: a stream has no end"):
        streams.run(topic, Sink(), endingOffsets="latest")


def test_a_start_by_the_group_needs_the_group(spark: SparkSession, topics: Topics) -> None:
    with pytest.raises(PySparkException, match="startingOffsets=group needs consumerGroup"):
        load(spark, topics, "any", startingOffsets="group").collect()


def test_small_batches_have_every_row(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, numbered(0, 100))

    for scan in ("rpc", "local"):
        frame = load(spark, topics, topic, batchBytes="1k", scan=scan)
        assert sorted(bytes(row.body) for row in frame.collect()) == numbered(0, 100)
