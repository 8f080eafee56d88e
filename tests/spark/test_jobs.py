"""Jobs, end to end: topics in a real broker, Spark, files."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from emberq.errors import ConfigError, PipelineError
from emberq.pipelines.archive import Archive
from emberq.pipelines.archived import existing_table, read_archive, read_by_tasks
from emberq.pipelines.compact import Compact
from emberq.pipelines.dead_letters import DeadLetters
from emberq.pipelines.lag import Lag
from emberq.pipelines.replay import ORIGIN_PROPERTY, Replay
from emberq.pipelines.stats import Stats
from emberq.pipelines.transform import Transform
from emberq.pipelines.verify import Verify
from tests.spark.cluster import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def bodies(count: int, first: int = 0) -> list[bytes]:
    return [json.dumps({"order": n, "amount": n % 7}).encode() for n in range(first, first + count)]


def archive(topics: Topics, topic: str, folder: Path, **options: Any) -> Archive:
    return Archive(
        topics=topic, path=str(folder), name_server=topics.cluster.name_server, **options
    )


def verify(topics: Topics, topic: str, folder: Path, **options: Any) -> Verify:
    return Verify(topics=topic, path=str(folder), name_server=topics.cluster.name_server, **options)


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_an_archive_has_every_message_once_and_goes_on_where_it_was(
    kind: str, spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make(f"-{kind}")
    topics.send(topic, bodies(50), queue=0, tags="new", keys="k")
    topics.send(topic, bodies(30, first=50), queue=1)
    lake = tmp_path / "a lake[1]{b}*"  # signs that stand for other names, to Spark
    job = archive(topics, topic, lake, format=kind)

    first = job.run(spark)
    topics.send(topic, bodies(20, first=80), queue=1)
    second = job.run(spark)
    third = job.run(spark)

    assert [report.facts["messages"] for report in (first, second, third)] == [80, 20, 0]
    rows = read_archive(spark, kind, str(lake)).collect()
    assert sorted(json.loads(bytes(row["body"]))["order"] for row in rows) == list(range(100))
    assert {row["topic"] for row in rows} == {topic}
    checked = verify(topics, topic, lake, format=kind, bodies=True).run(spark)
    assert by_tasks(spark, kind, lake) == numbered_rows(rows)
    assert checked.is_good
    assert checked.facts["archived"] == 100


def by_tasks(spark: "SparkSession", kind: str, lake: Path) -> list[tuple[object, ...]]:
    """As tables in object stores are read."""
    table = existing_table(kind, str(lake))
    names, schema = [each.path for each in table.files()], table.schema()
    return numbered_rows(read_by_tasks(spark, str(lake), names, schema).collect())


def numbered_rows(rows: list[Any]) -> list[tuple[object, ...]]:
    names = ("topic", "queueId", "queueOffset", "tags", "body", "storeTimestamp", "properties")
    return sorted((tuple(row[name] for name in names) for row in rows), key=lambda row: row[1:3])


def test_a_batch_that_was_committed_before_a_crash_is_not_archived_twice(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    topics.send(topic, bodies(40))
    job = archive(topics, topic, tmp_path / "lake")
    job.run(spark)
    # As after a kill between the table's commit and Spark's: Spark will repeat the batch.
    (tmp_path / "lake" / "_checkpoint" / "commits" / "0").unlink()
    (tmp_path / "lake" / "_checkpoint" / "commits" / ".0.crc").unlink()

    repeated = job.run(spark)

    assert repeated.facts["batches that were there"] == 1
    assert read_archive(spark, "parquet", str(tmp_path / "lake")).count() == 40


def test_files_that_tasks_write_elsewhere_fail_their_batch_which_comes_again(
    spark: "SparkSession", topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.make()
    topics.send(topic, bodies(40))
    job = archive(topics, topic, tmp_path / "lake")
    options = Archive.stream_options

    def on_another_machine(self: Archive, *given: Any, **named: Any) -> dict[str, str]:
        return options(self, *given, **named) | {"archive.path": str(tmp_path / "elsewhere")}

    monkeypatch.setattr(Archive, "stream_options", on_another_machine)
    with pytest.raises(PipelineError, match=r"^1 of 1 files of the batch are not as its tasks"):
        job.run(spark)
    monkeypatch.undo()

    assert job.run(spark).facts["messages"] == 40
    assert verify(topics, topic, tmp_path / "lake").run(spark).is_good


def test_a_lost_message_and_one_that_is_there_twice_are_found(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    topics.send(topic, bodies(10), queue=0)
    topics.send(topic, bodies(10), queue=1)
    archive(topics, topic, tmp_path / "lake").run(spark)
    table = existing_table("parquet", str(tmp_path / "lake"))
    by_queue = {each.queue_id: each for each in table.files()}
    copy = tmp_path / "lake" / "copy.parquet"
    copy.write_bytes((tmp_path / "lake" / by_queue[1].path).read_bytes())
    twin = f"{Path(by_queue[1].path).parent}/twin.parquet"
    copy.rename(tmp_path / "lake" / twin)
    import msgspec

    table.replace([by_queue[0].path], [msgspec.structs.replace(by_queue[1], path=twin)])

    report = verify(topics, topic, tmp_path / "lake").run(spark)

    assert not report.is_good
    assert (report.facts["missing"], report.facts["twice"]) == (10, 10)


def test_small_files_are_joined_and_leftovers_deleted(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    job = archive(topics, topic, tmp_path / "lake")
    for first in (0, 10, 20):
        topics.send(topic, bodies(10, first=first))
        job.run(spark)
    first_file = existing_table("parquet", str(tmp_path / "lake")).files()[0].path
    leftover = tmp_path / "lake" / f"{first_file.removesuffix('-0.parquet')}-1.parquet"
    leftover.write_bytes(b"")

    report = Compact(path=str(tmp_path / "lake"), orphans_after="0s").run()

    assert (report.facts["files before"], report.facts["files after"]) == (3, 1)
    assert not leftover.exists()
    assert read_archive(spark, "parquet", str(tmp_path / "lake")).count() == 30
    assert verify(topics, topic, tmp_path / "lake").run(spark).is_good


def test_a_dry_run_says_what_there_is_and_writes_nothing(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    topics.send(topic, bodies(12))

    report = archive(topics, topic, tmp_path / "lake").plan(spark)

    assert report.facts["messages"] == 12
    assert not (tmp_path / "lake").exists()


def test_statistics_count_windows_tags_and_latencies(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    topics.send(topic, bodies(30), tags="paid")
    topics.send(topic, bodies(20), queue=1, tags="sent")
    page = tmp_path / "report.html"

    report = Stats(topics=topic, name_server=topics.cluster.name_server, report=str(page)).run(
        spark
    )

    assert report.facts["messages"] == 50
    windows, tags = report.tables
    assert sum(row[2] for row in windows.rows) == 50
    assert [[row[1], row[2]] for row in tags.rows] == [["paid", 30], ["sent", 20]]
    assert "<svg" in page.read_text()


def test_lag_is_that_of_the_group(spark: "SparkSession", topics: Topics, tmp_path: Path) -> None:
    topic = topics.make()
    topics.send(topic, bodies(9))
    group = topics.name("-lake")
    archive(topics, topic, tmp_path / "lake", consumer_group=group).run(spark)
    topics.send(topic, bodies(4))

    report = Lag(topics=topic, consumer_group=group, name_server=topics.cluster.name_server).run(
        spark
    )

    assert report.facts["lag"] == 4


def test_a_job_leaves_the_session_that_runs_here_as_it_was(
    spark: "SparkSession", topics: Topics
) -> None:
    topic = topics.make(queues=1)
    job = Stats(topics=topic, name_server=topics.cluster.name_server)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")

    try:
        job.plan()
        with ThreadPoolExecutor(1) as another_thread:
            another_thread.submit(job.plan).result()

        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Kolkata"
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone or "UTC")
    assert spark.range(3).count() == 3


def test_a_failing_query_says_why_in_one_line(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    job = archive(topics, topics.make(), tmp_path / "lake", source={"nonsense": "1"})

    with pytest.raises((PipelineError, ConfigError), match="there is no option 'nonsense'"):
        job.run(spark)


def test_messages_are_transformed_by_sql_into_another_topic(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.make("-in"), topics.make("-out")
    topics.send(source, bodies(20))
    job = Transform(
        topics=source,
        sql=f"SELECT get_json_object(body, '$.order') AS keys, body FROM `{source}` "
        "WHERE get_json_object(body, '$.amount') = 3",
        to_topic=target,
        checkpoint=str(tmp_path / "checkpoint"),
        name_server=topics.cluster.name_server,
    )

    job.run(spark)
    job.run(spark)  # nothing new: nothing more is sent

    rows = spark.read.format("rocketmq").options(**topics.options).load(target).collect()
    assert sorted(int(row["keys"]) for row in rows) == [3, 10, 17]


def test_an_archive_is_replayed_in_the_order_of_its_queues(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.make("-in"), topics.make("-out")
    topics.send(source, bodies(10), queue=0, tags="a")
    topics.send(source, bodies(10, first=10), queue=1, tags="b")
    archive(topics, source, tmp_path / "lake").run(spark)

    report = Replay(
        path=str(tmp_path / "lake"),
        to_topic=target,
        where="tags = 'b'",
        name_server=topics.cluster.name_server,
    ).run(spark)

    assert report.facts["messages"] == 10
    rows = spark.read.format("rocketmq").options(**topics.options).load(target).collect()
    rows.sort(key=lambda row: row["queueOffset"])
    assert [json.loads(bytes(row["body"]))["order"] for row in rows] == list(range(10, 20))
    assert rows[0]["properties"][ORIGIN_PROPERTY] == f"{source}:broker-a:1:0"


def test_dead_letters_are_shown_and_sent_back_once(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make("-orders")
    group = topics.name("-billing")
    dead = f"%DLQ%{group}"
    topics.producer.create_topic(dead, queues=1)
    topics.send(dead, bodies(6), tags="paid", keys="k")
    job = DeadLetters(
        groups=group,
        where="get_json_object(string(body), '$.order') < 4",
        redrive=True,
        to_topic=topic,
        ledger=str(tmp_path / "ledger"),
        name_server=topics.cluster.name_server,
    )

    first, second = job.run(spark), job.run(spark)

    assert first.facts["dead letters"] == 4
    assert (first.facts["sent back"], second.facts["sent back"]) == (4, 0)
    rows = spark.read.format("rocketmq").options(**topics.options).load(topic).collect()
    assert len(rows) == 4
    assert {row["tags"] for row in rows} == {"paid"}


def test_a_replay_keeps_to_its_rate_and_loses_nothing(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic, again = topics.make(), topics.make("-again")
    topics.send(topic, bodies(40))
    archive(topics, topic, tmp_path / "lake").run(spark)
    job = Replay(
        path=str(tmp_path / "lake"),
        to_topic=again,
        rate=20,
        name_server=topics.cluster.name_server,
    )

    report = job.run(spark)

    assert report.facts["messages"] == 40
    assert report.facts["messages per second"] <= 22  # the last piece does not wait
    rows = spark.read.format("rocketmq").options(**topics.options).load(again).collect()
    assert sorted(json.loads(bytes(row["body"]))["order"] for row in rows) == list(range(40))
