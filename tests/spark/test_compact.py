"""Compaction beside those who read and write, and archives that are laid out in other ways."""

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import dataset

from emberq.pipelines.archive import COLUMNS, Archive
from emberq.pipelines.archived import existing_table, read_archive, read_by_tasks
from emberq.pipelines.checkpointed_table import TABLE_FILE
from emberq.pipelines.compact import Compact
from emberq.pipelines.tables import FORMATS, live_files
from emberq.pipelines.verify import Verify
from tests.spark.cluster import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_S = 86_400


def bodies(count: int, first: int = 0) -> list[bytes]:
    return [json.dumps({"order": n}).encode() for n in range(first, first + count)]


def archive(topics: Topics, topic: str, lake: Path, **options: Any) -> Archive:
    return Archive(topics=topic, path=str(lake), name_server=topics.cluster.name_server, **options)


def archived_twice(
    spark: "SparkSession", topics: Topics, topic: str, lake: Path, **options: Any
) -> None:
    for first in (0, 10):
        topics.send(topic, bodies(10, first=first))
        archive(topics, topic, lake, **options).run(spark)


def orders(rows: list[Any]) -> list[int]:
    return sorted(json.loads(bytes(row["body"]))["order"] for row in rows)


def is_whole(spark: "SparkSession", topics: Topics, topic: str, lake: Path, kind: str) -> bool:
    job = Verify(
        topics=topic,
        path=str(lake),
        format=kind,
        bodies=True,
        name_server=topics.cluster.name_server,
    )
    return job.run(spark).is_good


def test_a_query_that_listed_the_files_before_they_were_joined_reads_them(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    archived_twice(spark, topics, topic, tmp_path)
    two_days_ago = time.time() - 2 * DAY_S
    for each in existing_table("parquet", str(tmp_path)).files():
        os.utime(tmp_path / each.path, (two_days_ago, two_days_ago))
    listed = read_archive(spark, "parquet", str(tmp_path))

    facts = Compact(path=str(tmp_path)).run().facts

    assert (facts["files joined"], facts["files deleted"]) == (2, 0)
    assert orders(listed.collect()) == list(range(20))
    assert is_whole(spark, topics, topic, tmp_path, "parquet")
    # Whoever reads the whole folder, as `live_files` spares them, sees each message twice now.
    assert dataset.dataset(live_files(str(tmp_path)), partitioning="hive").count_rows() == 20
    assert spark.read.parquet(str(tmp_path)).count() == 40


@pytest.mark.parametrize("kind", FORMATS)
def test_archives_of_topics_with_odd_names_are_read_back(
    kind: str, spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make("-%DLQ%a|b")
    archived_twice(spark, topics, topic, tmp_path, format=kind)
    if kind != "iceberg":
        assert Compact(path=str(tmp_path), format=kind).run().facts["files joined"] == 2

    rows = read_archive(spark, kind, str(tmp_path)).collect()

    assert orders(rows) == list(range(20))
    assert {row["topic"] for row in rows} == {topic}
    assert is_whole(spark, topics, topic, tmp_path, kind)


@pytest.mark.parametrize(("kind", "text"), [*((kind, "none") for kind in FORMATS), ("delta", "")])
def test_an_archive_may_have_no_partitions(
    kind: str, text: str, spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    archived_twice(spark, topics, topic, tmp_path, format=kind, partition_by=text)

    files = existing_table(kind, str(tmp_path)).files()
    assert [("/" in each.path, each.partition) for each in files] == [(False, {})] * 2
    if kind != "iceberg":
        assert Compact(path=str(tmp_path), format=kind).run().facts["files after"] == 1
    assert is_whole(spark, topics, topic, tmp_path, kind)


def test_an_archive_whose_columns_were_changed_is_compacted(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    for first, columns in ((0, "body"), (10, "body,keys,properties")):
        archived_twice_from(spark, topics, topic, tmp_path, first, columns)
    before = keys(read_archive(spark, "parquet", str(tmp_path)))

    facts = Compact(path=str(tmp_path)).run().facts

    assert (facts["files joined"], facts["files after"]) == (4, 2)
    after = read_archive(spark, "parquet", str(tmp_path))
    assert orders(after.collect()) == list(range(20))
    assert before == keys(after) == [None] * 10 + ["k"] * 10
    table = existing_table("parquet", str(tmp_path))
    schema = table.schema()
    assert schema is not None
    by_tasks = read_by_tasks(spark, str(tmp_path), [each.path for each in table.files()], schema)
    assert keys(by_tasks) == before
    assert by_tasks.where("size(properties) > 0").count() == 10


def keys(rows: "DataFrame") -> list[str | None]:
    return [row["keys"] for row in rows.sort("queueOffset").collect()]


def test_a_folder_that_is_partitioned_in_two_ways_can_be_read(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    """Early versions let a run partition a table in another way than those before."""
    topic = topics.make()
    topics.send(topic, bodies(10))
    archive(topics, topic, tmp_path / "one").run(spark)
    topics.send(topic, bodies(10, first=10))
    (tmp_path / "one" / "_checkpoint" / TABLE_FILE).unlink()
    archive(
        topics,
        topic,
        tmp_path / "one" / "two",
        partition_by="topic",
        checkpoint=str(tmp_path / "one" / "_checkpoint"),
    ).run(spark)
    table = existing_table("parquet", str(tmp_path / "one"))
    for each in existing_table("parquet", str(tmp_path / "one" / "two")).files():
        (tmp_path / "one" / "two" / each.path).rename(tmp_path / "one" / each.path)
        table.replace([], [each])

    rows = read_archive(spark, "parquet", str(tmp_path / "one")).collect()

    assert orders(rows) == list(range(20))
    assert {row["topic"] for row in rows} == {topic}
    assert sum(row["date"] is None for row in rows) == 10


def test_a_table_that_an_early_version_made_takes_what_it_has_columns_for(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    early = ",".join(name for name in COLUMNS if name != "flag")
    for kind in FORMATS:
        lake = tmp_path / kind
        topics.send(topic, bodies(10))
        archive(topics, topic, lake, format=kind, columns=early).run(spark)
        topics.send(topic, bodies(10, first=10))

        archive(topics, topic, lake, format=kind).run(spark)

        frame = read_archive(spark, kind, str(lake))
        assert ("flag" in frame.columns) == (kind == "parquet")
        assert is_whole(spark, topics, topic, lake, kind)
        if kind == "parquet":
            flags = [row["flag"] for row in frame.sort("queueOffset").collect()]
            assert flags == [None] * 10 + [0] * 10


def archived_twice_from(
    spark: "SparkSession", topics: Topics, topic: str, lake: Path, first: int, columns: str
) -> None:
    for place in (first, first + 5):
        topics.send(topic, bodies(5, first=place), keys="k")
        archive(topics, topic, lake, columns=columns).run(spark)
