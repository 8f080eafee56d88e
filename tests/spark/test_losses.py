"""Streams and batches whose messages, queues or topics are gone, and names that never were."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from emberq import Producer
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import new_request
from emberq.spark.links import Link
from emberq.spark.options import ConnectionOptions
from tests.spark.cluster import DEADLINE_S, Cluster, Topics, running_cluster, until
from tests.spark.streams import Sink, Streams, numbered

# Messages of about a kilobyte in files of a few: retention deletes whole files.
FILE_BYTES = 16 * 1024
SENT_TOGETHER = 10  # less than a file
FILLING = b"x" * 900
LENIENT: dict[str, Any] = {"failOnDataLoss": "false"}
# Whatever looks at sizes before it reads.
CUT: dict[str, Any] = {"maxBytesPerTrigger": "10m", "maxBytesPerPartition": "32k"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Deletes whatever is older than nothing, when it is told to."""
    keys = {
        "mappedFileSizeCommitLog": str(FILE_BYTES),
        "fileReservedTime": "0",
        "deleteWhen": str((datetime.now(UTC).astimezone().hour + 12) % 24),
        "diskMaxUsedSpaceRatio": "99",
        # What is not on the disk, queues included, is never deleted.
        "flushCommitLogThoroughInterval": "500",
        "flushConsumeQueueThoroughInterval": "500",
    }
    with running_cluster(tmp_path_factory.mktemp("short-lived"), **keys) as running:
        yield running


@pytest.fixture(scope="module")
def producer(cluster: Cluster) -> Iterator[Producer]:
    with Producer("writers", name_server=cluster.name_server) as one:
        yield one


@pytest.fixture
def streams(spark: SparkSession, topics: Topics, tmp_path: Path) -> Iterator[Streams]:
    made = Streams(spark, topics.options, tmp_path)
    yield made
    made.stop()


def bodies(first: int, stop: int) -> list[bytes]:
    return [b"%03d" % number + FILLING for number in range(first, stop)]


def send(topics: Topics, topic: str, bodies: list[bytes]) -> None:
    for first in range(0, len(bodies), SENT_TOGETHER):
        topics.send(topic, bodies[first : first + SENT_TOGETHER])


def load(spark: SparkSession, topics: Topics, topic: str | None = None, **given: Any) -> DataFrame:
    options = {name: str(value) for name, value in {**topics.options, **given}.items()}
    return spark.read.format("rocketmq").options(**options).load(topic)


def first_offset(spark: SparkSession, topics: Topics, topic: str) -> int:
    return int(load(spark, topics, topic, view="offsets").collect()[0].minOffset)


def expire(spark: SparkSession, topics: Topics, topic: str) -> int:
    """All but the newest messages; where the queue begins from then on."""
    with closing(Link(ConnectionOptions(name_server=topics.cluster.name_server))) as link:

        async def clean() -> None:
            request = new_request(RequestCode.DELETE_EXPIRED_COMMITLOG, {})
            await link.client.call(topics.cluster.broker.address, request)

        before = first_offset(spark, topics, topic)

        def is_done() -> bool:
            link.run(clean, 5)
            return first_offset(spark, topics, topic) > before + 20

        until(is_done)
    return first_offset(spark, topics, topic)


def uncommit(checkpoint: Path, batch: int) -> None:
    """As after a kill: the batch is planned, and nobody knows whether it was done."""
    for name in (f"{batch}", f".{batch}.crc"):
        (checkpoint / "commits" / name).unlink()


# Messages that expire


