"""The job `trace`: journeys of real messages through real clients."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from emberq import ConsumeFromWhere, Message, Producer, PushConsumer, ReceivedMessage
from emberq.client.core.trace_records import NORMAL, Sent
from emberq.errors import ConfigError
from emberq.model.system_topics import TRACE_TOPIC
from emberq.pipelines.job import Report, read_job
from emberq.pipelines.journey_report import steps_of
from emberq.pipelines.journey_table import JourneyTable, latest_journeys
from emberq.pipelines.journeys import journeys_of, without_group
from emberq.pipelines.streaming import Clock
from emberq.pipelines.trace import Trace
from emberq.pipelines.trace_events import SCHEMA
from tests.spark.cluster import Topics, until
from tests.spark.zones import SUMMER, WINTER, driver_in, micros

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = 6
STREAM_COUNT = 3
WRITER = "first"


def test_journeys_say_who_sent_who_handled_and_who_lacks_a_message(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic, group, address = topics.make(), topics.name("-eager"), topics.cluster.name_server
    seen: list[str] = []
    tries: list[str] = []

    def handle(message: ReceivedMessage) -> None:
        tries.append(message.keys[0])
        if message.keys[0] == "k3" and tries.count("k3") == 1:
            raise ValueError("once more")
        seen.append(message.keys[0])

    consumer = PushConsumer(
        group,
        name_server=address,
        trace=True,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    consumer.add_handler(topic, handle)
    with consumer, Producer("tracing", name_server=address, trace=True) as producer:
        for number in range(COUNT):
            producer.send(Message(topic, b"body", keys=f"k{number}"))
        until(lambda: len(set(seen)) == COUNT)

    report = Trace(
        topics=topic,
        name_server=address,
        message="k3",
        report=str(tmp_path / "journeys.html"),
        path=str(tmp_path / "journeys"),
    ).run(spark)
    expected = Trace(topics=topic, name_server=address, groups=f"{group},asleep").run(spark)

    tables = {table.title: table.rows for table in report.tables}
    assert (report.facts["messages"], report.facts["sent"]) == (COUNT, COUNT)
    ((sent_topic, sender, count, failed, *_),) = tables["Sends"]
    assert (sent_topic, sender, count, failed) == (topic, "tracing", COUNT, 0)
    ((_, consumers, consumed, retried, *latencies),) = tables["Consumer groups"]
    assert (consumers, consumed, retried) == (group, COUNT, 1)
    assert all(latency is not None for latency in latencies)
    assert "Not consumed" not in tables
    alone = Trace(topics=topic, name_server=address, message="k3").run(spark)
    assert [(table.title, table.rows) for table in alone.tables] == [
        ("Steps of k3", tables["Steps of k3"])
    ]
    steps = [row[1] for row in tables["Steps of k3"]]
    assert steps[0] == "published"
    assert steps.count("consumeBegan") == steps.count("consumeEnded") == 2
    page = (tmp_path / "journeys.html").read_text()
    assert "From the send to the consumer" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert spark.read.parquet(str(tmp_path / "journeys")).count() == COUNT
    lacking = {table.title: table.rows for table in expected.tables}["Not consumed"]
    assert lacking == [[topic, "asleep", COUNT]]


def test_a_trace_that_runs_on_puts_late_events_to_those_that_were_there(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic, group, address = topics.make(), topics.name("-late"), topics.cluster.name_server
    table, page = tmp_path / "journeys", tmp_path / "journeys.html"
    seen: list[str] = []
    job = Trace(
        topics=topic,
        name_server=address,
        path=str(table),
        report=str(page),
        every="500ms",
        consumer_group=(reader := topics.name("-trace")),
    )

    def journeys() -> list[tuple[str | None, str | None, bool | None]]:
        if not any(table.glob("batch=*/_SUCCESS")):
            return []
        rows = latest_journeys(spark.read.parquet(str(table))).collect()
        return sorted((row.keys, row.consumerGroup, row.isConsumed) for row in rows)

    with Producer("tracing", name_server=address, trace=True) as producer:
        for number in range(STREAM_COUNT):
            producer.send(Message(topic, b"body", keys=f"k{number}"))
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(job.run, spark)
        try:
            unseen = [(f"k{number}", None, None) for number in range(STREAM_COUNT)]
            until(lambda: running.done() or journeys() == unseen)
            consumer = PushConsumer(
                group,
                name_server=address,
                trace=True,
                consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            )
            consumer.add_handler(topic, lambda message: seen.append(message.keys[0]))
            with consumer:
                until(lambda: len(set(seen)) == STREAM_COUNT)
            handled = [(f"k{number}", group, True) for number in range(STREAM_COUNT)]
            until(lambda: running.done() or journeys() == handled)
            assert journeys() == handled
            # The last batch counts for the group though none follows it.
            until(lambda: running.done() or topics.is_read_by(TRACE_TOPIC, reader))
        finally:
            for query in spark.streams.active:
                query.stop()
        report = running.result()

    assert topics.is_read_by(TRACE_TOPIC, reader)
    assert (report.facts["messages"], report.facts["sent"]) == (STREAM_COUNT, STREAM_COUNT)
    assert report.facts["consumed by a group or more"] == STREAM_COUNT
    assert "From the send to the consumer" in page.read_text()


def test_events_that_come_when_all_is_forgotten_are_put_to_what_was_written(
    spark: "SparkSession", tmp_path: Path
) -> None:
    table = JourneyTable(str(tmp_path / "journeys"), kept_s=-1, topics=["orders"])

    table.take(
        _events(spark, _sent("m1", at_ms=1000), *_handled("m1", "first", at_ms=1400)), 0, WRITER
    )
    table.take(_events(spark, *_handled("m1", "second", at_ms=9000)), 1, WRITER)
    table.take(_events(spark, *_handled("m1", "first", at_ms=9500)), 2, WRITER)
    table.take(_events(spark, _sent("m2", at_ms=1000, topic="others")), 3, WRITER)
    table.take(_events(spark, *_handled("m2", "first", at_ms=9000)), 4, WRITER)

    rows = sorted(table.latest(spark).collect(), key=lambda row: str(row.consumerGroup))
    assert list((tmp_path / "journeys" / "_events").iterdir()) == []
    assert [(row.messageId, row.keys, row.consumerGroup, row.isConsumed) for row in rows] == [
        ("m1", "k1", "first", True),
        ("m1", "k1", "second", True),
    ]
    assert [(row.sendMs, row.deliveryMs, row.endToEndMs) for row in rows] == [
        (5, 400, 420),
        (5, 8000, 8020),
    ]


def test_a_writer_whose_batches_begin_anew_leaves_those_of_others(
    spark: "SparkSession", tmp_path: Path
) -> None:
    table = JourneyTable(str(tmp_path / "journeys"), kept_s=3600, topics=[])

    table.take(_events(spark, _sent("old", at_ms=1000), _sent("both", at_ms=2000)), 0, WRITER)
    table.take(_events(spark, *_handled("both", "first", at_ms=3000)), 0, "second")
    table.take(_events(spark, _sent("new", at_ms=5000)), 1, "second")
    table.take(_events(spark, _sent("new", at_ms=5000)), 1, "second")  # once more, after a crash

    rows = sorted(table.latest(spark).collect(), key=lambda row: str(row.messageId))
    assert [(row.messageId, row.consumerGroup, row.endToEndMs) for row in rows] == [
        ("both", "first", 1020),
        ("new", None, None),
        ("old", None, None),
    ]


def test_a_second_run_does_not_write_journeys_to_the_rows_of_the_first(
    spark: "SparkSession", tmp_path: Path
) -> None:
    single, batches = tmp_path / "single", tmp_path / "batches"
    journeys_of(_events(spark, _sent("m1", at_ms=1000))).write.parquet(str(single))
    JourneyTable(str(batches), kept_s=3600, topics=[]).take(
        _events(spark, _sent("m1", at_ms=1000)), 0, WRITER
    )

    # There is no such name server: nothing is read.
    for folder in (single, batches):
        with pytest.raises(ConfigError, match="has been written to, and rows would be there twice"):
            Trace(path=str(folder), name_server="127.0.0.1:1").run(spark)
    with pytest.raises(ConfigError, match="written to by a run without every"):
        Trace(path=str(single), every="1s", name_server="127.0.0.1:1").run(spark)


def test_a_page_of_journeys_shows_sizes_and_tags_and_draws_few_points(
    spark: "SparkSession", tmp_path: Path
) -> None:
    page = tmp_path / "journeys.html"
    sends = [
        {**_sent(f"m{number}", at_ms=1000 + number * 3_600_000), "bodySize": size, "tags": tags}
        for number, (size, tags) in enumerate([(100, "paid"), (300, "paid"), (900, None)])
    ]
    groups = [*_handled("m0", "first", at_ms=2000), *_handled("m0", "second", at_ms=2000)]

    report = Trace(report=str(page), window="1s")._told(
        journeys_of(_events(spark, *sends, *groups)), Clock()
    )

    tables = {table.title: table.rows for table in report.tables}
    assert tables["Sizes of bodies"] == [["orders", 3, 1300, 300, 900, 900, 900]]
    assert tables["Most frequent tags"] == [["orders", "paid", 2, 400], ["orders", None, 1, 900]]
    facts = report.facts
    assert (facts["bytes"], facts["size p50"], facts["largest"]) == (1300, 300, 900)
    text = page.read_text()
    for title in ("Bytes sent per window", "Sizes of bodies", "Messages by tag"):
        assert f"<h2>{title}</h2>" in text
    assert "Each point stands for 15 seconds: windows of 1 second would be more" in text
    [line] = re.findall(r'<path d="M([^"]+)"', text.partition("Messages sent per window")[2])[:1]
    assert len(line.split("L")) == 2 * 3600 // 15 + 1


def test_an_end_that_comes_when_its_begin_is_forgotten_counts(
    spark: "SparkSession", tmp_path: Path
) -> None:
    table = JourneyTable(str(tmp_path / "journeys"), kept_s=-1, topics=[])
    began, ended = _handled("m1", "slow", at_ms=2_000)
    ended |= {"group": "slow", "atMs": 92_000, "costMs": 90_000}

    assert table.is_empty(spark)
    table.take(_events(spark, _sent("m1", at_ms=1000), began), 0, WRITER)
    table.take(_events(spark, ended), 1, WRITER)

    assert not table.is_empty(spark)
    [row] = table.latest(spark).collect()
    assert (row.consumerGroup, row.isConsumed, row.attempts) == ("slow", True, 1)
    assert (row.deliveryMs, row.handlingMs, row.endToEndMs) == (1000, 90_000, 91_000)


def test_times_of_a_trace_are_in_utc_also_in_the_night_in_which_clocks_are_put_back(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    trace_topic = topics.make("-trace", queues=1)
    moments = {"m1": SUMMER, "m2": WINTER}
    sends = [_record(message, micros(moment) // 1000) for message, moment in moments.items()]
    topics.send(trace_topic, [each.text().encode() for each in sends])
    job = Trace(
        trace_topic=trace_topic,
        name_server=topics.cluster.name_server,
        message="k1",
        groups="asleep",
        report=str(tmp_path / "journeys.html"),
    )

    with driver_in("Europe/Berlin"):
        report = job.run(spark)
        shown = json.loads(msgspec.json.encode(report))

    tables = {table["title"]: table["rows"] for table in shown["tables"]}
    expected = [("2026-10-25T00:30:00Z", "m1"), ("2026-10-25T01:30:00Z", "m2")]
    steps = [(row[0], row[2]) for row in tables["Steps of k1"]]
    assert steps == [(at.replace("Z", ".000Z"), message) for at, message in expected]
    assert [(row[0], row[3]) for row in tables["Not consumed, the oldest"]] == expected
    page = (tmp_path / "journeys.html").read_text()
    assert ">00:30:00</text>" in page
    assert ">01:30:00</text>" in page
    assert "2026-10-25 UTC" in page


def test_a_dry_run_of_a_trace_counts_what_the_run_would(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    trace_topic = topics.make("-trace", queues=1)
    topics.send(trace_topic, [b"early"] * 3)
    moment = datetime.now(UTC) + timedelta(milliseconds=5)
    until(lambda: datetime.now(UTC) > moment + timedelta(milliseconds=5))
    topics.send(trace_topic, [b"late"] * 2)

    def plan(**options: str) -> Report:
        whole = {"traceTopic": trace_topic, "nameServer": topics.cluster.name_server, **options}
        return read_job(Trace, whole).plan(spark)

    since, before = plan(since=moment.isoformat()), plan(until=moment.isoformat())
    running = plan(since=moment.isoformat(), every="1s", path=str(tmp_path))

    assert [each.facts["messages"] for each in (since, before, running)] == [2, 3, 2]


def test_messages_that_consumers_are_not_to_have_are_missing_nowhere(
    spark: "SparkSession",
) -> None:
    halves = [_half(name) for name in ("open", "asked", "undone", "done", "lost", "both")]
    events = _events(
        spark,
        *halves,
        *(_sent(name, at_ms=1000) for name in ("plain", "taken-back", "too-late")),
        *(_ended("undone", "ROLLBACK_MESSAGE"), _ended("asked", "UNKNOW")),
        *(_ended("done", "COMMIT_MESSAGE"), _ended("both", "ROLLBACK_MESSAGE")),
        *(_ended("both", "COMMIT_MESSAGE"), _ended("unsent", "ROLLBACK_MESSAGE")),
        *(_recalled("taken-back", is_success=True), _recalled("too-late", is_success=False)),
        # Nobody told of its end, but it is there.
        *_handled("lost", "first", at_ms=2000),
    )

    journeys = journeys_of(events)
    report = Trace()._found(None, journeys)

    states = {row.messageId: row.state for row in journeys.collect()}
    assert states == {
        **dict.fromkeys(("open", "asked", "lost"), "open"),
        **dict.fromkeys(("undone", "unsent"), "rolledBack"),
        **dict.fromkeys(("done", "both"), "committed"),
        **{"taken-back": "recalled", "plain": None, "too-late": None},
    }
    missing = {row.messageId for row in without_group(journeys, ["first"]).collect()}
    assert missing == {"done", "both", "plain", "too-late"}
    facts = report.facts
    assert (facts["messages"], facts["sent"]) == (10, 5)
    assert (facts["in open transactions"], facts["rolled back"], facts["recalled"]) == (2, 2, 1)
    [sends] = [table for table in report.tables if table.title == "Sends"]
    assert sends.rows[0][2:7] == [9, 0, 2, 1, 1]


def test_a_transaction_that_ends_when_its_send_is_forgotten_is_told_of(
    spark: "SparkSession", tmp_path: Path
) -> None:
    table = JourneyTable(str(tmp_path / "journeys"), kept_s=-1, topics=["orders"])

    table.take(_events(spark, _half("undone"), _half("done"), _half("open")), 0, WRITER)
    table.take(_events(spark, _ended("undone", "ROLLBACK_MESSAGE")), 1, WRITER)
    table.take(_events(spark, _ended("done", "COMMIT_MESSAGE")), 2, WRITER)
    table.take(_events(spark, _ended("done", "UNKNOW")), 3, WRITER)

    rows = table.latest(spark).collect()
    assert {(row.messageId, row.topic, row.isSent, row.state) for row in rows} == {
        ("undone", "orders", True, "rolledBack"),
        ("done", "orders", True, "committed"),
        ("open", "orders", True, "open"),
    }
    missing = without_group(table.latest(spark), ["first"]).collect()
    assert [row.messageId for row in missing] == ["done"]


def test_a_folder_from_before_states_were_told_is_read_on(
    spark: "SparkSession", tmp_path: Path
) -> None:
    folder = tmp_path / "journeys"
    old = _events(spark, _sent("old", at_ms=1000))
    journeys_of(old).drop("state").write.parquet(str(folder / "batch=0"))
    old.drop("messageType").write.parquet(str(folder / "_events" / "batch=0"))
    before = latest_journeys(spark.read.parquet(str(folder))).collect()
    table = JourneyTable(str(folder), kept_s=3600, topics=[])

    table.take(_events(spark, _half("new"), *_handled("old", "first", at_ms=2000)), 1, WRITER)

    assert [(row.messageId, row.state) for row in before] == [("old", None)]
    rows = sorted(table.latest(spark).collect(), key=lambda row: str(row.messageId))
    assert [(row.messageId, row.consumerGroup, row.state) for row in rows] == [
        ("new", None, "open"),
        ("old", "first", None),
    ]


def test_steps_of_one_moment_are_in_the_order_in_which_they_happen(spark: "SparkSession") -> None:
    at_ms = 1_700_000_000_007
    began, ended = _handled("m1", "first", at_ms=at_ms)
    events = _events(spark, {**ended, "atMs": at_ms}, began)

    steps = steps_of(events, "m1")

    assert [row[:2] for row in steps.rows] == [
        ["2023-11-14T22:13:20.007Z", "consumeBegan"],
        ["2023-11-14T22:13:20.007Z", "consumeEnded"],
    ]


def test_a_trace_of_a_cluster_without_traces_says_who_makes_them(
    spark: "SparkSession", topics: Topics
) -> None:
    job = Trace(trace_topic=topics.name("-none"), name_server=topics.cluster.name_server)

    for attempt in (job.run, job.plan):
        with pytest.raises(ConfigError, match="traceTopicEnable=true or a client"):
            attempt(spark)


def test_the_steps_of_a_half_message_say_how_its_transaction_ended(
    spark: "SparkSession",
) -> None:
    events = _events(spark, _half("m1"), _ended("m1", "ROLLBACK_MESSAGE"))

    steps = steps_of(events, "m1")

    assert [(row[1], row[-1]) for row in steps.rows] == [
        ("published", None),
        ("transactionEnded", "ROLLBACK_MESSAGE"),
    ]
    assert steps.columns[-1] == "state"


def _events(spark: "SparkSession", *events: dict[str, object]) -> "DataFrame":
    columns = [column.split()[0].strip("`") for column in SCHEMA.split(", ")]
    rows = [[event.get(name) for name in columns] for event in events]
    return spark.createDataFrame(rows, SCHEMA)


def _sent(message: str, *, at_ms: int, topic: str = "orders") -> dict[str, object]:
    return {
        **{"kind": "published", "messageId": message, "atMs": at_ms, "topic": topic},
        **{"group": "shop", "keys": "k1", "costMs": 5, "isSuccess": True},
    }


def _half(message: str) -> dict[str, object]:
    return {**_sent(message, at_ms=1000), "messageType": "half"}


def _ended(message: str, state: str) -> dict[str, object]:
    return {
        **{"kind": "transactionEnded", "messageId": message, "atMs": 3000, "topic": "orders"},
        **{"group": "shop", "keys": "k1", "messageType": "commit", "state": state},
    }


def _recalled(message: str, *, is_success: bool) -> dict[str, object]:
    return {
        **{"kind": "recalled", "messageId": message, "atMs": 3000, "topic": "orders"},
        **{"group": "shop", "isSuccess": is_success},
    }


def _record(message: str, at_ms: int) -> Sent:
    """As clients write it."""
    return Sent(
        at_ms=at_ms,
        region="r",
        group="shop",
        topic="orders",
        message_id=message,
        tags=None,
        keys="k1",
        broker_address="127.0.0.1:10911",
        body_size=7,
        cost_ms=3,
        message_type=NORMAL,
        offset_message_id="offset-id",
    )


def _handled(message: str, group: str, *, at_ms: int) -> list[dict[str, object]]:
    attempt = {"messageId": message, "requestId": f"{group}-{at_ms}"}
    return [
        {**attempt, "kind": "consumeBegan", "atMs": at_ms, "group": group},
        {**attempt, "kind": "consumeEnded", "costMs": 20, "isSuccess": True},
    ]
