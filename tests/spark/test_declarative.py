"""A project for declarative pipelines, as the command writes it and as Spark runs it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from emberq.spark import worker_python
from tests.spark.cluster import Topics
from tests.spark.servers import connect_server
from tests.spark.session import SETTINGS, environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUN_TIMEOUT_S = 280


def pipelines(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "emberq", "spark", "pipelines", *words]
    return subprocess.run(
        command,
        env={**os.environ, **environment()},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )


def run(project: Path, remote: str, *words: str) -> None:
    done = pipelines("run", str(project), *words, "--remote", remote)
    assert done.returncode == 0, done.stdout + done.stderr


def init(project: Path, topics: Topics) -> tuple[str, str]:
    """A project of one topic; the topic, and its table."""
    topic = topics.make()
    words = ("--topics", topic, "--name-server", topics.cluster.name_server)
    written = pipelines("init", str(project), *words)
    assert written.returncode == 0, written.stderr
    return topic, next((project / "transformations").glob("*.py")).stem


def bodies(spark: "SparkSession", table: Path) -> list[str]:
    return sorted(row.body for row in spark.read.parquet(str(table)).select("body").collect())


@pytest.mark.timeout(3 * RUN_TIMEOUT_S)
def test_each_run_of_a_project_reads_what_came_since_the_last(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    project = tmp_path / "shop"
    topic, table = init(project, topics)
    conf = [word for key, value in SETTINGS.items() for word in ("--conf", f"{key}={value}")]

    topics.send(topic, [b"first"], queue=0, tags="a")
    run(project, "local[2]", *conf)
    topics.send(topic, [b"second", b"third"], queue=1, tags="b")
    run(project, "local[2]", *conf)

    assert bodies(spark, project / "spark-warehouse" / table) == ["first", "second", "third"]
    hours = spark.read.parquet(str(project / "spark-warehouse" / f"{table}_per_hour"))
    sums = hours.groupBy("tags").sum("messages", "bytes").collect()
    assert {tuple(row) for row in sums} == {("a", 1, 5), ("b", 2, 11)}


@pytest.mark.timeout(2 * RUN_TIMEOUT_S)
def test_topics_of_any_name_have_tables_that_count_bytes(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    project = tmp_path / "2024"
    names = ["2024-orders", "class", "2024_orders"]
    for name in names:
        topics.producer.create_topic(name, queues=1)
        topics.send(name, ["größe".encode(), b"\xff\xfe\x00"])
    words = ("--topics", ",".join(names), "--name-server", topics.cluster.name_server)
    written = pipelines("init", str(project), *words)
    assert written.returncode == 0, written.stderr
    conf = [word for key, value in SETTINGS.items() for word in ("--conf", f"{key}={value}")]

    run(project, "local[2]", *conf)

    warehouse = project / "spark-warehouse"
    tables = ("topic_2024_orders", "topic_class", "topic_2024_orders_2")
    for name, table in zip(names, tables, strict=True):
        rows = spark.read.parquet(str(warehouse / table)).select("topic", "body", "bodySize")
        assert {tuple(row) for row in rows.collect()} == {(name, "größe", 7), (name, None, 3)}
        hours = spark.read.parquet(str(warehouse / f"{table}_per_hour"))
        assert hours.groupBy().sum("messages", "bytes").collect()[0] == (2, 10)


@pytest.mark.timeout(3 * RUN_TIMEOUT_S)
def test_a_connect_server_runs_a_project_and_may_read_all_again(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    project, warehouse = tmp_path / "shop", tmp_path / "warehouse"
    topic, table = init(project, topics)
    place = f"spark.sql.warehouse.dir={warehouse}"

    with connect_server(tmp_path, worker_python(), place) as address:
        topics.send(topic, [b"first"], queue=0)
        run(project, address)
        topics.send(topic, [b"second"], queue=1)
        run(project, address)
        since, files = bodies(spark, warehouse / table), set((warehouse / table).glob("*.parquet"))
        run(project, address, "--full-refresh")
        again = bodies(spark, warehouse / table)

    assert since == again == ["first", "second"]
    assert files.isdisjoint((warehouse / table).glob("*.parquet"))


def test_a_folder_without_a_project_is_told(tmp_path: Path) -> None:
    done = pipelines("run", str(tmp_path))

    assert done.returncode == 1
    assert "emberq spark pipelines init writes one" in done.stderr