def test_a_stream_gets_past_messages_that_expired(
    streams: Streams, spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic, sink = topics.make(queues=1), Sink()
    send(topics, topic, bodies(0, 10))
    streams.run(topic, sink, startingOffsets="earliest", **LENIENT, **CUT)
    send(topics, topic, bodies(10, 100))
    left = expire(spark, topics, topic)

    streams.run(topic, sink, startingOffsets="earliest", **LENIENT, **CUT)
    uncommit(tmp_path / "c", 1)
    again = Sink()
    streams.run(topic, again, startingOffsets="earliest", **LENIENT, **CUT)

    assert 30 < left < 100
    assert sink.bodies == bodies(0, 10) + bodies(left, 100)
    assert again.batches == {1: bodies(left, 100)}


def test_or_it_ends_and_says_which_and_goes_on_when_it_may(
    streams: Streams, spark: SparkSession, topics: Topics
) -> None:
    topic, sink = topics.make(queues=1), Sink()
    send(topics, topic, bodies(0, 10))
    streams.run(topic, sink, startingOffsets="earliest", **CUT)
    send(topics, topic, bodies(10, 100))
    left = expire(spark, topics, topic)

    for _ in range(2):
        query = streams.start(topic, sink, once=True, startingOffsets="earliest", **CUT)
        with pytest.raises(
            StreamingQueryException, match=r"messages \d+ to \d+ of .* are gone .*failOnDataLoss"
        ):
            query.awaitTermination(int(DEADLINE_S))
    streams.run(topic, sink, startingOffsets="earliest", **LENIENT, **CUT)

    assert sink.bodies == bodies(0, 10) + bodies(left, 100)


def test_a_stream_of_entries_gets_past_them_too(
    streams: Streams, spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make(queues=1)
    send(topics, topic, bodies(0, 10))
    found: list[int] = []

    def collect(frame: DataFrame, _batch: int) -> None:
        found.extend(row.queueOffset for row in frame.collect())

    def read(**options: Any) -> None:
        frame = streams.frame(topic, view="index", startingOffsets="earliest", **options)
        writer = frame.writeStream.foreachBatch(collect).trigger(availableNow=True)
        query = streams.started(writer.option("checkpointLocation", str(tmp_path / "entries")))
        assert query.awaitTermination(int(DEADLINE_S))

    read()
    send(topics, topic, bodies(10, 100))
    left = expire(spark, topics, topic)

    with pytest.raises(StreamingQueryException, match=r"messages 10 to \d+ of .* are gone"):
        read()
    read(**LENIENT)

    assert sorted(found) == [*range(10), *range(left, 100)]


# Topics that are deleted


def test_a_topic_that_is_made_anew_is_read_from_its_first_message(
    streams: Streams, topics: Topics
) -> None:
    """By a stream that began at the end as well."""
    topic, sink = topics.make(queues=1), Sink()
    streams.run(topic, sink, **LENIENT)
    send(topics, topic, numbered(0, 90))
    streams.run(topic, sink, **LENIENT)
    assert sink.bodies == numbered(0, 90)
    topics.delete(topic)
    topics.make(queues=1)
    send(topics, topic, numbered(100, 155))

    with pytest.raises(StreamingQueryException, match="read up to 90, but the queue ends at 55"):
        streams.run(topic, sink)
    streams.run(topic, sink, **LENIENT, maxOffsetsPerTrigger=30)

    assert sink.bodies == numbered(0, 90) + numbered(100, 155)
    assert max(map(len, list(sink.batches.values())[2:])) == 30


def test_a_batch_whose_topic_was_deleted_behind_its_plan_is_passed_or_says_so(
    streams: Streams, topics: Topics, tmp_path: Path
) -> None:
    topic, kept, sink = topics.make(queues=1), topics.make("-kept", queues=1), Sink()
    both = f"{topic},{kept}"
    for first in (0, 10):
        send(topics, topic, numbered(first, first + 5))
        send(topics, kept, numbered(first + 5, first + 10))
        streams.run(both, sink, startingOffsets="earliest")
    uncommit(tmp_path / "c", 1)
    topics.delete(topic)

    with pytest.raises(StreamingQueryException, match=r"messages 5 to 10 of .* are gone .*=false"):
        streams.run(both, Sink(), startingOffsets="earliest")
    again = Sink()
    streams.run(both, again, startingOffsets="earliest", **LENIENT)

    assert again.bodies == numbered(15, 20)


# Starts


def test_a_start_that_an_older_query_left_with_its_group_puts_nothing_off(
    streams: Streams, topics: Topics
) -> None:
    topic, group, sink = topics.make(queues=1), topics.name("-g"), Sink()
    send(topics, topic, numbered(0, 10))
    streams.run(topic, Sink(), consumerGroup=group, startingOffsets="latest", checkpoint="old")

    streams.run(topic, sink, consumerGroup=group, startingOffsets="earliest", checkpoint="new")

    assert sink.bodies == numbered(0, 10)


# Names


def test_queues_that_are_not_there_are_named_with_those_that_are(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.make(queues=2)
    send(topics, topic, numbered(0, 5))
    there = f"there is {topic} broker-a/0,1"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"assign": json.dumps({topic: {"broker-a": [0, 99]}})}, "broker-a/99"),
        ({"startingOffsets": json.dumps({topic: {"broker-b": {"0": 3}}})}, "broker-b/0"),
        ({"endingOffsets": json.dumps({topic: {"broker-a": {"7": 3}}})}, "broker-a/7"),
        ({"endingOffsetsByTimestamp": json.dumps({f"{topic}x": 3})}, f"{topic}x"),
    ]

    for options, name in wrong:
        what = None if "assign" in options else topic
        with pytest.raises(PySparkException, match=f"there is no .*{name}; {there}"):
            load(spark, topics, what, **options).count()
        assert load(spark, topics, what, **options, **LENIENT).count() == 5
