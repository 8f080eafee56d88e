"""A project for declarative pipelines, as the command writes it and as Spark runs it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.cluster import Topics
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


def run(project: Path, *words: str) -> None:
    conf = [word for key, value in SETTINGS.items() for word in ("--conf", f"{key}={value}")]
    done = pipelines("run", str(project), *words, *conf, "--remote", "local[2]")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(3 * RUN_TIMEOUT_S)
def test_each_run_of_a_project_reads_what_came_since_the_last(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    project = tmp_path / "shop"
    written = pipelines(
        "init", str(project), "--topics", topic, "--name-server", topics.cluster.name_server
    )
    assert written.returncode == 0, written.stderr
    table = next((project / "transformations").glob("*.py")).stem

    topics.send(topic, [b"first"], queue=0, tags="a")
    run(project)
    topics.send(topic, [b"second", b"third"], queue=1, tags="b")
    run(project)

    rows = spark.read.parquet(str(project / "spark-warehouse" / table)).select("body").collect()
    assert sorted(row.body for row in rows) == ["first", "second", "third"]
    hours = spark.read.parquet(str(project / "spark-warehouse" / f"{table}_per_hour"))
    sums = hours.groupBy("tags").sum("messages", "bytes").collect()
    assert {tuple(row) for row in sums} == {("a", 1, 5), ("b", 2, 11)}


def test_a_folder_without_a_project_is_told(tmp_path: Path) -> None:
    done = pipelines("run", str(tmp_path))

    assert done.returncode == 1
    assert "emberq spark pipelines init writes one" in done.stderr
