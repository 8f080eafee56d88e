"""Messages on their way back into topics: what of them arrives, and what plans say of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from emberq.errors import ConfigError, PipelineError
from emberq.pipelines.archive import Archive
from emberq.pipelines.archived import existing_table, read_archive
from emberq.pipelines.replay import ORIGIN_PROPERTY, Replay
from emberq.pipelines.sql import register_topics
from emberq.pipelines.transform import Transform
from emberq.pipelines.verify import Verify
from emberq.record.property_names import RESERVED
from tests.spark.cluster import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_TEXT = b"\xff\xfe\x00"
BORN, STORED = "EMBERQ_BORN_AT", "EMBERQ_STORED_AT"


def rows_of(spark: "SparkSession", topics: Topics, topic: str) -> list[Any]:
    frame = spark.read.format("rocketmq").options(**topics.options).load(topic)
    return frame.orderBy("queueId", "queueOffset").collect()


def transform(topics: Topics, folder: Path, sql: str, **options: Any) -> Transform:
    """From the topic `…-in`, which stands for {source}, to `…-out`."""
    source, target = topics.name("-in"), topics.make("-out")
    return Transform(
        topics=source,
        sql=sql.format(source=f"`{source}`"),
        to_topic=target,
        checkpoint=str(folder / "checkpoint"),
        name_server=topics.cluster.name_server,
        **options,
    )


def archived(spark: "SparkSession", topics: Topics, folder: Path, **options: Any) -> str:
    """An archive of the topic `…-in`."""
    lake = str(folder / "lake")
    address = topics.cluster.name_server
    Archive(topics=topics.name("-in"), path=lake, name_server=address, **options).run(spark)
    return lake


def test_users_properties_go_through_a_transformation_and_those_of_brokers_do_not(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    source = topics.make("-in")
    topics.send(source, [b"first"], tags="new", keys="k1", properties={"shop": "berlin"})
    topics.send(source, [b"second"])
    job = transform(topics, tmp_path, "SELECT body, keys, tags, properties FROM {source}")

    job.run(spark)

    first, second = sorted(rows_of(spark, topics, job.to_topic), key=lambda row: row["body"])
    assert (first["body"], first["keys"], first["tags"]) == (b"first", "k1", "new")
    own = {name: value for name, value in first["properties"].items() if name not in RESERVED}
    assert own.pop("SPARK_ID")
    assert own == {"shop": "berlin"}
    assert {*second["properties"]} - RESERVED == {"SPARK_ID"}
    ids = {row["properties"]["UNIQ_KEY"] for row in rows_of(spark, topics, source)}
    assert first["properties"]["UNIQ_KEY"] not in ids


def test_messages_of_a_transformation_may_be_transformed_again(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    source = topics.make("-in")
    topics.send(source, [b"body"], properties={"shop": "berlin"})
    first = transform(topics, tmp_path, "SELECT body, properties FROM {source}")
    first.run(spark)
    second = Transform(
        topics=first.to_topic,
        sql=f"SELECT body, properties FROM `{first.to_topic}`",
        to_topic=source,
        checkpoint=str(tmp_path / "again"),
        name_server=topics.cluster.name_server,
    )

    second.run(spark)

    original, copy = rows_of(spark, topics, source)
    assert copy["properties"]["shop"] == "berlin"
    between = rows_of(spark, topics, first.to_topic)[0]["properties"]["SPARK_ID"]
    assert copy["properties"]["SPARK_ID"] != between
    assert "SPARK_ID" not in original["properties"]


def test_a_body_that_is_no_text_goes_through_as_bytes(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    source = topics.make("-in")
    topics.send(source, ["größe".encode(), NO_TEXT])
    sql = "SELECT bodyBytes AS body, if(body IS NULL, 'bytes', 'text') AS tags FROM {source}"
    job = transform(topics, tmp_path, sql)

    job.run(spark)

    rows = rows_of(spark, topics, job.to_topic)
    assert {(bytes(row["body"]), row["tags"]) for row in rows} == {
        ("größe".encode(), "text"),
        (NO_TEXT, "bytes"),
    }


def test_a_body_that_is_no_text_ends_a_query_with_what_to_do(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topics.send(topics.make("-in"), [b"text", NO_TEXT])
    job = transform(topics, tmp_path, "SELECT body FROM {source}")

    with pytest.raises(PipelineError, match=r"has no body: .* select bodyBytes AS body, or"):
        job.run(spark)


def test_bodies_are_bytes_where_the_source_is_told_so(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topics.send(topics.make("-in"), [NO_TEXT])
    sql = "SELECT body FROM {source} WHERE bodyBytes = body"
    job = transform(topics, tmp_path, sql, source={"bodyas": "binary"})

    job.run(spark)

    (row,) = rows_of(spark, topics, job.to_topic)
    assert row["body"] == NO_TEXT


def test_a_replay_says_the_original_times_if_it_is_asked_to(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.make("-in", queues=1), topics.make("-out", queues=1)
    topics.send(source, [b"1", b"2"], properties={BORN: "of a replay before", "shop": "berlin"})
    lake = archived(spark, topics, tmp_path)
    job = Replay(
        path=lake, to_topic=target, original_times=True, name_server=topics.cluster.name_server
    )

    job.run(spark)

    originals = rows_of(spark, topics, source)
    replayed = rows_of(spark, topics, target)
    assert len(replayed) == 2
    for original, row in zip(originals, replayed, strict=True):
        said = row["properties"]
        assert said[BORN] == str(round(original["bornTimestamp"].timestamp() * 1000))
        assert said[STORED] == str(round(original["storeTimestamp"].timestamp() * 1000))
        assert said["shop"] == "berlin"
        assert said[ORIGIN_PROPERTY] == f"{source}:broker-a:0:{original['queueOffset']}"
        assert row["bornTimestamp"] > original["bornTimestamp"]


def test_a_replay_says_no_times_unasked(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    target = topics.make("-out")
    topics.send(topics.make("-in"), [b"1"])
    lake = archived(spark, topics, tmp_path)

    Replay(path=lake, to_topic=target, name_server=topics.cluster.name_server).run(spark)

    (row,) = rows_of(spark, topics, target)
    assert {BORN, STORED}.isdisjoint(row["properties"])


def test_an_archive_without_times_of_birth_is_told_before_anything_is_sent(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    target = topics.make("-out")
    topics.send(topics.make("-in"), [b"1"])
    lake = archived(spark, topics, tmp_path, columns="body,keys")
    job = Replay(
        path=lake, to_topic=target, original_times=True, name_server=topics.cluster.name_server
    )

    with pytest.raises(ConfigError, match="the archive has no column bornTimestamp"):
        job.run(spark)

    assert rows_of(spark, topics, target) == []


def test_a_replay_goes_to_the_brokers_of_the_source_however_the_option_is_spelt(
    spark: "SparkSession", topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = topics.make("-out")
    topics.send(topics.make("-in"), [b"1", b"2"])
    lake = archived(spark, topics, tmp_path)
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")

    Replay(path=lake, to_topic=target, source={"nameserver": topics.cluster.name_server}).run(spark)

    assert len(rows_of(spark, topics, target)) == 2


def test_the_plan_of_a_replay_says_how_much_is_sent_and_how_long_it_takes(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    source = topics.make("-in")
    topics.send(source, [bytes(500)] * 60, tags="a")
    topics.send(source, [bytes(500)] * 40, queue=1, tags="b")
    lake = archived(spark, topics, tmp_path)
    files = existing_table("parquet", lake).files()

    all_of_it = Replay(path=lake).plan(spark)
    a_part = Replay(path=lake, where="tags = 'b'", rate=2).plan(spark)

    assert all_of_it.facts["messages"] == 100
    assert all_of_it.facts["files"] == len(files)
    assert all_of_it.facts["bytes of files"] == sum(each.size_bytes for each in files)
    assert all_of_it.facts["bytes of bodies, about"] == pytest.approx(50_000, rel=0.05)
    assert "seconds, at least" not in all_of_it.facts
    assert a_part.facts["bytes of bodies, about"] == pytest.approx(20_000, rel=0.05)
    assert (a_part.facts["messages"], a_part.facts["seconds, at least"]) == (40, 20)


class Listener:
    """Is told what a job says, and how long it takes."""

    def __init__(self) -> None:
        self.expected: list[float] = []

    def __call__(self, text: str) -> None: ...

    def expect(self, seconds: float) -> None:
        self.expected.append(seconds)


@pytest.mark.parametrize(("rate", "expected"), [(40, [0.5]), (0, [])])
def test_a_replay_at_a_rate_says_how_long_it_takes(
    spark: "SparkSession", topics: Topics, tmp_path: Path, rate: int, expected: list[float]
) -> None:
    target = topics.make(f"-out-{rate}")
    topics.send(topics.make("-in"), [b"1"] * 20)
    lake = archived(spark, topics, tmp_path)
    listener = Listener()
    job = Replay(path=lake, to_topic=target, rate=rate, name_server=topics.cluster.name_server)

    report = job.run(spark, say=listener)

    assert listener.expected == expected
    assert report.facts["messages"] == 20


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_an_archive_may_have_no_partitions(
    kind: str, spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    source = topics.make("-in")
    topics.send(source, [b"1", b"2"], queue=0)
    topics.send(source, [b"3"], queue=1)

    lake = archived(spark, topics, tmp_path, format=kind, partition_by="")

    assert all("=" not in each.path for each in existing_table(kind, lake).files())
    rows = read_archive(spark, kind, lake).collect()
    assert {(row["topic"], bytes(row["body"])) for row in rows} == {
        (source, body) for body in (b"1", b"2", b"3")
    }
    checked = Verify(
        topics=source, path=lake, format=kind, name_server=topics.cluster.name_server, bodies=True
    ).run(spark)
    assert checked.is_good
    if kind == "delta":
        from deltalake import DeltaTable

        assert set(DeltaTable(lake).to_pyarrow_table()["topic"].to_pylist()) == {source}


# Where several topics begin


def positions(first: str, second: str, offsets: tuple[int, int]) -> str:
    table = {
        topic: {"broker-a": {"0": offset}}
        for topic, offset in zip((first, second), offsets, strict=True)
    }
    return msgspec.json.encode(table).decode()


def test_a_transformation_of_two_topics_begins_in_each_where_it_is_told(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    first, second = topics.make("-a", queues=1), topics.make("-b", queues=1)
    topics.send(first, [b"a0", b"a1", b"a2"])
    topics.send(second, [b"b0", b"b1", b"b2"])
    job = Transform(
        topics=f"{first},{second}",
        sql=f"SELECT body FROM `{first}` UNION ALL SELECT body FROM `{second}`",
        to_topic=topics.make("-out"),
        checkpoint=str(tmp_path / "checkpoint"),
        starting_offsets=positions(first, second, (2, 1)),
        name_server=topics.cluster.name_server,
    )

    planned, done = job.plan(spark), job.run(spark)

    assert planned.facts["messages"] == done.facts["messages read"] == 3
    assert planned.facts["begins with"].endswith("the offsets of the options")
    found = {bytes(row["body"]) for row in rows_of(spark, topics, job.to_topic)}
    assert found == {b"a2", b"b1", b"b2"}


def test_a_transformation_begins_at_a_time_of_one_of_its_topics(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    first, second = topics.make("-a", queues=1), topics.make("-b", queues=1)
    topics.send(first, [b"a0"])
    topics.send(second, [b"b0"])
    job = Transform(
        topics=f"{first},{second}",
        sql=f"SELECT body FROM `{first}` UNION ALL SELECT body FROM `{second}`",
        to_topic=topics.make("-out"),
        checkpoint=str(tmp_path / "checkpoint"),
        source={"startingOffsetsByTimestamp": f'{{"{first}": 32503680000000}}'},  # in a far future
        name_server=topics.cluster.name_server,
    )

    job.run(spark)

    assert [bytes(row["body"]) for row in rows_of(spark, topics, job.to_topic)] == [b"b0"]


def test_topics_as_tables_begin_and_end_where_they_are_told(
    spark: "SparkSession", topics: Topics
) -> None:
    first, second = topics.make("-a", queues=1), topics.make("-b", queues=1)
    topics.send(first, [b"a0", b"a1", b"a2"])
    topics.send(second, [b"b0", b"b1", b"b2"])
    bounds = {
        "startingOffsets": positions(first, second, (1, 0)),
        "endingoffsets": positions(first, second, (3, 1)),
    }

    register_topics(spark, [first, second], {**topics.options, **bounds})

    rows = spark.sql(f"SELECT body FROM `{first}` UNION ALL SELECT body FROM `{second}`").collect()
    assert {row["body"] for row in rows} == {"a1", "a2", "b0"}


# A group that shows the progress


def test_a_group_goes_on_while_a_filter_lets_nothing_through(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    source, group = topics.make("-in", queues=1), topics.name("-group")
    topics.send(source, [b"1"] * 5, tags="red")
    job = transform(
        topics,
        tmp_path,
        "SELECT body FROM {source}",
        source={"tags": "blue", "consumerGroup": group},
    )

    report = job.run(spark)

    assert report.facts["messages read"] == 0
    groups = spark.read.format("rocketmq").options(**topics.options, view="groups")
    (row,) = groups.option("consumerGroup", group).load(source).collect()
    assert (row["committedOffset"], row["lag"]) == (5, 0)


# What is sent again


def test_flags_of_messages_are_replayed(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.make("-in", queues=1), topics.make("-out", queues=1)
    topics.send(source, [b"1"], flag=7)
    topics.send(source, [b"2"])
    lake = archived(spark, topics, tmp_path)

    Replay(path=lake, to_topic=target, name_server=topics.cluster.name_server).run(spark)

    assert flags_of(spark, topics, target) == [7, 0]


def test_an_archive_without_flags_is_replayed_without_them(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.make("-in", queues=1), topics.make("-out", queues=1)
    topics.send(source, [b"1"], flag=7)
    lake = archived(spark, topics, tmp_path, columns="body")

    Replay(path=lake, to_topic=target, name_server=topics.cluster.name_server).run(spark)

    assert flags_of(spark, topics, target) == [0]


def flags_of(spark: "SparkSession", topics: Topics, topic: str) -> list[int]:
    frame = spark.read.format("rocketmq").options(**topics.options, columns="queueOffset,flag")
    return [row["flag"] for row in frame.load(topic).orderBy("queueOffset").collect()]


def test_a_replay_that_failed_sends_each_message_once_when_it_is_run_again(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.make("-in"), topics.make("-out", queues=3)
    topics.send(source, [b"%02d" % number for number in range(20)])
    topics.send(source, [b"%02d" % number for number in range(20, 40)], queue=1)
    lake = archived(spark, topics, tmp_path)
    job = Replay(
        path=lake,
        to_topic=target,
        sink={"delivery": "idempotent"},
        name_server=topics.cluster.name_server,
    )

    msgspec.structs.replace(job, limit=15).run(spark)  # as far as a failure let it come
    again, at_last = job.run(spark), msgspec.structs.replace(job, rate=1_000).run(spark)

    assert (again.facts["messages"], at_last.facts["messages"]) == (40, 40)
    replayed = rows_of(spark, topics, target)
    assert sorted(bytes(row["body"]) for row in replayed) == [b"%02d" % n for n in range(40)]
    for row in replayed:
        properties = row["properties"]
        assert properties["SPARK_ID"].startswith(f"{properties[ORIGIN_PROPERTY]}:")


def test_a_topic_that_nobody_makes_is_missed_before_anything_is_sent(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topics.send(topics.make("-in"), [b"1"])
    lake, sink = archived(spark, topics, tmp_path), {"delivery": "idempotent"}
    target, address = topics.name("-nowhere"), topics.cluster.name_server
    replay = Replay(path=lake, to_topic=target, name_server=address, sink=sink)
    transformed = transform(topics, tmp_path, "SELECT body FROM {source}", sink=sink)
    transformed.to_topic = target

    for attempt in (replay.plan, replay.run, transformed.plan):
        with pytest.raises(ConfigError, match=f"has the topic {target}, and .* makes none: make"):
            attempt(spark)


def test_a_replay_sends_messages_anew_unless_it_is_told_otherwise(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.make("-in"), topics.make("-out")
    topics.send(source, [b"1", b"2"])
    lake = archived(spark, topics, tmp_path)
    job = Replay(path=lake, to_topic=target, name_server=topics.cluster.name_server)

    job.run(spark)
    job.run(spark)

    assert len(rows_of(spark, topics, target)) == 4


def test_messages_of_a_topic_that_was_made_anew_are_others(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.make("-in", queues=1), topics.make("-out")
    sink = {"delivery": "idempotent"}
    for body in (b"old", b"new"):
        topics.send(source, [body])
        lake = archived(spark, topics, tmp_path / body.decode())
        Replay(path=lake, to_topic=target, sink=sink, name_server=topics.cluster.name_server).run(
            spark
        )
        topics.delete(source)
        topics.make("-in", queues=1)

    assert {bytes(row["body"]) for row in rows_of(spark, topics, target)} == {b"old", b"new"}
