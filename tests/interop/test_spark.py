"""Spark on official brokers: they know nothing of our scan requests, and nobody should notice."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from emberq import Message, MessageQueue, Producer
from tests.interop.harness.cluster import BROKER_NAME, Cluster
from tests.interop.harness.waiting import eventually
from tests.spark.cluster import DEADLINE_S, until
from tests.spark.session import WARNINGS_OF_SPARK, running_session
from tests.spark.streams import Sink, Streams, numbered

pytestmark = [pytest.mark.interop, pytest.mark.timeout(480), *WARNINGS_OF_SPARK]

# More than one pull brings: official brokers give 32 messages at most.
MANY = 150


class Shop:
    """Topics at the official broker, through our name server."""

    def __init__(self, cluster: Cluster, producer: Producer) -> None:
        self.cluster = cluster
        self.producer = producer
        self.options = {"nameServer": cluster.emberq.address}
        self._sent: dict[tuple[str, int], int] = {}

    def make(self, topic: str, queues: int = 2) -> str:
        self.producer.create_topic(topic, queues=queues)
        return topic

    def send(self, topic: str, bodies: Sequence[bytes], queue: int = 0, **fields: Any) -> None:
        messages = [Message(topic, body, **fields) for body in bodies]
        self.producer.send_batch(messages, queue=MessageQueue(BROKER_NAME, queue, topic))
        self._sent[topic, queue] = sent = self._sent.get((topic, queue), 0) + len(bodies)
        at = MessageQueue(BROKER_NAME, queue, topic)
        # Official brokers fill queues a moment after they have acknowledged a message.
        until(lambda: self.producer.max_offset(at) == sent)

    def progress(self, topic: str, group: str) -> dict[int, tuple[int, int]]:
        """Broker offset and group offset of each queue, as mqadmin shows them."""
        lines = self.cluster.admin.run(
            "consumerProgress", "-n", self.cluster.emberq.address, "-g", group
        )
        rows = [line.split() for line in lines if line.startswith(topic)]
        return {int(row[2]): (int(row[3]), int(row[4])) for row in rows}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with running_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture
def shop(cluster: Cluster) -> Iterator[Shop]:
    address = cluster.emberq.address
    with Producer("spark-shop", name_server=address, send_timeout=DEADLINE_S) as producer:
        yield Shop(cluster, producer)


@pytest.fixture
def streams(spark: SparkSession, shop: Shop, tmp_path: Path) -> Iterator[Streams]:
    made = Streams(spark, shop.options, tmp_path)
    yield made
    made.stop()


def load(spark: SparkSession, shop: Shop, topic: str, **options: Any) -> DataFrame:
    reader = spark.read.format("rocketmq").options(**shop.options)
    return reader.options(**{name: str(value) for name, value in options.items()}).load(topic)


def bodies(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.body) for row in frame.select("body").collect())


def numbers_in(frame: DataFrame) -> set[int]:
    return {int(row.body) for row in frame.select("body").collect()}


def test_batches_have_every_message_though_pulls_are_small(spark: SparkSession, shop: Shop) -> None:
    topic = shop.make("SparkBatch")
    shop.send(topic, numbered(0, MANY), 0, tags="red", keys="k", properties={"size": "groß"})
    shop.send(topic, numbered(MANY, 2 * MANY), 1, tags="blue", properties={"n": "7"})
    start = f'{{"{topic}": {{"{BROKER_NAME}": {{"0": 40, "1": -1}}}}}}'
    end = f'{{"{topic}": {{"{BROKER_NAME}": {{"0": 110}}}}}}'

    rows = load(spark, shop, topic).orderBy("queueId", "queueOffset").collect()
    index = load(spark, shop, topic, view="index")
    whole = load(spark, shop, topic, columns="queueId,queueOffset,size,tagsHash,commitLogOffset")

    assert [bytes(row.body) for row in rows] == numbered(0, 2 * MANY)
    assert (rows[0].tags, rows[0].keys, rows[0].properties["size"]) == ("red", "k", "groß")
    between = load(spark, shop, topic, startingOffsets=start, endingOffsets=end)
    assert bodies(between) == numbered(40, 110)
    assert bodies(load(spark, shop, topic, tags="blue")) == numbered(MANY, 2 * MANY)
    assert bodies(load(spark, shop, topic, sqlFilter="n > 6")) == numbered(MANY, 2 * MANY)
    assert load(spark, shop, topic, minPartitions=6, scan="auto").count() == 2 * MANY
    columns = ("queueId", "queueOffset", "size", "tagsHash", "commitLogOffset")
    assert sorted(index.select(*columns).collect()) == sorted(whole.select(*columns).collect())


def test_files_of_an_official_broker_are_told_apart_from_ours_and_read_when_copied(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    topic = shop.make("SparkStore")
    shop.send(topic, numbered(0, MANY), 0, tags="red", keys="k")
    shop.send(topic, numbered(MANY, 2 * MANY), 1)
    copied = tmp_path / "store"
    # A broker that runs writes its tables anew every few seconds; messages are not among them.
    ignored = shutil.ignore_patterns("config")
    shutil.copytree(shop.cluster.broker.home / "store", copied, ignore=ignored)
    columns = ("queueId", "queueOffset", "keys", "tags", "body", "properties", "storeTimestamp")

    stored = spark.read.format("rocketmq").option("store", str(copied)).load(topic)

    by_network = load(spark, shop, topic).select(*columns).collect()
    key = lambda row: (row.queueId, row.queueOffset)  # noqa: E731 - one line
    assert sorted(stored.select(*columns).collect(), key=key) == sorted(by_network, key=key)
    with pytest.raises(PySparkException, match=f"the files of {BROKER_NAME} are not on this"):
        load(spark, shop, topic, scan="local").collect()


def test_a_new_group_starts_at_the_end_and_later_where_it_stands(
    streams: Streams, shop: Shop
) -> None:
    topic, group = shop.make("SparkStarts", queues=1), "spark-starts"
    first, second = Sink(), Sink()
    shop.send(topic, numbered(0, 40))

    streams.run(topic, first, consumerGroup=group, checkpoint="one")
    shop.send(topic, numbered(40, 120))
    streams.run(topic, first, consumerGroup=group, checkpoint="one", maxOffsetsPerTrigger=30)
    shop.send(topic, numbered(120, 125))
    streams.run(topic, first, consumerGroup=group, checkpoint="one")
    streams.run(topic, second, consumerGroup=group, checkpoint="two")

    assert first.bodies == numbered(40, 125)
    assert max(map(len, first.batches.values())) == 30
    # The last batch is told to the group when the next one begins.
    assert second.bodies == numbered(120, 125)


def test_a_failed_first_batch_is_repeated_from_the_same_start(
    spark: SparkSession, streams: Streams, shop: Shop
) -> None:
    topic, sink, group = shop.make("SparkPinned", queues=1), Sink(), "spark-pinned"
    options: dict[str, Any] = {"consumerGroup": group, "startingOffsets": "latest"}
    shop.send(topic, numbered(0, 3))
    sink.fails_at = 0
    query = streams.start(topic, sink, **options)

    def starts() -> list[int | None]:
        frame = load(spark, shop, topic, view="groups", consumerGroup=group)
        return [row.pinnedStart for row in frame.collect()]

    until(lambda: starts() == [3])
    shop.send(topic, numbered(3, 6))
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        query.awaitTermination(int(DEADLINE_S))
    shop.send(topic, numbered(6, 9))  # a start that is computed anew would lie behind these

    sink.fails_at = None
    streams.run(topic, sink, **options)

    assert sink.bodies == numbered(3, 9)


def test_a_running_query_shows_its_progress_to_official_tools(streams: Streams, shop: Shop) -> None:
    topic, sink, group = shop.make("SparkRunning"), Sink(), "spark-running"
    shop.send(topic, numbered(0, 50), 0)
    shop.send(topic, numbered(50, 60), 1)
    streams.start(topic, sink, consumerGroup=group, startingOffsets="earliest")
    until(lambda: sink.bodies == numbered(0, 60))

    shop.send(topic, numbered(60, 61), 1)  # the next batch tells of the one before
    until(lambda: sink.bodies == numbered(0, 61))

    wanted = {0: (50, 50), 1: (11, 10)}
    eventually(lambda: shop.progress(topic, group), lambda seen: seen == wanted, DEADLINE_S)


def test_frames_and_streams_are_written_to_an_official_broker(
    spark: SparkSession, streams: Streams, shop: Shop, tmp_path: Path
) -> None:
    source, target = shop.make("SparkFrom"), shop.make("SparkTo", queues=4)
    frame = spark.range(0, 2000, 1, 2).selectExpr(
        "cast(id AS string) AS body", "concat('key-', id % 10) AS shardingKey", "'red' AS tags"
    )

    frame.write.format("rocketmq").mode("append").options(**shop.options).save(source)
    until(lambda: numbers_in(load(spark, shop, source)) == set(range(2000)))
    rows = streams.frame(source, startingOffsets="earliest").select("body", "tags", "keys")
    query = (
        rows.writeStream.format("rocketmq")
        .options(**shop.options, topic=target)
        .option("checkpointLocation", str(tmp_path / "copy"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(DEADLINE_S))

    # At least once: a task whose answer came too late sends again.
    until(lambda: numbers_in(load(spark, shop, target, tags="red")) == set(range(2000)))
    own = [row for row in load(spark, shop, source).collect() if int(row.body) % 10 == 3]
    assert len({row.queueId for row in own}) == 1
