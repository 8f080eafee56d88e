"""Batches that become visible as a whole, whoever is killed on the way.

What runs in tasks and on the driver is called directly here; Spark itself is in the last tests.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from emberq.errors import EmberqError
from emberq.spark.row_sending import Task
from emberq.spark.sink_options import parse_sink
from emberq.spark.staged_halves import Staged
from emberq.spark.transactional_delivery import TransactionalDelivery
from tests.spark.cluster import Topics
from tests.spark.repeated_batches import copy_twice
from tests.support.topic_content import bodies_of


def rows(bodies: Sequence[str], **columns: Sequence[Any]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"body": list(bodies), **columns})])


def bodies_in(topics: Topics, topic: str) -> list[str]:
    """By queue, in order."""
    return [body for own in bodies_of(topics.cluster.name_server, topic) for body in own]


@pytest.fixture
def topic(topics: Topics) -> str:
    return topics.make(queues=2)


@pytest.fixture
def delivery(topics: Topics, topic: str) -> TransactionalDelivery:
    return TransactionalDelivery(
        parse_sink({**topics.options, "topic": topic, "delivery": "transactional"})
    )


def two_writes(delivery: TransactionalDelivery, name: str, batch: int = 0) -> list[Staged]:
    return [
        delivery.write(rows(["a", "b", "c"], shardingKey=["k", "k", "k"]), Task(name, batch, 0)),
        delivery.write(rows(["d", "e"]), Task(name, batch, 1)),
    ]


def test_nothing_is_visible_before_the_commit_and_everything_behind_it(
    delivery: TransactionalDelivery, topics: Topics, topic: str
) -> None:
    staged = two_writes(delivery, topic)
    assert bodies_in(topics, topic) == []

    delivery.commit(staged)

    found = bodies_in(topics, topic)
    assert sorted(found) == ["a", "b", "c", "d", "e"]
    assert [body for body in found if body in "abc"] == ["a", "b", "c"]


def test_a_commit_that_is_repeated_changes_nothing(
    delivery: TransactionalDelivery, topics: Topics, topic: str
) -> None:
    staged = two_writes(delivery, topic)
    delivery.commit(staged)

    delivery.commit(staged)

    assert sorted(bodies_in(topics, topic)) == ["a", "b", "c", "d", "e"]


def test_a_batch_that_is_repeated_behind_its_commit_stages_nothing(
    delivery: TransactionalDelivery, topics: Topics, topic: str
) -> None:
    delivery.commit(two_writes(delivery, topic))

    again = two_writes(delivery, topic)
    delivery.commit(again)

    assert [staged.count for staged in again] == [0, 0]
    assert sorted(bodies_in(topics, topic)) == ["a", "b", "c", "d", "e"]


def test_of_two_drivers_the_first_counts(
    delivery: TransactionalDelivery, topics: Topics, topic: str
) -> None:
    one, two = two_writes(delivery, topic), two_writes(delivery, topic)
    delivery.commit(two)

    delivery.commit(one)

    assert sorted(bodies_in(topics, topic)) == ["a", "b", "c", "d", "e"]


def test_what_was_aborted_is_never_seen_and_the_batch_can_be_written_again(
    delivery: TransactionalDelivery, topics: Topics, topic: str
) -> None:
    given_up = two_writes(delivery, topic)
    delivery.abort(given_up)

    with pytest.raises(EmberqError, match="was given up"):
        delivery.commit(given_up)
    assert bodies_in(topics, topic) == []
    delivery.commit(two_writes(delivery, topic))

    assert sorted(bodies_in(topics, topic)) == ["a", "b", "c", "d", "e"]


def test_an_abort_behind_the_commit_takes_nothing_back(
    delivery: TransactionalDelivery, topics: Topics, topic: str
) -> None:
    staged = two_writes(delivery, topic)
    delivery.commit(staged)

    delivery.abort(staged)

    assert sorted(bodies_in(topics, topic)) == ["a", "b", "c", "d", "e"]


def test_a_task_that_fails_drops_what_it_staged(
    delivery: TransactionalDelivery, topics: Topics, topic: str
) -> None:
    with pytest.raises(EmberqError, match="has no body"):
        delivery.write(
            iter([*rows(["a"]), *rows([None])]),  # type: ignore[list-item]
            Task(topic, 0, 0),
        )
    delivery.commit(two_writes(delivery, topic))

    assert sorted(bodies_in(topics, topic)) == ["a", "b", "c", "d", "e"]


# Through Spark


def test_a_batch_write_under_one_name_is_written_once(
    spark: SparkSession, topics: Topics, topic: str
) -> None:
    frame = spark.range(0, 500, 1, 3).selectExpr("cast(id AS string) AS body")
    options = {**topics.options, "delivery": "transactional", "sinkId": topic}

    for _ in range(2):
        frame.write.format("rocketmq").mode("append").options(**options).save(topic)

    assert sorted(map(int, bodies_in(topics, topic))) == list(range(500))


def test_a_stream_whose_batch_is_repeated_writes_it_once(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    source = topics.make("-from")
    topics.send(source, [b"%d" % number for number in range(50)])

    copy_twice(spark, topics.options, source, topic, tmp_path, delivery="transactional")

    assert sorted(map(int, bodies_in(topics, topic))) == list(range(50))


def test_a_job_that_fails_leaves_nothing_to_be_seen(
    spark: SparkSession, topics: Topics, topic: str
) -> None:
    frame = spark.range(0, 20, 1, 2).selectExpr("if(id = 15, null, cast(id AS string)) AS body")
    writer = frame.write.format("rocketmq").mode("append").options(**topics.options)

    with pytest.raises(PySparkException, match="has no body"):
        writer.option("delivery", "transactional").save(topic)

    assert bodies_in(topics, topic) == []
