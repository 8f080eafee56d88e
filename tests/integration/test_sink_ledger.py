"""The ledger of the Spark sink on real brokers, of which one is away or none makes topics."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from emberq import Producer
from emberq.errors import BrokerNotFound, TopicNotFound
from emberq.spark import transactional_delivery
from emberq.spark.ledger_place import LEDGER_TOPIC
from emberq.spark.row_sending import Task
from emberq.spark.sink_options import parse_sink
from emberq.spark.transactional_delivery import TransactionalDelivery
from tests.spark.cluster import Cluster, running_cluster, until
from tests.spark.two_brokers import TwoBrokers, running_two_brokers
from tests.support.topic_content import bodies_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

AT_ONCE = {"retries": "0", "brokerWaitMs": "0"}


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[TwoBrokers]:
    with running_two_brokers(tmp_path) as running:
        yield running


@pytest.fixture
def closed_cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, autoCreateTopicEnable="false") as running:
        yield running


@pytest.fixture
def restarted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Forgets what this process knows of ledgers, as one that begins."""
    return lambda: monkeypatch.setattr(transactional_delivery, "_deliveries", {})


def rows(bodies: Sequence[str], **columns: Sequence[Any]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"body": list(bodies), **columns})])


def sink(name_server: str, **options: str) -> TransactionalDelivery:
    given = {"nameServer": name_server, "delivery": "transactional", **AT_ONCE, **options}
    return TransactionalDelivery(parse_sink(given))


def counted(name_server: str, topic: str) -> Counter[str]:
    return Counter(body for own in bodies_of(name_server, topic) for body in own)


def holders(name_server: str) -> set[str]:
    """Brokers that have a ledger and are there."""
    with Producer("lookers", name_server=name_server) as producer:
        try:
            return {queue.broker_name for queue in producer.queues_of(LEDGER_TOPIC)}
        except TopicNotFound:
            return set()


def test_while_the_ledger_is_away_no_query_makes_another_and_nothing_comes_twice(
    brokers: TwoBrokers, restarted: Any
) -> None:
    name_server, bodies = brokers.name_server, [f"{number:02}" for number in range(40)]
    topic = brokers.make("orders")
    keys = [f"key-{number}" for number in range(40)]
    first = sink(name_server, topic=topic, producerGroup="first")
    first.commit([first.write(rows(bodies, shardingKey=keys), Task("first", 0, 0))])
    assert holders(name_server) == {"broker-a"}

    brokers.kill("broker-a")
    until(lambda: holders(name_server) == set())
    restarted()
    for writer, batch in (("second", 0), ("first", 0), ("first", 1)):
        with pytest.raises(BrokerNotFound, match=r"broker-a has EMBERQ_SPARK_LEDGER.* is away"):
            sink(name_server, topic=topic).write(rows(["new"]), Task(writer, batch, 0))
    brokers.start("broker-a")
    until(lambda: holders(name_server) == {"broker-a"})
    again = sink(name_server, topic=topic, producerGroup="first")
    again.commit([again.write(rows(bodies, shardingKey=keys), Task("first", 0, 0))])

    assert holders(name_server) == {"broker-a"}
    assert counted(name_server, topic) == Counter(bodies)


def test_rows_that_name_their_topics_need_no_topic_that_makes_others(
    closed_cluster: Cluster,
) -> None:
    name_server = closed_cluster.name_server
    with Producer("makers", name_server=name_server) as producer:
        for topic in ("one", "two"):
            producer.create_topic(topic, queues=1, template_topic="DefaultCluster")
    delivery = sink(name_server)

    staged = delivery.write(rows(["a", "b"], topic=["one", "two"]), Task("query", 0, 0))
    delivery.commit([staged])

    assert [counted(name_server, topic) for topic in ("one", "two")] == [{"a": 1}, {"b": 1}]


def test_a_query_that_was_not_transactional_so_far_is_told_what_to_do_and_goes_on(
    closed_cluster: Cluster,
) -> None:
    name_server = closed_cluster.name_server
    with Producer("makers", name_server=name_server) as producer:
        producer.create_topic("one", queues=1, template_topic="DefaultCluster")
        delivery = sink(name_server, topic="one")
        with pytest.raises(BrokerNotFound, match="was not transactional so far"):
            delivery.write(rows(["a"]), Task("query", 7, 0))

        producer.create_topic(LEDGER_TOPIC, queues=1, template_topic="DefaultCluster")
    delivery.commit([delivery.write(rows(["a"]), Task("query", 7, 0))])

    assert counted(name_server, "one") == {"a": 1}
