"""The jobs `stats` and `lag`, end to end, and times of rows that come to the driver."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from emberq.pipelines.lag import Lag
from emberq.pipelines.stats import Stats
from emberq.pipelines.times import collect_utc
from emberq.spark.broker_place import BrokerPlace
from emberq.spark.options import parse_source
from tests.spark.cluster import Topics, until
from tests.spark.zones import SUMMER, WINTER, driver_in, micros

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MINUTE = timedelta(minutes=1)


def messages(spark: "SparkSession", *rows: tuple[str, datetime]) -> "DataFrame":
    """As the source reads them: topic and store time."""
    frame = spark.createDataFrame(
        [(topic, micros(moment)) for topic, moment in rows], "topic string, at bigint"
    )
    return frame.selectExpr(
        *("topic", "'tag' AS tags", "timestamp_micros(at - 5000) AS bornTimestamp"),
        *("timestamp_micros(at) AS storeTimestamp", "100 AS size"),
    )


def stats(topics: Topics, topic: str, **options: Any) -> Stats:
    return Stats(topics=topic, name_server=topics.cluster.name_server, **options)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kolkata"])
def test_times_come_to_the_driver_in_utc_wherever_it_is(zone: str, spark: "SparkSession") -> None:
    frame = messages(spark, ("a", SUMMER), ("b", WINTER)).selectExpr(
        "topic", "storeTimestamp", "max(storeTimestamp) OVER ()", "CAST(NULL AS timestamp) AS none"
    )

    with driver_in(zone):
        rows = collect_utc(frame.orderBy("topic"))

    assert [tuple(row) for row in rows] == [
        ("a", SUMMER, WINTER, None),
        ("b", WINTER, WINTER, None),
    ]
    assert rows[0]["storeTimestamp"].utcoffset() == timedelta(0)


def test_windows_of_the_night_in_which_clocks_are_put_back_stay_two(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    target = topics.make("-windows", queues=1)
    night = messages(spark, ("orders", SUMMER), ("orders", WINTER), ("orders", WINTER))
    job = stats(
        topics,
        "orders",
        path=str(tmp_path / "windows"),
        to_topic=target,
        report=str(tmp_path / "report.html"),
    )

    with driver_in("Europe/Berlin"):
        report = job.summed_up(night)
        shown = json.loads(msgspec.json.encode(report))

    expected = [("2026-10-25T00:30:00Z", 1), ("2026-10-25T01:30:00Z", 2)]
    assert [(row[0], row[2]) for row in shown["tables"][0]["rows"]] == expected
    assert (shown["facts"]["first"], shown["facts"]["last"]) == tuple(at for at, _ in expected)
    written = spark.read.parquet(str(tmp_path / "windows")).selectExpr(
        "unix_micros(windowStart)", "unix_micros(windowEnd)", "messages"
    )
    assert sorted(tuple(row) for row in written.collect()) == [
        (micros(SUMMER), micros(SUMMER + MINUTE), 1),
        (micros(WINTER), micros(WINTER + MINUTE), 2),
    ]
    sent = spark.read.format("rocketmq").options(**topics.options).load(target).collect()
    bodies = [json.loads(bytes(row["body"])) for row in sent]
    begins = [datetime.fromisoformat(body["windowStart"]) for body in bodies]
    assert sorted(begins) == [SUMMER, WINTER]
    page = (tmp_path / "report.html").read_text()
    assert "2026-10-25 00:30:00Z" in page
    assert "2026-10-25 01:30:00Z" in page
    assert "2026-10-25 UTC" in page


def test_a_dry_run_of_stats_counts_what_the_run_would(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, [b"early"] * 3)
    moment = after_now()
    topics.send(topic, [b"late"] * 2)

    since, before = (
        stats(topics, topic, since=moment).plan(spark),
        stats(topics, topic, until=moment).plan(spark),
    )
    running = stats(topics, topic, since=moment, every="1s", path=str(tmp_path)).plan(spark)

    assert [each.facts["messages"] for each in (since, before, running)] == [2, 3, 2]
    assert since.tables[0].rows[0][3:6] == [3, 5, 2]


def after_now() -> str:
    """A time after all that has been stored, and before all that will be, in ISO form."""
    moment = datetime.now(UTC) + timedelta(milliseconds=5)
    until(lambda: datetime.now(UTC) > moment + timedelta(milliseconds=5))
    return moment.isoformat()


def test_stats_that_run_on_begin_where_they_are_told_and_show_the_newest_windows(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, [b"early"] * 7)
    moment = after_now()
    page = tmp_path / "report.html"
    job = stats(
        topics,
        topic,
        since=moment,
        report=str(page),
        path=str(tmp_path / "windows"),
        window="100ms",
        late="1ms",
        every="200ms",
    )

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(job.run, spark)
        try:

            def is_shown() -> bool:
                topics.send(topic, [b"late"])  # windows are complete when later messages are there
                return page.exists() and f"<td>{topic}</td>" in page.read_text()

            until(lambda: running.done() or is_shown())
        finally:
            for query in spark.streams.active:
                query.stop()
        report = running.result()

    written = spark.read.parquet(str(tmp_path / "windows")).collect()
    [table] = report.tables
    assert len(table.rows) == len(written)
    assert report.facts["messages"] == sum(row["messages"] for row in written)
    starts = [row[0] for row in table.rows]
    assert starts == sorted(starts, reverse=True)
    assert starts[-1] > datetime.fromisoformat(moment) - timedelta(milliseconds=100)
    assert "Messages per window" in page.read_text()


def test_a_group_without_offsets_has_no_lag_and_is_told_of(
    spark: "SparkSession", topics: Topics
) -> None:
    topic = topics.make()
    topics.send(topic, [b"body"] * 4)
    group = topics.name("-misspelt")

    report = Lag(topics=topic, consumer_group=group, name_server=topics.cluster.name_server).run(
        spark
    )

    assert not report.is_good
    assert (report.facts["lag"], report.facts["queues without offsets"]) == (None, 2)
    assert "no offsets" in report.facts["note"]


def test_queues_in_which_a_group_has_no_offsets_are_counted_beside_its_lag(
    spark: "SparkSession", topics: Topics
) -> None:
    known, unknown = topics.make("-known", queues=1), topics.make("-unknown", queues=1)
    group = topics.name("-reader")
    topics.send(known, [b"body"] * 4)
    topics.send(unknown, [b"body"] * 9)
    place = BrokerPlace(parse_source({**topics.options, "subscribe": known}))
    place.commit(group, dict.fromkeys(place.queues(), 3))

    report = Lag(
        topics=f"{known},{unknown}", consumer_group=group, name_server=topics.cluster.name_server
    ).run(spark)

    assert report.is_good
    assert (report.facts["lag"], report.facts["queues without offsets"]) == (1, 1)
    assert [row[-1] for row in report.tables[0].rows] == [1, None]
