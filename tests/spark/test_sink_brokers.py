"""Topics that lie on two brokers: every delivery writes to both, and a batch is one batch."""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from emberq.client.core.received import ReceivedMessage
from emberq.errors import BrokerNotFound
from emberq.spark.row_sending import Task
from emberq.spark.sink import _delivery
from emberq.spark.sink_options import parse_sink
from emberq.spark.transactional_delivery import TransactionalDelivery
from tests.spark.repeated_batches import copy_twice
from tests.spark.two_brokers import BROKERS, TwoBrokers, running_two_brokers
from tests.support.topic_content import messages_of

DELIVERIES = ("at-least-once", "idempotent", "transactional")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBrokers]:
    with running_two_brokers(tmp_path_factory.mktemp("brokers")) as running:
        yield running


@pytest.fixture
def topic(brokers: TwoBrokers, request: pytest.FixtureRequest) -> str:
    number = sum(map(ord, request.node.name))
    return brokers.make(f"{request.function.__name__[:60]}-{number}")


def rows(bodies: Sequence[str], **columns: Sequence[Any]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"body": list(bodies), **columns})])


def by_queue(brokers: TwoBrokers, topic: str) -> list[list[ReceivedMessage]]:
    return messages_of(brokers.name_server, topic)


def counted(brokers: TwoBrokers, topic: str) -> Counter[str]:
    return Counter(message.text() for own in by_queue(brokers, topic) for message in own)


def holders(brokers: TwoBrokers, topic: str) -> set[str]:
    """Brokers that have messages of a topic."""
    return {own[0].queue.broker_name for own in by_queue(brokers, topic) if own}


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_rows_go_to_every_queue_and_those_of_a_key_to_one(
    brokers: TwoBrokers, topic: str, delivery: str
) -> None:
    options = parse_sink({**brokers.options, "topic": topic, "delivery": delivery})
    letters = [f"{number:03}" for number in range(400)]
    keys = [f"key-{number % 16}" for number in range(400)]
    one = _delivery(options)

    for batch in range(4):  # small ones, as streams have them
        free = one.write(rows([f"free-{batch}"] * 20), Task(topic, batch, 0))
        tied = one.write(rows(letters, shardingKey=keys), Task(topic, batch, 1))
        one.commit([free, tied])

    queues = by_queue(brokers, topic)
    assert len(queues) == 4
    for own in queues:
        assert any(message.text().startswith("free") for message in own)
    for key in set(keys):
        holders = [
            [each.text() for each in own if each.properties.get("__SHARDINGKEY") == key]
            for own in queues
        ]
        [held] = [texts for texts in holders if texts]
        assert held == [text for text, k in zip(letters, keys, strict=True) if k == key] * 4


@pytest.mark.parametrize("delivery", ["idempotent", "transactional"])
def test_a_batch_that_is_repeated_is_stored_once_on_both_brokers(
    brokers: TwoBrokers, topic: str, delivery: str
) -> None:
    given = {**brokers.options, "topic": topic, "delivery": delivery}
    one = _delivery(parse_sink({**given, "brokers": ",".join(BROKERS)}))
    bodies = [f"{number:04}" for number in range(2500)]  # three pieces

    for _ in range(2):
        one.commit([one.write(rows(bodies), Task(topic, 0, 0))])

    assert counted(brokers, topic) == Counter(bodies)
    assert holders(brokers, topic) == set(BROKERS)


def test_a_stream_of_two_brokers_whose_batch_is_repeated_writes_it_once(
    spark: SparkSession, brokers: TwoBrokers, topic: str, tmp_path: Path
) -> None:
    source = brokers.make(f"{topic}-from", queues=1)
    bodies = [f"{number:03}" for number in range(200)]
    keys = [f"key-{number % 16}" for number in range(200)]
    plain = _delivery(parse_sink({**brokers.options, "topic": source}))
    plain.write(rows(bodies, shardingKey=keys), Task(source, 0, 0))

    of_sink = {"delivery": "transactional", "brokers": ",".join(BROKERS)}
    copy_twice(spark, brokers.options, source, topic, tmp_path, **of_sink)

    assert counted(brokers, topic) == Counter(bodies)


def transactional(brokers: TwoBrokers, topic: str, **options: str) -> TransactionalDelivery:
    given = {**brokers.options, "topic": topic, "delivery": "transactional", **options}
    return TransactionalDelivery(parse_sink(given))


@pytest.mark.parametrize("victim", BROKERS)
def test_a_batch_is_whole_though_a_broker_is_killed_around_its_commit(
    brokers: TwoBrokers, topic: str, victim: str
) -> None:
    delivery = transactional(brokers, topic)
    keys = [f"key-{number % 16}" for number in range(60)]
    bodies = [f"{number:02}" for number in range(60)]
    staged = delivery.write(rows(bodies, shardingKey=keys), Task(topic, 0, 0))
    assert {queue.broker_name for queue in staged.halves} == set(BROKERS)

    brokers.kill(victim)
    with ThreadPoolExecutor(1) as thread:
        commit = thread.submit(delivery.commit, [staged])
        brokers.start(victim)
        commit.result()
    brokers.kill(victim)
    brokers.start(victim)
    delivery.commit([staged])  # as who repeats the batch

    assert counted(brokers, topic) == Counter(bodies)


@pytest.mark.parametrize("delivery", ["idempotent", "transactional"])
def test_a_write_waits_for_the_brokers_that_it_was_told_of(
    brokers: TwoBrokers, topic: str, delivery: str
) -> None:
    named = f"{BROKERS[0]},broker-z"
    given = {**brokers.options, "topic": topic, "delivery": delivery, "brokers": named}
    one = _delivery(parse_sink({**given, "retries": "0", "brokerWaitMs": "0"}))

    with pytest.raises(BrokerNotFound, match="broker-z cannot take messages"):
        one.write(rows(["a"]), Task(topic, 0, 0))
