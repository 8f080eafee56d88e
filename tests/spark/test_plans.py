"""Plans begin and end where the query would."""

import time
from typing import TYPE_CHECKING

from emberq.pipelines.backlog import Backlog, backlog_of
from emberq.pipelines.transform import Transform
from tests.spark.cluster import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def planned(spark: "SparkSession", topics: Topics, topic: str, **options: str) -> Backlog:
    source = {**topics.options, "subscribe": topic, **options}
    return backlog_of(spark, source, None, is_sized=True)


def test_ends_by_time_and_by_offset_bound_a_plan(spark: "SparkSession", topics: Topics) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, [b"x" * 100] * 4)
    time.sleep(0.01)  # the clock moves on
    middle = str(time.time_ns() // 1_000_000)
    topics.send(topic, [b"x" * 100] * 3)

    since = planned(spark, topics, topic, startingTimestamp=middle)
    until = planned(spark, topics, topic, endingTimestamp=middle)
    none = planned(spark, topics, topic, startingOffsets="latest")

    assert [(each.first, each.end) for each in since.by_queue] == [(4, 7)]
    assert [(each.first, each.end) for each in until.by_queue] == [(0, 4)]
    assert 3 * 100 < since.facts()["bytes, about"] < until.facts()["bytes, about"] < 4 * 400
    assert since.facts()["begins with"].startswith("the first messages since 2")
    assert until.facts()["ends with"].startswith("the last messages before 2")
    assert none.rows == 0


def test_endpoints_are_a_connection_not_an_end(spark: "SparkSession", topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, [b"1", b"2"])

    found = backlog_of(spark, {"endpoints": topics.cluster.name_server, "subscribe": topic}, None)

    assert found.rows == 2


def test_what_a_transformation_of_two_topics_has_read_is_not_planned_again(
    spark: "SparkSession", topics: Topics, tmp_path: object
) -> None:
    first, second, target = topics.make("-a"), topics.make("-b"), topics.make("-out")
    topics.send(first, [b"1"] * 5)
    topics.send(second, [b"2"] * 3)
    job = Transform(
        topics=f"{first},{second}",
        sql=f"SELECT body FROM `{first}` UNION ALL SELECT body FROM `{second}`",
        to_topic=target,
        checkpoint=f"{tmp_path}/checkpoint",
        name_server=topics.cluster.name_server,
    )
    assert job.plan(spark).facts["messages"] == 8
    job.run(spark)
    topics.send(first, [b"3"])

    report = job.plan(spark)

    assert report.facts["begins with"] == "where the checkpoint says"
    assert report.facts["messages"] == 1
