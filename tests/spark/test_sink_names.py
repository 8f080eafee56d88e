"""Names of batch writes: what two writes under one name come to, and rows that no text is in.

What runs in tasks and on the driver is called directly where Spark has no part in it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from emberq.errors import ClientError, MessageRefused
from emberq.spark.row_sending import Task
from emberq.spark.sink import Delivery, _delivery
from emberq.spark.sink_options import parse_sink
from tests.spark.cluster import Topics
from tests.support.topic_content import bodies_of, messages_of


def rows(bodies: Sequence[str], **columns: Sequence[Any]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"body": list(bodies), **columns})])


def sink(topics: Topics, delivery: str, **options: str) -> Delivery:
    return _delivery(parse_sink({**topics.options, "delivery": delivery, **options}))


def write(topics: Topics, bodies: Sequence[str], *, name: str, **options: str) -> None:
    """As a batch write does that has a name."""
    one = sink(topics, "transactional", sinkId=name, **options)
    half = len(bodies) // 2
    one.commit(
        [
            one.write(rows(some), Task(name, 0, partition))
            for partition, some in enumerate((bodies[:half], bodies[half:]))
        ]
    )


def seen(topics: Topics, topic: str) -> list[str]:
    return sorted(body for own in bodies_of(topics.cluster.name_server, topic) for body in own)


def save(frame: DataFrame, topics: Topics, topic: str | None = None, **options: str) -> None:
    writer = frame.write.format("rocketmq").mode("append").options(**topics.options, **options)
    writer.save(topic)


# Names


def test_a_name_is_good_for_one_write_to_each_topic(spark: SparkSession, topics: Topics) -> None:
    """As when `foreachBatch` writes two frames under the name of its batch."""
    orders, audit = topics.make("-orders"), topics.make("-audit")
    frame = spark.range(0, 20, 1, 2).selectExpr("cast(id AS string) AS body")
    options = {"delivery": "transactional", "sinkId": topics.name()}

    for _ in range(2):
        save(frame, topics, orders, **options)
        save(frame.where("body < '15'"), topics, audit, **options)

    assert len(seen(topics, orders)) == 20
    assert len(seen(topics, audit)) == 7


def test_a_name_that_is_used_for_other_rows_is_told_and_none_of_them_is_seen(
    topics: Topics,
) -> None:
    topic, name = topics.make(), topics.name()
    write(topics, ["a", "b", "c"], name=name, topic=topic)

    with pytest.raises(
        ClientError, match=f"was committed with 3 rows for {topic}, and this write has 2 rows"
    ):
        write(topics, ["d", "e"], name=name, topic=topic)

    assert seen(topics, topic) == ["a", "b", "c"]


def test_a_job_under_a_name_that_is_used_fails(spark: SparkSession, topics: Topics) -> None:
    topic, name = topics.make(), topics.name()
    write(topics, ["a", "b", "c"], name=name, topic=topic)

    with pytest.raises(PySparkException, match="Give each write a sinkId of its own"):
        save(spark.sql("SELECT 'x' AS body"), topics, topic, delivery="transactional", sinkId=name)

    assert seen(topics, topic) == ["a", "b", "c"]


def test_of_two_drivers_under_one_name_the_second_is_told_that_its_rows_are_others(
    topics: Topics,
) -> None:
    topic, name = topics.make(), topics.name()
    one = sink(topics, "transactional", sinkId=name, topic=topic)
    late = one.write(rows(["late"]), Task(name, 0, 0))
    write(topics, ["a", "b"], name=name, topic=topic)

    with pytest.raises(ClientError, match="this write has 1 rows"):
        one.commit([late])

    assert seen(topics, topic) == ["a", "b"]


def test_rows_that_name_their_topics_are_compared_by_them(topics: Topics) -> None:
    orders, audit, name = topics.make("-orders"), topics.make("-audit"), topics.name()
    one = sink(topics, "transactional", sinkId=name)

    def copy(*targets: str) -> None:
        bodies = [str(number) for number, _ in enumerate(targets)]
        one.commit([one.write(rows(bodies, topic=list(targets)), Task(name, 0, 0))])

    copy(orders, orders, audit)
    copy(audit, orders, orders)  # in another order
    with pytest.raises(ClientError, match="3 rows for"):
        copy(audit, audit, audit)

    assert (len(seen(topics, orders)), len(seen(topics, audit))) == (2, 1)


def test_a_write_that_was_committed_before_names_had_topics_is_not_written_again(
    topics: Topics,
) -> None:
    orders, audit, name = topics.make("-orders"), topics.make("-audit"), topics.name()
    before: Any = sink(topics, "transactional", topic=orders)  # its key has no topic
    staged = before.write(rows(["a", "b"]), Task(name, 0, 0))
    staged.rows.clear()  # nor had it rows
    before.commit([staged])

    write(topics, ["a", "b"], name=name, topic=orders)
    write(topics, ["c"], name=name, topic=audit)

    assert seen(topics, orders) == ["a", "b"]
    assert seen(topics, audit) == ["c"]


# Texts


@pytest.mark.parametrize("delivery", ["at-least-once", "idempotent", "transactional"])
def test_a_text_that_is_not_utf8_is_told_with_its_row_and_column(
    spark: SparkSession, topics: Topics, delivery: str
) -> None:
    frame = spark.range(0, 3, 1, 1).selectExpr(
        "cast(id AS string) AS body", "cast(if(id = 2, X'FF', X'41') AS string) AS tags"
    )

    with pytest.raises(PySparkException, match="row 2 has no UTF-8 text in its column tags"):
        save(frame, topics, topics.make(), delivery=delivery)


@pytest.mark.parametrize("delivery", ["at-least-once", "idempotent", "transactional"])
def test_a_body_may_be_any_bytes(topics: Topics, delivery: str) -> None:
    topic = topics.make()
    one = sink(topics, delivery, topic=topic)
    texts = pa.array([b"a\xff"])
    body = pa.StringArray.from_buffers(1, *texts.buffers()[1:])

    one.commit([one.write(iter([pa.RecordBatch.from_pydict({"body": body})]), Task("w", 0, 0))])

    found = messages_of(topics.cluster.name_server, topic)
    assert [message.body for own in found for message in own] == [b"a\xff"]


def test_a_topic_that_is_not_utf8_is_told(topics: Topics) -> None:
    texts = pa.array([b"\xff"])
    topic = pa.StringArray.from_buffers(1, *texts.buffers()[1:])

    with pytest.raises(MessageRefused, match="row 0 has no UTF-8 text in its column topic"):
        sink(topics, "at-least-once").write(rows(["x"], topic=topic), Task("w", 0, 0))


# Keys


def test_messages_of_a_large_batch_of_rows_have_ids_of_their_own(topics: Topics) -> None:
    topic, count = topics.make(), 70_000  # more than the last 16 bits of an id tell apart
    bodies = ["x"] * count

    sink(topics, "at-least-once", topic=topic, ids="false").write(rows(bodies), Task("w", 0, 0))

    found = messages_of(topics.cluster.name_server, topic)
    assert len({message.message_id for own in found for message in own}) == count
