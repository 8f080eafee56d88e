"""Streams whose broker goes away for a moment, or for good."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from emberq import Message, Producer
from emberq.errors import TopicNotFound
from emberq.spark.sink_options import Delivered
from emberq.testing.local_broker import LocalBroker, run_broker
from emberq.testing.local_nameserver import run_name_server
from tests.spark.cluster import DEADLINE_S, until
from tests.spark.streams import Sink, Streams, numbered
from tests.support.topic_content import bodies_of

TOPIC = "Outages"
# Spark starts its workers in it, and learns what it runs.
WITHIN_S = 2 * DEADLINE_S
# Long enough for a task that does not wait to have failed.
AWAY_S = 3.0
# Whatever fails once has failed, were it not for the wait.
AT_ONCE: dict[str, Any] = {"retries": "0", "idlePollMs": "20", "startingOffsets": "earliest"}


class Shop:
    """A broker that can be taken away."""

    def __init__(self, home: Path, name_server: str) -> None:
        self._home = home
        self.name_server = name_server
        self._life = ExitStack()
        self._broker = self._started(0)

    def _started(self, port: int) -> LocalBroker:
        config = {"brokerIP1": "127.0.0.1"}
        return self._life.enter_context(
            run_broker(self._home, name_servers=self.name_server, config=config, port=port)
        )

    def take_away(self) -> None:
        self._broker.kill()
        self._life.close()

    def bring_back(self) -> None:
        self._broker = self._started(self._broker.port)

    def close(self) -> None:
        self._life.close()

    def send(self, first: int, stop: int) -> None:
        with Producer("writers", name_server=self.name_server) as producer:
            for body in numbered(first, stop):
                producer.send(Message(TOPIC, body))

    def make(self, topic: str) -> None:
        with Producer("makers", name_server=self.name_server) as producer:
            producer.create_topic(topic, queues=2)

    def bodies(self, topic: str) -> list[bytes]:
        own = bodies_of(self.name_server, topic)
        return sorted(body.encode() for bodies in own for body in bodies)

    def has(self, topic: str, count: int) -> bool:
        return len(set(self.bodies(topic))) >= count

    def has_route(self) -> bool:
        with Producer("lookers", name_server=self.name_server) as producer:
            try:
                return bool(producer.queues_of(TOPIC))
            except TopicNotFound:
                return False


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with run_name_server(tmp_path / "namesrv") as server:
        one = Shop(tmp_path / "broker", f"{server.host}:{server.port}")
        one.make(TOPIC)
        yield one
        one.close()


@pytest.fixture
def streams(spark: SparkSession, shop: Shop, tmp_path: Path) -> Iterator[Streams]:
    made = Streams(spark, {"nameServer": shop.name_server}, tmp_path)
    yield made
    made.stop()


def test_a_stream_goes_on_when_its_broker_is_back(streams: Streams, shop: Shop) -> None:
    sink = Sink()
    shop.send(0, 20)
    query = streams.start(TOPIC, sink, **AT_ONCE)
    until(lambda: sink.bodies == numbered(0, 20), WITHIN_S)

    shop.take_away()
    until(lambda: not shop.has_route())
    shop.bring_back()
    shop.send(20, 40)

    until(lambda: sink.bodies == numbered(0, 40) or not query.isActive, WITHIN_S)
    assert query.exception() is None
    assert sink.bodies == numbered(0, 40)


@pytest.mark.parametrize("delivery", Delivered)
def test_a_sink_goes_on_when_its_broker_is_back(
    streams: Streams, shop: Shop, tmp_path: Path, delivery: Delivered
) -> None:
    target = f"To-{delivery}"
    shop.make(target)
    shop.send(0, 20)
    frame = streams.frame(TOPIC, **AT_ONCE, maxOffsetsPerTrigger=5).select("body")
    options = {"nameServer": shop.name_server, "topic": target, "delivery": str(delivery)}
    writer = frame.writeStream.format("rocketmq").options(**options, retries="0")
    query = streams.started(writer.option("checkpointLocation", str(tmp_path / "sunk")))
    until(lambda: shop.has(target, 5) or not query.isActive, WITHIN_S)

    shop.take_away()
    until(lambda: not shop.has_route())
    shop.bring_back()
    shop.send(20, 40)

    until(lambda: shop.has(target, 40) or not query.isActive, WITHIN_S)
    assert query.exception() is None
    seen = shop.bodies(target)
    assert set(seen) == set(numbered(0, 40))
    assert delivery is Delivered.AT_LEAST_ONCE or len(seen) == 40


@pytest.mark.parametrize("delivery", Delivered)
def test_a_batch_waits_for_a_broker_that_was_away_before_it_began(
    spark: SparkSession, shop: Shop, delivery: Delivered
) -> None:
    """A transactional one makes its ledger then."""
    shop.take_away()
    until(lambda: not shop.has_route())
    rows = spark.createDataFrame([(body,) for body in numbered(0, 20)], "body binary")
    options = {"nameServer": shop.name_server, "topic": TOPIC, "delivery": str(delivery)}
    writer = rows.write.format("rocketmq").options(**options, retries="0").mode("append")

    with ThreadPoolExecutor(1) as others:
        back = others.submit(_bring_back_when_tasks_wait, spark, shop)
        writer.save()

    back.result()
    assert shop.bodies(TOPIC) == numbered(0, 20)


def _bring_back_when_tasks_wait(spark: SparkSession, shop: Shop) -> None:
    tracker = spark.sparkContext.statusTracker()

    def has_tasks() -> bool:
        stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
        return any(stage is not None and stage.numActiveTasks for stage in stages)

    until(has_tasks, WITHIN_S)
    time.sleep(AWAY_S)
    shop.bring_back()


def test_a_stream_whose_broker_stays_away_ends_and_says_how_long_it_waited(
    streams: Streams, shop: Shop
) -> None:
    sink = Sink()
    shop.send(0, 20)
    query = streams.start(TOPIC, sink, **AT_ONCE, brokerWaitMs=500)
    until(lambda: sink.bodies == numbered(0, 20), WITHIN_S)

    shop.take_away()

    with pytest.raises(StreamingQueryException, match=r"after 0\.5 s \(brokerWaitMs\)"):
        query.awaitTermination(int(DEADLINE_S))


def test_a_topic_that_never_was_is_told_at_once(streams: Streams, shop: Shop) -> None:
    query = streams.start("Nowhere", Sink(), **AT_ONCE, brokerWaitMs=600_000)

    with pytest.raises(StreamingQueryException, match="knows the topic Nowhere"):
        query.awaitTermination(int(DEADLINE_S))
