"""The Spark sink's deliveries on official brokers: what tasks and drivers run, without a JVM."""

from collections.abc import Callable, Iterator, Sequence
from uuid import uuid4

import pyarrow as pa
import pytest

from emberq import Producer
from emberq.errors import ConfigError
from emberq.spark.idempotent_delivery import IdempotentDelivery
from emberq.spark.row_sending import Task
from emberq.spark.sink_options import SinkOptions, parse_sink
from emberq.spark.staged_halves import Staged
from emberq.spark.transactional_delivery import TransactionalDelivery
from tests.client_behaviour.server import Server
from tests.interop.harness.artifacts import LINES, Line
from tests.interop.harness.waiting import eventually
from tests.support.topic_content import bodies_of

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

DEADLINE_S = 60.0
ROWS = [f"{number:03}" for number in range(100)]


@pytest.fixture(
    params=[
        pytest.param(line, id=line.name, marks=[] if line.is_v5 else [pytest.mark.slow])
        for line in LINES
    ]
)
def server(behaving: Callable[[Line | None], Server], request: pytest.FixtureRequest) -> Server:
    return behaving(request.param)


@pytest.fixture
def topic(server: Server) -> str:
    name = f"Delivered{uuid4().hex[:8]}"
    with Producer("deliveries", name_server=server.name_server) as producer:
        producer.create_topic(name, queues=2)
    return name


def sink(server: Server, topic: str, delivery: str) -> SinkOptions:
    return parse_sink({"nameServer": server.name_server, "topic": topic, "delivery": delivery})


def rows(bodies: Sequence[str]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"body": list(bodies)})])


def found(server: Server, topic: str) -> list[str]:
    return sorted(body for own in bodies_of(server.name_server, topic) for body in own)


def two_writes(delivery: TransactionalDelivery, name: str) -> list[Staged]:
    return [
        delivery.write(rows(ROWS[:60]), Task(name, 0, 0)),
        delivery.write(rows(ROWS[60:]), Task(name, 0, 1)),
    ]


def test_a_batch_is_seen_behind_its_commit_and_once_though_it_is_repeated(
    server: Server, topic: str
) -> None:
    delivery = TransactionalDelivery(sink(server, topic, "transactional"))
    staged = two_writes(delivery, topic)
    assert found(server, topic) == []

    delivery.commit(staged)
    eventually(lambda: found(server, topic), lambda seen: seen == ROWS, DEADLINE_S)
    delivery.commit(two_writes(delivery, topic))

    assert found(server, topic) == ROWS


def test_a_batch_that_was_given_up_is_never_seen(server: Server, topic: str) -> None:
    delivery = TransactionalDelivery(sink(server, topic, "transactional"))
    delivery.abort(two_writes(delivery, topic))

    delivery.commit(two_writes(delivery, topic))

    eventually(lambda: found(server, topic), lambda seen: seen == ROWS, DEADLINE_S)


def test_ids_that_only_our_brokers_know_are_refused_before_a_row_is_sent(
    server: Server, topic: str
) -> None:
    delivery = IdempotentDelivery(sink(server, topic, "idempotent"))

    with pytest.raises(ConfigError, match="delivery"):
        delivery.write(rows(ROWS), Task(topic, 0, 0))

    assert found(server, topic) == []
