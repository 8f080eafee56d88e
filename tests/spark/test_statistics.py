"""The jobs `stats` and `lag`, end to end, and times of rows that come to the driver."""

import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from emberq.errors import ConfigError
from emberq.pipelines import message_windows
from emberq.pipelines.lag import Lag
from emberq.pipelines.message_windows import RECENT_ROWS_MAX, SIZES, windowed
from emberq.pipelines.stats import Stats
from emberq.pipelines.streaming import Clock
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


def test_windows_of_a_batch_that_is_repeated_are_sent_once(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic, target = topics.make(queues=1), topics.make("-windows", queues=1)
    group, commits = topics.name("-reader"), tmp_path / "checkpoint" / "commits"
    job = stats(
        topics,
        topic,
        consumer_group=group,
        to_topic=target,
        sink={"delivery": "idempotent"},
        checkpoint=str(commits.parent),
        window="50ms",
        late="1ms",
        every="100ms",
    )

    def sent() -> list[str]:
        rows = spark.read.format("rocketmq").options(**topics.options).load(target).collect()
        return [json.loads(bytes(row["body"]))["windowStart"] for row in rows]

    def is_sent_by_the_last_batch() -> bool:
        before = len(sent())
        topics.send(topic, [b"one"])  # windows are complete when later messages are there
        until(lambda: running.done() or topics.is_read_by(topic, group))
        return len(sent()) > before

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(job.run, spark)
        try:
            until(lambda: running.done() or is_sent_by_the_last_batch())
        finally:
            stop_all(spark)
        running.result()
        # As after a kill between the sink's commit and Spark's: Spark will repeat the batch.
        last = max(commits.glob("[0-9]*"), key=lambda file: int(file.name))
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink()
        before = sent()
        running = thread.submit(job.run, spark)
        try:
            until(lambda: running.done() or last.exists())
        finally:
            stop_all(spark)
        running.result()

    assert sorted(sent()) == sorted(before)
    assert len(set(before)) == len(before) > 0


def stop_all(spark: "SparkSession") -> None:
    for query in spark.streams.active:
        query.stop()


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
    page, group = tmp_path / "report.html", topics.name("-shown")
    job = stats(
        topics,
        topic,
        consumer_group=group,
        by="tag",
        top=5,
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
            tag = rf"{topic} (paid|\(none\))"

            def is_shown() -> bool:
                # Windows are complete when later messages are there.
                topics.send(topic, [b"late"] * 2, tags="paid")
                topics.send(topic, [b"late"])
                return page.exists() and {"paid", "(none)"} <= {*re.findall(tag, page.read_text())}

            until(lambda: running.done() or is_shown())
            # The last batch counts for the group though none follows it.
            until(lambda: running.done() or topics.is_read_by(topic, group))
        finally:
            for query in spark.streams.active:
                query.stop()
        report = running.result()
    assert topics.is_read_by(topic, group)

    written = spark.read.parquet(str(tmp_path / "windows")).collect()
    table, frequent = report.tables
    assert len(table.rows) == len(written)
    assert table.columns[:3] == ["from", "topic", "tag"]
    counts = Counter[str | None]()
    for row in written:
        counts[row["tag"]] += row["messages"]
    assert [row[1:3] for row in frequent.rows] == [list(each) for each in counts.most_common()]
    assert {*counts} == {"paid", None}
    assert report.facts["messages"] == sum(row["messages"] for row in written)
    starts = [row[0] for row in table.rows]
    assert starts == sorted(starts, reverse=True)
    assert starts[-1] > datetime.fromisoformat(moment) - timedelta(milliseconds=100)
    assert "Messages per window" in page.read_text()
    assert "Messages per window by tag" in page.read_text()
    assert "Messages by tag" in page.read_text()
    assert "Sizes of messages" in page.read_text()
    assert all(row["sizeBytesP99"] == row["largestBytes"] > 0 for row in written)
    with pytest.raises(ConfigError, match="belongs to another run or checkpoint"):
        replace(job, checkpoint=str(tmp_path / "another"), name_server="127.0.0.1:1").run(spark)
    with pytest.raises(ConfigError, match="has been written to"):
        stats(topics, topic, path=str(tmp_path / "windows")).plan(spark)


def test_a_second_run_does_not_write_windows_to_those_of_the_first(
    spark: "SparkSession", tmp_path: Path
) -> None:
    job = Stats(topics="orders", path=str(tmp_path / "windows"), name_server="127.0.0.1:1")
    job.summed_up(messages(spark, ("orders", SUMMER)))

    # There is no such name server: nothing is read.
    with pytest.raises(ConfigError, match="has been written to, and rows would be there twice"):
        job.run(spark)
    with pytest.raises(ConfigError, match="belongs to another run"):
        replace(job, every="1s").run(spark)

    assert spark.read.parquet(str(tmp_path / "windows")).count() == 1


def test_windows_can_be_those_of_tags_the_most_frequent_and_all_others(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_windows, "PARTS_MAX", 2)
    tags = ["paid"] * 4 + ["sent"] * 3 + ["lost"] * 2 + ["late"] + [None]
    rows = [(tag, 100 * (number + 1)) for number, tag in enumerate(tags)]
    frame = spark.createDataFrame(rows, "tags string, size int").selectExpr(
        *("'orders' AS topic", "tags", "size", "timestamp_micros(1000) AS bornTimestamp"),
        "timestamp_micros(5000) AS storeTimestamp",
    )
    page, table = tmp_path / "report.html", tmp_path / "windows"

    report = Stats(topics="orders", by="tag", report=str(page), path=str(table)).summed_up(frame)

    windows, frequent = report.tables
    found = {row[2]: row[3:9] for row in windows.rows}
    assert windows.columns[2:9] == [
        *("tag", "messages", "bytes", "size p50", "size p95", "size p99", "largest"),
    ]
    assert found == {
        "paid": [4, 1000, 200, 400, 400, 400],
        "sent": [3, 1800, 600, 700, 700, 700],
        "(others)": [3, 2700, 900, 1000, 1000, 1000],
        None: [1, 1100, 1100, 1100, 1100, 1100],
    }
    assert [row[1] for row in frequent.rows] == ["paid", "sent", "lost", None, "late"]
    assert report.facts["largest"] == 1100
    written = spark.read.parquet(str(table)).select("tag", "messages", "sizeBytesP50").collect()
    assert {row["tag"]: (row["messages"], row["sizeBytesP50"]) for row in written} == {
        tag: (row[0], row[2]) for tag, row in found.items()
    }
    text = page.read_text()
    assert "<h2>Messages per window by tag</h2>" in text
    assert "<title>all others</title>" in text
    assert "<title>(none)</title>" in text


def test_a_page_of_very_many_windows_has_few_points_and_the_newest_rows(
    spark: "SparkSession", tmp_path: Path
) -> None:
    count, page = 2 * RECENT_ROWS_MAX, tmp_path / "report.html"
    frame = spark.range(count).selectExpr(
        *("'orders' AS topic", "'paid' AS tags", "100 AS size"),
        "timestamp_micros(id * 1000000) AS bornTimestamp",
        "timestamp_micros(id * 1000000 + if(id = 7, 900000, 4000)) AS storeTimestamp",
    )

    report = Stats(topics="orders", window="1s", report=str(page)).summed_up(frame)

    [windows, _] = report.tables
    assert report.facts["messages"] == count
    assert len(windows.rows) < RECENT_ROWS_MAX + 1
    assert windows.rows[0][0] == datetime.fromtimestamp(count - 1, UTC)
    assert f"of {count:,} rows" in report.facts["note"]
    text = page.read_text()
    assert report.facts["note"] in text
    assert "Each point stands for 30 seconds: windows of 1 second would be more" in text
    lines = [each.split("L") for each in re.findall(r'<path d="M([^"]+)"', text)]
    assert {len(line) for line in lines} == {count // 30 + 1}
    assert len(text) < 300_000


def test_a_page_of_windows_from_before_sizes_were_told_is_made_of_what_there_is(
    spark: "SparkSession", tmp_path: Path
) -> None:
    old = windowed(messages(spark, ("orders", SUMMER)), "1 minute")
    folder, page = tmp_path / "windows", tmp_path / "report.html"
    old.drop(*SIZES).write.parquet(str(folder))

    report = Stats(topics="orders", path=str(folder), report=str(page))._told(spark, old, Clock())

    assert report.tables[0].rows[0][2:8] == [1, 100, None, None, None, 100]
    assert "Latency from birth to storage" in page.read_text()


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


def test_without_a_group_all_that_have_offsets_in_the_topics_are_shown(
    spark: "SparkSession", topics: Topics
) -> None:
    wide, narrow = topics.make("-wide"), topics.make("-narrow", queues=1)
    groups = [topics.name(suffix) for suffix in ("-behind", "-level")]
    for topic in (wide, narrow):
        topics.send(topic, [b"body"] * 6)
    for group, topic, offset in zip(groups, (wide, narrow), (1, 6), strict=True):
        place = BrokerPlace(parse_source({**topics.options, "subscribe": topic}))
        place.commit(group, {topics.queue(topic): offset})

    report = Lag(topics=f"{wide},{narrow}", name_server=topics.cluster.name_server).run(spark)

    assert report.is_good
    assert report.facts == {"groups": 2}
    assert report.tables[0].rows == [[5, groups[0], wide, 2, 1], [0, groups[1], narrow, 1, 0]]
