"""Topics as streams: nothing lost, nothing twice, limits kept, groups told."""

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from emberq.spark import track
from tests.spark.cluster import DEADLINE_S, Topics, until
from tests.spark.streams import Sink, Streams, numbered

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def streams(spark: SparkSession, topics: Topics, tmp_path: Path) -> Iterator[Streams]:
    made = Streams(spark, topics.options, tmp_path)
    yield made
    made.stop()


def group_offsets(topics: Topics, spark: SparkSession, topic: str, group: str) -> list[Any]:
    frame = spark.read.format("rocketmq").options(**topics.options, view="groups")
    rows = frame.option("consumerGroup", group).load(topic).collect()
    return [(row.committedOffset, row.pinnedStart) for row in sorted(rows)]


def test_runs_that_end_when_all_is_read_go_on_where_the_last_one_ended(
    streams: Streams, topics: Topics
) -> None:
    topic, sink = topics.make(), Sink()
    topics.send(topic, numbered(0, 30), 0)

    streams.run(topic, sink, startingOffsets="earliest")
    assert sink.bodies == numbered(0, 30)
    topics.send(topic, numbered(30, 40), 1)
    streams.run(topic, sink, startingOffsets="earliest")

    assert sink.bodies == numbered(0, 40)


def test_a_query_that_is_started_again_in_the_midst_of_a_batch_finishes_it(
    streams: Streams, topics: Topics, tmp_path: Path
) -> None:
    topic, again = topics.make(), Sink()
    for first in (0, 10):
        topics.send(topic, numbered(first, first + 10))
        streams.run(topic, Sink(), startingOffsets="earliest")
    # As after a kill: the second batch is planned, and nobody knows whether it was done.
    for name in ("1", ".1.crc"):
        (tmp_path / "c" / "commits" / name).unlink()

    streams.start(topic, again, startingOffsets="earliest")

    until(lambda: again.bodies == numbered(10, 20))


def test_a_batch_has_no_more_rows_than_it_may(streams: Streams, topics: Topics) -> None:
    topic, sink = topics.make(), Sink()
    topics.send(topic, numbered(0, 90), 0)
    topics.send(topic, numbered(90, 100), 1)

    streams.run(topic, sink, startingOffsets="earliest", maxOffsetsPerTrigger=40)

    assert [len(sink.batches[number]) for number in sorted(sink.batches)] == [40, 40, 20]
    assert sink.bodies == numbered(0, 100)
    assert any(body >= b"090" for body in sink.batches[0])  # every queue has its share


def test_a_batch_has_about_as_many_bytes_as_it_may(streams: Streams, topics: Topics) -> None:
    topic, sink = topics.make(queues=1), Sink()
    topics.send(topic, [b"x" * 1000 for _ in range(60)])

    streams.run(topic, sink, startingOffsets="earliest", maxBytesPerTrigger="30k")

    assert 2 <= len(sink.batches) <= 4
    assert len(sink.bodies) == 60


def test_a_running_query_reads_what_comes_and_tells_its_group(
    streams: Streams, spark: SparkSession, topics: Topics
) -> None:
    topic, sink, group = topics.make(queues=1), Sink(), topics.name("-g")
    topics.send(topic, numbered(0, 5))
    query = streams.start(topic, sink, consumerGroup=group, startingOffsets="earliest")
    until(lambda: sink.bodies == numbered(0, 5))

    topics.send(topic, numbered(5, 8))
    until(lambda: sink.bodies == numbered(0, 8))
    topics.send(topic, numbered(8, 9))
    until(lambda: sink.bodies == numbered(0, 9))
    query.stop()

    ((committed, pinned),) = group_offsets(topics, spark, topic, group)
    assert committed >= 5
    assert pinned is None  # nobody needs it any more
    progress = query.lastProgress
    assert progress is not None
    assert progress.sources[0].endOffset is not None


def test_a_failed_first_batch_is_repeated_from_the_same_start(
    streams: Streams, spark: SparkSession, topics: Topics
) -> None:
    topic, sink, group = topics.make(queues=1), Sink(), topics.name("-g")
    topics.send(topic, numbered(0, 3))
    sink.fails_at = 0
    query = streams.start(topic, sink, consumerGroup=group, startingOffsets="latest")
    until(lambda: group_offsets(topics, spark, topic, group) == [(None, 3)])
    topics.send(topic, numbered(3, 6))
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        query.awaitTermination(int(DEADLINE_S))
    topics.send(topic, numbered(6, 9))  # a start that is computed anew would lie behind these

    sink.fails_at = None
    streams.run(topic, sink, consumerGroup=group, startingOffsets="latest")

    assert sink.bodies == numbered(3, 9)


def test_a_query_without_a_group_begins_at_the_end_with_an_empty_batch(
    streams: Streams, topics: Topics
) -> None:
    topic, sink = topics.make(queues=1), Sink()
    topics.send(topic, numbered(0, 3))
    query = streams.start(topic, sink)
    until(lambda: query.lastProgress is not None)

    topics.send(topic, numbered(3, 6))
    until(lambda: sink.bodies == numbered(3, 6))

    assert sink.batches.get(0, []) == []


def test_a_new_query_starts_where_its_group_stands(streams: Streams, topics: Topics) -> None:
    topic, group = topics.make(queues=1), topics.name("-g")
    first, second = Sink(), Sink()
    topics.send(topic, numbered(0, 4))
    streams.run(topic, first, consumerGroup=group, startingOffsets="earliest", checkpoint="one")
    topics.send(topic, numbered(4, 6))
    streams.run(topic, first, consumerGroup=group, startingOffsets="earliest", checkpoint="one")
    assert first.bodies == numbered(0, 6)

    streams.run(topic, second, consumerGroup=group, checkpoint="two")

    # The last batch is told to the group when the next one begins.
    assert second.bodies == numbered(4, 6)


