"""Plans begin and end where the query would, and refuse what it would refuse."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from emberq.errors import ConfigError, EmberqError, PipelineError
from emberq.pipelines.archive import Archive
from emberq.pipelines.backlog import Backlog, backlog_of
from emberq.pipelines.dead_letters import DeadLetters
from emberq.pipelines.job import Job
from emberq.pipelines.replay import Replay
from emberq.pipelines.stats import Stats
from emberq.pipelines.transform import Transform
from emberq.pipelines.verify import Verify
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
    spark: "SparkSession", topics: Topics, tmp_path: Path
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


def refused(job: Job, spark: "SparkSession", kind: type[EmberqError], message: str) -> None:
    for step in (job.plan, job.run):
        with pytest.raises(kind, match=message):
            step(spark)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": {"endingTimestamp": "2026-01-01"}}, "endingTimestamp: a stream has no end"),
        ({"source": {"store": "store"}}, "a store directory does not grow"),
        ({"source": {"view": "offsets"}}, "the view offsets is a snapshot"),
        ({"sql": "SELECT body, tags AS tag FROM {topic}"}, "the sink knows no column 'tag'"),
        ({"sql": "SELECT tags FROM {topic}"}, "a message needs a column body"),
        ({"to_topic": ""}, "give the option topic, or a column topic"),
        ({"sink": {"delivery": "idempotent", "sinkId": "a"}}, "sinkId is for batches"),
        ({"source": {"startingOffsets": '{"nowhere": {"b": {"0": 1}}}'}}, "there is no nowhere"),
        ({"source": {"consumerGroup": "new", "startingOffsets": "group"}}, "has no offsets here"),
    ],
)
def test_a_transformation_is_refused_by_its_plan(
    spark: "SparkSession", topics: Topics, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    topic = topics.make()
    given = {"sql": "SELECT body FROM {topic}", "to_topic": topics.make("-out"), **options}
    given["sql"] = given["sql"].format(topic=f"`{topic}`")
    job = Transform(
        topics=topic,
        checkpoint=str(tmp_path / "checkpoint"),
        name_server=topics.cluster.name_server,
        **given,
    )

    refused(job, spark, EmberqError, message)


def test_a_result_that_is_no_stream_is_refused_by_its_plan(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    job = Transform(
        topics=topics.make(),
        sql="SELECT 'a' AS body",
        to_topic=topics.make("-out"),
        checkpoint=str(tmp_path / "checkpoint"),
        name_server=topics.cluster.name_server,
    )

    refused(job, spark, PipelineError, "the result does not come from the topics")


def test_statistics_that_run_on_are_refused_an_end_by_their_plan(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    job = Stats(
        topics=topics.make(),
        every="1s",
        path=str(tmp_path / "windows"),
        source={"endingTimestamp": "2026-01-01"},
        name_server=topics.cluster.name_server,
    )

    with pytest.raises(ConfigError, match="a stream has no end"):
        job.plan(spark)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to_topic": "no such topic!"}, "no such topic!"),
        ({"sink": {"delivery": "once"}}, "delivery='once'"),
        ({"sink": {"delivery": "idempotent", "sinkId": "a"}, "every": "1s"}, "sinkId is for batch"),
    ],
)
def test_statistics_for_a_topic_are_refused_before_anything_is_written(
    spark: "SparkSession", tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    windows = tmp_path / "windows"
    place = {"checkpoint" if "every" in options else "path": str(windows)}
    given = {"to_topic": "windows", "name_server": "127.0.0.1:1", **place, **options}

    refused(Stats(topics="orders", **given), spark, ConfigError, message)

    assert not windows.exists()


def test_jobs_of_an_archive_are_refused_by_their_plans(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic, bare = topics.make(), str(tmp_path / "bare")
    topics.send(topic, [b"1"])
    place: dict[str, Any] = {"name_server": topics.cluster.name_server}
    Archive(topics=topic, path=bare, columns="keys", **place).run(spark)

    refused(Replay(path=bare, **place), spark, ConfigError, "a message needs a column body")
    refused(
        Replay(path=bare, sink={"delivery": "once"}, **place), spark, ConfigError, "delivery='once'"
    )
    refused(
        Verify(topics=topic, path=bare, bodies=True, **place), spark, ConfigError, "no column body"
    )
    nowhere = Verify(topics=topic, path=str(tmp_path / "none"), **place)
    refused(nowhere, spark, PipelineError, "there is no parquet table with messages")


def test_a_condition_on_dead_letters_is_refused_by_the_plan(
    spark: "SparkSession", topics: Topics
) -> None:
    job = DeadLetters(groups="g", where="tagz = 'a'", name_server=topics.cluster.name_server)

    refused(job, spark, PipelineError, "tagz")
