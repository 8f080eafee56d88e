"""Checkpoints that are reached through Spark's file systems, as those in HDFS are."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from emberq.errors import ConfigError
from emberq.pipelines.archive import Archive
from emberq.pipelines.archived import read_archive
from emberq.pipelines.checkpoints import checkpoint_at, forget_drafts
from emberq.pipelines.verify import Verify
from tests.spark.cluster import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def elsewhere(spark: "SparkSession", tmp_path: Path) -> str:
    """A file system of Hadoop's that Arrow does not know: names that stand for a folder here."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    name = f"t{abs(hash(tmp_path))}"
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set(f"fs.viewfs.mounttable.{name}.link./lake", f"file://{folder}")
    return f"viewfs://{name}/lake"


def test_files_are_written_once_read_and_deleted(spark: "SparkSession", elsewhere: str) -> None:
    found = checkpoint_at(elsewhere, spark)

    assert found.write_new("emberq-writer", b"first")
    assert not found.write_new("emberq-writer", b"second")

    assert found.read("emberq-writer") == b"first"
    assert found.names("offsets") == []
    found.delete("emberq-writer")
    assert found.write_new("emberq-writer", b"third")


def test_drafts_of_a_first_batch_are_forgotten_there(
    spark: "SparkSession", elsewhere: str, tmp_path: Path
) -> None:
    draft = tmp_path / "elsewhere" / "checkpoint" / "offsets" / ".0.4b1f.tmp"
    draft.parent.mkdir(parents=True)
    draft.write_text("v1")

    forget_drafts(f"{elsewhere}/checkpoint", spark)

    assert not draft.exists()


def test_an_archive_goes_on_and_is_verified_by_a_checkpoint_elsewhere(
    spark: "SparkSession", topics: Topics, elsewhere: str, tmp_path: Path
) -> None:
    topic = topics.make()
    checkpoint = f"{elsewhere}/checkpoint"
    options: dict[str, Any] = {
        "topics": topic,
        "path": str(tmp_path / "lake"),
        "checkpoint": checkpoint,
    }
    job = Archive(name_server=topics.cluster.name_server, **options)
    topics.send(topic, [b"1", b"2", b"3"])
    job.run(spark)
    topics.send(topic, [b"4", b"5"])

    planned = job.plan(spark)
    checked = Verify(name_server=topics.cluster.name_server, **options).run(spark)
    resumed = job.run(spark)

    assert planned.facts["begins with"] == "where the checkpoint says"
    assert planned.facts["messages"] == 2
    assert checked.is_good, checked.facts
    assert checked.facts["expected"] == 3
    assert resumed.facts["messages"] == 2
    assert read_archive(spark, "parquet", str(tmp_path / "lake")).count() == 5


def test_a_file_system_that_spark_does_not_have_is_named(spark: "SparkSession") -> None:
    with pytest.raises(ConfigError, match="s3a://lake/checkpoint: Spark cannot reach"):
        checkpoint_at("s3a://lake/checkpoint", spark)