def test_a_tracked_group_knows_the_last_batch(
    streams: Streams, spark: SparkSession, topics: Topics
) -> None:
    topic, group = topics.make(queues=1), topics.name("-g")
    topics.send(topic, numbered(0, 7))
    metrics = runpy.run_path(str(EXAMPLES / "metrics.py"))["PrometheusText"]()
    tracker = track(spark, group, metrics=metrics, **topics.options)
    try:
        streams.run(
            topic, Sink(), consumerGroup=group, startingOffsets="earliest", commitOffsets="listener"
        )

        until(lambda: group_offsets(topics, spark, topic, group)[0][0] == 7)
        assert (tracker.lag, tracker.lag_by_queue) == (0, {topics.queue(topic): 0})
        assert tracker.batch_s > 0
        text = metrics.text()
        assert f'emberq_query_rows_total{{group="{group}",query=""}} 7' in text
        assert f'topic="{topic}",broker="broker-a",queue="0"}} 0' in text
    finally:
        spark.streams.removeListener(tracker)


def test_new_queues_are_read_from_their_first_message(streams: Streams, topics: Topics) -> None:
    topic, sink = topics.make(queues=1), Sink()
    topics.send(topic, numbered(0, 2))
    streams.start(topic, sink, startingOffsets="earliest")
    until(lambda: sink.bodies == numbered(0, 2))

    topics.make(queues=2)
    topics.producer.client.thread.run(topics.producer.client.aio.routes.refresh(topic))
    topics.send(topic, numbered(2, 4), 1)

    until(lambda: sink.bodies == numbered(0, 4))


def test_new_topics_of_a_pattern_are_read_too(
    streams: Streams, spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    first, sink = topics.make("-one", queues=1), Sink()
    topics.send(first, numbered(0, 2))
    options = {**topics.options, "subscribePattern": f"{topics.name()}-.*"}
    frame = spark.readStream.format("rocketmq").options(**options, startingOffsets="earliest")
    writer = frame.load().writeStream.foreachBatch(sink)
    streams.started(writer.option("checkpointLocation", str(tmp_path / "c")))
    until(lambda: sink.bodies == numbered(0, 2))

    topics.send(topics.make("-two", queues=1), numbered(2, 4))

    until(lambda: sink.bodies == numbered(0, 4))


def test_a_minimum_holds_messages_back(streams: Streams, topics: Topics) -> None:
    topic, sink = topics.make(queues=1), Sink()
    options: dict[str, Any] = {"minOffsetsPerTrigger": 10, "maxTriggerDelay": "1h"}
    topics.send(topic, numbered(0, 10))
    streams.start(topic, sink, startingOffsets="earliest", **options)
    until(lambda: sink.bodies == numbered(0, 10))

    topics.send(topic, numbered(10, 13))
    topics.send(topic, numbered(13, 20))
    until(lambda: sink.bodies == numbered(0, 20))

    assert [len(batch) for batch in sink.batches.values()] == [10, 10]


def test_a_minimum_holds_messages_back_for_a_while_only(streams: Streams, topics: Topics) -> None:
    topic, sink = topics.make(queues=1), Sink()
    options: dict[str, Any] = {"minOffsetsPerTrigger": 10, "maxTriggerDelay": "2s"}
    topics.send(topic, numbered(0, 10))
    streams.start(topic, sink, startingOffsets="earliest", **options)
    until(lambda: sink.bodies == numbered(0, 10))

    topics.send(topic, numbered(10, 15))

    until(lambda: sink.bodies == numbered(0, 15))


@pytest.mark.parametrize("is_sql", [False, True])
def test_a_table_may_be_read_as_a_stream(
    streams: Streams, spark: SparkSession, topics: Topics, tmp_path: Path, *, is_sql: bool
) -> None:
    topic, sink = topics.make(queues=1), Sink()
    topics.send(topic, numbered(0, 3))
    table = topics.name("_t").replace("-", "_")
    spark.sql(
        f"CREATE TABLE {table} USING rocketmq OPTIONS (nameServer "
        f"'{topics.cluster.name_server}', subscribe '{topic}', startingOffsets 'earliest')"
    )
    try:
        named = f"SELECT * FROM STREAM {table}"
        frame = spark.sql(named) if is_sql else spark.readStream.table(table)
        writer = frame.writeStream.foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(tmp_path / "c"))
        query = streams.started(writer.trigger(availableNow=True))

        assert query.awaitTermination(int(DEADLINE_S))
        assert sink.bodies == numbered(0, 3)
    finally:
        spark.sql(f"DROP TABLE {table}")


def test_entries_may_be_read_as_a_stream(
    streams: Streams, spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, numbered(0, 7))
    frame = streams.frame(topic, view="index", startingOffsets="earliest")
    query = (
        frame.writeStream.format("memory")
        .queryName("entries")
        .option("checkpointLocation", str(tmp_path / "entries"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(int(DEADLINE_S))

    assert spark.table("entries").selectExpr("max(queueOffset)").collect()[0][0] == 6


@pytest.mark.parametrize("view", ["offsets", "groups"])
def test_snapshots_are_no_streams(streams: Streams, topics: Topics, view: str) -> None:
    topic = topics.make()
    with pytest.raises(Exception, match="is a snapshot: read it as a batch"):
        streams.run(topic, Sink(), view=view)
