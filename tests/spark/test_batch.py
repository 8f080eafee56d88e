"""Topics as batches: what is read, which columns, which rows, and how failures are told."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from emberq import Message
from emberq.spark import register
from emberq.spark.batch_reader import BatchReader
from emberq.spark.stream_reader import StreamReader
from tests.spark.cluster import Topics

Rows = list[tuple[Any, ...]]
LARGEST_BODY = b"large" * (4 * 1024 * 1024 // 5)  # the default of maxMessageSize


def load(spark: SparkSession, topics: Topics, topic: str, **options: Any) -> DataFrame:
    reader = spark.read.format("rocketmq").options(**topics.options)
    return reader.options(**{name.replace("__", "."): str(v) for name, v in options.items()}).load(
        topic
    )


def rows(frame: DataFrame, *columns: str) -> Rows:
    return sorted(tuple(row) for row in frame.select(*columns).collect())


def test_every_message_is_a_row_with_the_columns_of_the_catalogue(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.make()
    before = datetime.now(UTC).timestamp() - 60
    topics.send(topic, [b"one"], 0, tags="red", keys=["k1", "k2"], properties={"size": "groß"})
    topics.send(topic, [b"two", b"\0"], 1)

    frame = load(spark, topics, topic)
    found = {(row.queueId, row.queueOffset): row for row in frame.collect()}

    assert frame.schema.simpleString() == (
        "struct<topic:string,brokerName:string,queueId:int,queueOffset:bigint,keys:string,"
        "tags:string,body:binary,bornTimestamp:timestamp,storeTimestamp:timestamp,"
        "properties:map<string,string>>"
    )
    assert sorted(found) == [(0, 0), (1, 0), (1, 1)]
    one, two = found[0, 0], found[1, 0]
    assert (one.topic, one.brokerName, one.keys, one.tags) == (topic, "broker-a", "k1 k2", "red")
    assert bytes(one.body) == b"one"
    assert one.properties["size"] == "groß"
    assert (two.keys, two.tags) == (None, None)
    assert bytes(found[1, 1].body) == b"\0"
    assert before < one.bornTimestamp.timestamp() <= one.storeTimestamp.timestamp() + 1


@pytest.mark.parametrize("decoder", ["auto", "vector", "scalar"])
def test_bodies_may_be_in_any_script_no_text_or_as_large_as_brokers_take(
    spark: SparkSession, topics: Topics, decoder: str
) -> None:
    topic = topics.make(f"-{decoder}", queues=1)
    bodies = ["Grüße, 世界 😀".encode(), b"\xff\xfe", LARGEST_BODY, b"behind it"]
    fields: dict[str, Any] = {"tags": "Käse-🧀", "keys": ["schlüssel"], "properties": {"leer": "∅"}}
    for body in bodies:
        topics.producer.send(Message(topic, body, **fields))

    frame = load(spark, topics, topic, decoder=decoder).orderBy("queueOffset")
    texts = load(spark, topics, topic, decoder=decoder, bodyAs="string").orderBy("queueOffset")
    found = frame.selectExpr("body", "tags", "keys", "properties['leer']").collect()

    assert [bytes(row.body) for row in found] == bodies
    assert {tuple(row)[1:] for row in found} == {("Käse-🧀", "schlüssel", "∅")}
    assert [row.body for row in texts.collect()] == [
        None if body == b"\xff\xfe" else body.decode() for body in bodies
    ]


def test_columns_come_by_option_by_schema_and_on_request(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.make()
    topics.send(topic, [b"x"], tags="red")
    names = "queueOffset, uniqKey, msgId, sysFlag, size, tagsHash, bornHost, body, properties"

    by_option = load(spark, topics, topic, columns=names, bodyAs="string", properties="string")
    schema = "body string, queueOffset bigint"
    by_schema = (
        spark.read.format("emberq").schema(schema).options(**topics.options).load(topic).collect()
    )
    (row,) = by_option.collect()

    assert by_option.columns == names.split(", ")
    assert (row.body, row.uniqKey) == ("x", row.msgId)
    assert "TAGS\x01red\x02" in row.properties
    assert row.bornHost.startswith("127.0.0.1:")
    assert row.tagsHash == 112785
    assert [tuple(each) for each in by_schema] == [("x", 0)]


def test_a_range_by_offsets_is_read_exactly(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, [b"%d" % n for n in range(50)], 0)
    topics.send(topic, [b"%d" % n for n in range(5)], 1)
    start = f'{{"{topic}": {{"broker-a": {{"0": 10, "1": -1}}}}}}'
    end = f'{{"{topic}": {{"broker-a": {{"0": 20}}}}}}'

    frame = load(spark, topics, topic, startingOffsets=start, endingOffsets=end)

    assert rows(frame, "queueId", "queueOffset") == [(0, n) for n in range(10, 20)]


def test_a_range_by_time_is_read(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, [b"old"])
    frame = load(spark, topics, topic)
    (row,) = frame.collect()
    stored_ms = round(row.storeTimestamp.replace(tzinfo=UTC).timestamp() * 1000)

    since = load(spark, topics, topic, startingTimestamp=stored_ms).count()
    until = load(spark, topics, topic, endingTimestamp=stored_ms).count()
    by_topic = f'{{"{topic}": {stored_ms}}}'

    assert (since, until) == (1, 0)
    assert load(spark, topics, topic, startingOffsetsByTimestamp=by_topic).count() == 1


def test_a_time_since_which_a_queue_has_nothing_may_be_an_error(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.make()
    for queue in (0, 1):
        topics.send(topic, [b"x"], queue)
    now = [row.storeTimestamp for row in load(spark, topics, topic).collect()]
    stored_ms = round(min(now).replace(tzinfo=UTC).timestamp() * 1000)

    def count(of_first: int, of_second: int) -> int:
        times = {topic: {"broker-a": {"0": of_first, "1": of_second}}}
        return load(
            *(spark, topics, topic),
            startingOffsetsByTimestamp=json.dumps(times),
            startingOffsetsByTimestampStrategy="error",
        ).count()

    assert count(stored_ms, stored_ms) == 2
    with pytest.raises(PySparkException) as error:
        count(stored_ms, stored_ms + 3_600_000)
    assert (
        f"startingOffsetsByTimestampStrategy=error: nothing is stored in {topic} broker-a/1 since "
        "the time that is asked for; with latest it is read from its end"
    ) in str(error.value)


def test_several_topics_patterns_and_queues(spark: SparkSession, topics: Topics) -> None:
    names = [topics.make(suffix) for suffix in ("-a", "-b", "-c")]
    for name in names:
        topics.send(name, [b"x"], 0)
        topics.send(name, [b"y"], 1)
    assigned = f'{{"{names[1]}": {{"broker-a": [1]}}}}'

    def read(**what: str) -> list[Any]:
        return spark.read.format("rocketmq").options(**topics.options, **what).load().collect()

    assert len(read(subscribe=f"{names[0]}, {names[1]}")) == 4
    assert {row.topic for row in read(subscribePattern=topics.name("-[bc]"))} == set(names[1:])
    assert [bytes(row.body) for row in read(assign=assigned)] == [b"y"]


def test_filters_are_options_of_the_broker(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, [b"1"], tags="red", properties={"n": "1"})
    topics.send(topic, [b"2"], tags="blue", properties={"n": "2"})
    # Both hash to the same number, so the broker cannot tell them apart.
    topics.send(topic, [b"3"], tags="Aa")
    topics.send(topic, [b"4"], tags="BB")

    assert rows(load(spark, topics, topic, tags="red || Aa", columns="body"), "body") == [
        (bytearray(b"1"),),
        (bytearray(b"3"),),
    ]
    assert load(spark, topics, topic, sqlFilter="n > 1").count() == 1


def test_ranges_are_cut_into_tasks(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, [b"x" * 1000 for _ in range(100)])

    def tasks(**options: Any) -> int:
        frame = load(spark, topics, topic, **options)
        assert rows(frame, "queueOffset") == [(n,) for n in range(100)]
        return frame.rdd.getNumPartitions()

    assert tasks() == 1
    assert tasks(minPartitions=4) == 4
    assert tasks(maxRecordsPerPartition=30) == 4
    assert tasks(maxBytesPerPartition="60k") == 2


def test_small_batches_and_small_pulls_bring_the_same_rows(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, [b"%d" % n for n in range(100)])
    options = {"batchRows": 7, "batchBytes": "1k", "pull__maxBytes": "2k", "pull__prefetch": 1}

    vector = load(spark, topics, topic, **options)
    scalar = load(spark, topics, topic, decoder="scalar")

    assert rows(vector, "queueOffset", "body") == rows(scalar, "queueOffset", "body")
    assert vector.count() == 100


def test_a_frame_is_a_snapshot_until_it_is_loaded_again(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.make()
    topics.send(topic, [b"1"])
    frame = load(spark, topics, topic)
    assert frame.count() == 1

    topics.send(topic, [b"2"])

    assert frame.count() == 1
    assert load(spark, topics, topic).count() == 2


def test_one_frame_filtered_and_whole_gives_both_answers(
    spark: SparkSession, topics: Topics
) -> None:
    assert "pushFilters" not in vars(BatchReader)
    assert "pushFilters" not in vars(StreamReader)
    topic = topics.make(queues=1)
    topics.send(topic, [b"%d" % n for n in range(20)])
    frame = load(spark, topics, topic)

    assert frame.filter("queueOffset < 6").count() == 6
    assert frame.count() == 20
    both = frame.filter("queueOffset < 2").union(frame.filter("queueOffset >= 10"))
    assert both.count() == 12


def test_index_offsets_and_groups_are_views(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, [b"x", b"y"], 0, tags="red")
    with_sizes = load(spark, topics, topic, columns="queueOffset,size,tagsHash,commitLogOffset")

    index = load(spark, topics, topic, view="index")
    offsets = load(spark, topics, topic, view="offsets")
    groups = load(spark, topics, topic, view="groups", consumerGroup=topics.name("-group"))

    columns = ("queueOffset", "commitLogOffset", "size", "tagsHash")
    assert rows(index, *columns) == rows(with_sizes, *columns)
    assert rows(offsets, "queueId", "minOffset", "maxOffset", "count") == [
        (0, 0, 2, 2),
        (1, 0, 0, 0),
    ]
    assert {row.committedOffset for row in groups.collect()} == {None}


def test_views_say_when_messages_were_stored_and_how_large_queues_are(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.make()
    topics.send(topic, [b"x", b"yy"], 0)
    topics.send(topic, [b"zzz"], 0)
    messages = load(spark, topics, topic, columns="queueOffset,size,storeTimestamp").collect()
    stored = {row.queueOffset: row.storeTimestamp for row in messages}

    index = load(spark, topics, topic, view="index", columns="queueOffset,size,storeTimestamp")
    offsets = load(
        spark,
        topics,
        topic,
        view="offsets",
        columns="queueId,earliestTimestamp,latestTimestamp,bytes",
    )

    assert {row.queueOffset: row.storeTimestamp for row in index.collect()} == stored
    assert rows(offsets, "queueId", "earliestTimestamp", "latestTimestamp", "bytes") == [
        (0, stored[0], stored[2], sum(row["size"] for row in messages)),
        (1, None, None, 0),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOfsets": "latest"}, "did you mean startingOffsets"),
        ({"startingOffsets": "yesterday"}, "expected earliest, latest, group or JSON"),
        ({"columns": "queueOfset"}, "did you mean queueOffset"),
        ({"maxBytesPerPartition": "many"}, "a size such as"),
        ({"view": "everything"}, "one of messages, index, offsets, groups"),
        ({"tags": "a", "sqlFilter": "b"}, "exclude each other"),
        ({"arrowTransform": "somewhere"}, "module:function"),
    ],
)
def test_wrong_options_are_told_in_one_sentence(
    spark: SparkSession, topics: Topics, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        load(spark, topics, "any", **options).collect()


def test_a_topic_that_is_not_there_is_told(spark: SparkSession, topics: Topics) -> None:
    with pytest.raises(PySparkException, match="no name server knows the topic"):
        load(spark, topics, "nowhere").collect()


def test_messages_that_are_gone_stop_a_query_or_are_passed_over(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, [b"x"])
    end = f'{{"{topic}": {{"broker-a": {{"0": 9}}}}}}'

    with pytest.raises(PySparkException, match="has no offset 9: its messages are 0 to 1"):
        load(spark, topics, topic, endingOffsets=end).count()


def test_a_function_may_change_each_batch(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, [b"abc", b"d"])
    reader = spark.read.format("rocketmq").options(**topics.options)

    frame = (
        reader.schema("length int")
        .option("arrowTransform", "tests.spark.transforms:body_lengths")
        .load(topic)
    )

    assert sorted(row.length for row in frame.collect()) == [1, 3]


def test_a_session_that_does_not_look_can_be_told(spark: SparkSession) -> None:
    register(spark)
