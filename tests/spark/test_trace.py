"""The job `trace`: journeys of real messages through real clients."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from emberq import ConsumeFromWhere, Message, Producer, PushConsumer, ReceivedMessage
from emberq.pipelines.journey_table import latest_journeys
from emberq.pipelines.trace import Trace
from tests.spark.cluster import Topics, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 6
STREAM_COUNT = 3


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
    job = Trace(topics=topic, name_server=address, path=str(table), report=str(page), every="500ms")

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
        finally:
            for query in spark.streams.active:
                query.stop()
        report = running.result()

    assert (report.facts["messages"], report.facts["sent"]) == (STREAM_COUNT, STREAM_COUNT)
    assert report.facts["consumed by a group or more"] == STREAM_COUNT
    assert "From the send to the consumer" in page.read_text()
