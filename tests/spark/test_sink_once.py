"""Rows that brokers store once per id, however often and in whatever order they are sent.

What runs in tasks is called directly here; Spark itself is in the last test.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from emberq.errors import BrokerNotFound, ConfigError, MessageRefused
from emberq.spark.idempotent_delivery import IdempotentDelivery
from emberq.spark.row_sending import Task
from emberq.spark.sink_options import check_sink_columns, parse_sink
from tests.spark.cluster import Topics
from tests.spark.repeated_batches import copy_twice
from tests.support.topic_content import messages_of


def rows(bodies: Sequence[str], **columns: Sequence[Any]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"body": list(bodies), **columns})])


def bodies_in(topics: Topics, topic: str) -> list[str]:
    found = messages_of(topics.cluster.name_server, topic)
    return sorted(message.text() for own in found for message in own)


@pytest.fixture
def topic(topics: Topics) -> str:
    return topics.make(queues=3)


@pytest.fixture
def delivery(topics: Topics, topic: str) -> IdempotentDelivery:
    return once(topics, topic)


def once(topics: Topics, topic: str, **options: str) -> IdempotentDelivery:
    given = {**topics.options, "topic": topic, "delivery": "idempotent", **options}
    return IdempotentDelivery(parse_sink(given))


def test_a_task_that_is_repeated_adds_what_is_missing(
    delivery: IdempotentDelivery, topics: Topics, topic: str
) -> None:
    letters = [f"{number:04}" for number in range(1200)]
    delivery.write(rows(letters[:700]), Task(topic, 0, 0))

    delivery.write(rows(letters), Task(topic, 0, 0))
    delivery.write(rows(letters), Task(topic, 0, 0))

    assert bodies_in(topics, topic) == letters


def test_attempts_that_run_at_the_same_time_store_each_row_once(
    delivery: IdempotentDelivery, topics: Topics, topic: str
) -> None:
    letters = [f"{number:03}" for number in range(300)]

    with ThreadPoolExecutor(6) as threads:
        for _ in threads.map(lambda _: delivery.write(rows(letters), Task(topic, 0, 0)), range(6)):
            pass

    assert bodies_in(topics, topic) == letters


def test_other_batches_partitions_and_writers_have_ids_of_their_own(
    delivery: IdempotentDelivery, topics: Topics, topic: str
) -> None:
    for task in (Task("w", 0, 0), Task("w", 0, 1), Task("w", 1, 0), Task("v", 0, 0)):
        delivery.write(rows(["same"]), task)

    assert bodies_in(topics, topic) == ["same"] * 4


def test_with_ids_of_their_own_rows_may_come_in_any_order_and_batch(
    delivery: IdempotentDelivery, topics: Topics, topic: str
) -> None:
    delivery.write(rows(["a", "b", "c"], id=["1", "2", "3"]), Task("w", 0, 0))
    delivery.write(rows(["c", "a"], id=["3", "1"]), Task("w", 0, 1))
    delivery.write(rows(["b", "d", "d"], id=["2", "4", "4"]), Task("w", 7, 0))

    assert bodies_in(topics, topic) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("missing", [None, ""])
def test_a_row_without_an_id_among_rows_that_have_one_is_refused(
    delivery: IdempotentDelivery, topics: Topics, topic: str, missing: str | None
) -> None:
    with pytest.raises(MessageRefused, match="row 2 has no id"):
        delivery.write(rows(["a", "b", "c"], id=["1", "2", missing]), Task("w", 0, 0))

    assert bodies_in(topics, topic) == []


def test_a_write_waits_for_the_brokers_that_it_was_told_of(topics: Topics, topic: str) -> None:
    both = once(topics, topic, brokers="broker-a, broker-z", retries="0", brokerWaitMs="0")

    with pytest.raises(BrokerNotFound, match="broker-z cannot take messages"):
        both.write(rows(["a"]), Task(topic, 0, 0))


@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        ({"ids": "false"}, [], "needs ids=true"),
        ({}, [("delayLevel", "int")], "delivery=idempotent cannot delay"),
        ({"delivery": "once"}, [], "expected one of at-least-once, idempotent, transactional"),
    ],
)
def test_what_makes_no_sense_is_told(
    options: dict[str, str], columns: list[tuple[str, str]], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_sink_columns(
            [("body", "string"), *columns],
            parse_sink({"topic": "t", "delivery": "idempotent", **options}),
        )


def test_a_stream_whose_batch_is_repeated_stores_its_rows_once(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    source = topics.make("-from")
    topics.send(source, [b"%02d" % number for number in range(50)])

    copy_twice(spark, topics.options, source, topic, tmp_path, delivery="idempotent")

    assert bodies_in(topics, topic) == [f"{number:02}" for number in range(50)]
