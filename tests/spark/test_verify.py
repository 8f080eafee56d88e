"""What `verify` finds, and what it does not hold against an archive."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow.parquet as pq
import pytest

from emberq.errors import PipelineError
from emberq.pipelines.archive import Archive
from emberq.pipelines.archived import existing_table, read_archive
from emberq.pipelines.job import Report
from emberq.pipelines.verify import Verify
from tests.spark.cluster import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def bodies(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


class Lake:
    """An archive of one test's topics."""

    def __init__(self, spark: "SparkSession", topics: Topics, folder: Path) -> None:
        self._spark = spark
        self._topics = topics
        self.folder = folder / "lake"

    def archive(self, names: str, **options: Any) -> Report:
        job = Archive(
            topics=names,
            path=str(self.folder),
            name_server=self._topics.cluster.name_server,
            **options,
        )
        return job.run(self._spark)

    def verify(self, names: str, **options: Any) -> Report:
        job = Verify(
            topics=names,
            path=str(self.folder),
            name_server=self._topics.cluster.name_server,
            **options,
        )
        return job.run(self._spark)


@pytest.fixture
def lake(spark: "SparkSession", topics: Topics, tmp_path: Path) -> Lake:
    return Lake(spark, topics, tmp_path)


def test_what_is_archived_beyond_the_position_hides_no_gap(
    lake: Lake, topics: Topics, tmp_path: Path
) -> None:
    """As after a kill between the table's commit and Spark's: the table is ahead."""
    topic = topics.make(queues=1)
    topics.send(topic, bodies(10))
    lake.archive(topic)
    checkpoint = lake.folder / "_checkpoint"
    shutil.copytree(checkpoint, tmp_path / "before")
    topics.send(topic, bodies(10, first=10))
    lake.archive(topic)
    shutil.rmtree(checkpoint)
    shutil.copytree(tmp_path / "before", checkpoint)
    assert lake.verify(topic).is_good
    table = existing_table("parquet", str(lake.folder))
    first = min(table.files(), key=lambda each: each.first_offset)

    table.replace([first.path], [])
    report = lake.verify(topic)

    assert (report.facts["expected"], report.facts["missing"]) == (10, 10)
    assert not report.is_good


def test_a_topic_that_was_never_archived_is_missing(lake: Lake, topics: Topics) -> None:
    archived, other = topics.make("-a"), topics.make("-b")
    topics.send(archived, bodies(3))
    topics.send(other, bodies(4))
    lake.archive(archived)

    report = lake.verify(f"{archived},{other}")

    assert (report.facts["missing"], report.is_good) == (4, False)


def test_a_queue_that_no_broker_has_is_not_passed_over(lake: Lake, topics: Topics) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, bodies(3))
    lake.archive(topic)
    offsets = lake.folder / "_checkpoint" / "offsets" / "0"
    *head, line = offsets.read_text().splitlines()
    known = msgspec.json.decode(line)
    known[topic]["broker-b"] = {"0": 5}
    offsets.write_text("\n".join([*head, msgspec.json.encode(known).decode()]))

    report = lake.verify(topic)

    assert report.facts["queues that no broker has"] == 1
    assert report.tables[-1].rows == [[topic, "broker-b", 0]]
    assert not report.is_good


def test_an_empty_topic_without_a_table_agrees_and_a_full_one_has_no_table(
    lake: Lake, topics: Topics
) -> None:
    topic = topics.make(queues=1)
    lake.archive(topic)
    assert lake.verify(topic, bodies=True).is_good

    topics.send(topic, bodies(1))
    shutil.rmtree(lake.folder)

    with pytest.raises(PipelineError, match="there is no parquet table with messages"):
        lake.verify(topic)


def test_an_archive_with_a_filter_is_compared_with_what_passes_it(
    lake: Lake, topics: Topics
) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, bodies(4), tags="red")
    topics.send(topic, bodies(3), tags="blue")
    source = {"tags": "red"}
    lake.archive(topic, source=source)

    report = lake.verify(topic, source=source, bodies=True)

    assert (report.facts["expected"], report.facts["archived"]) == (4, 4)
    assert report.is_good
    assert lake.verify(topic).facts["missing"] == 3


def test_a_body_that_differs_is_named(lake: Lake, topics: Topics) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, bodies(5))
    lake.archive(topic)
    table = existing_table("parquet", str(lake.folder))
    (file,) = table.files()
    rows = pq.read_table(lake.folder / file.path, partitioning=None)
    changed = rows["body"].to_pylist()
    changed[3] = b"another"
    place = rows.column_names.index("body")
    pq.write_table(
        rows.set_column(place, rows.schema.field(place), [changed]), lake.folder / file.path
    )
    size = (lake.folder / file.path).stat().st_size
    table.replace([file.path], [msgspec.structs.replace(file, size_bytes=size)])

    report = lake.verify(topic, bodies=True)

    assert (report.facts["missing"], report.facts["bodies that differ"]) == (0, 1)
    assert report.tables[-1].rows == [[topic, "broker-a", 0, 3]]


def test_messages_of_a_topic_that_was_made_anew_are_not_there_twice(
    lake: Lake, topics: Topics
) -> None:
    topic, lenient = topics.make(queues=1), {"failOnDataLoss": "false"}
    topics.send(topic, bodies(10))
    lake.archive(topic)
    topics.delete(topic)
    topics.make(queues=1)
    topics.send(topic, bodies(7, first=50))
    not_yet = lake.verify(topic, bodies=True)

    lake.archive(topic, source=lenient)
    level = lake.verify(topic, bodies=True)

    assert (not_yet.facts["missing"], not_yet.facts["bodies that differ"]) == (7, 7)
    facts = level.facts
    assert (facts["expected"], facts["archived"], facts["twice"]) == (7, 17, 0)
    assert facts["bodies that differ"] == 0
    assert level.is_good


def test_topics_named_by_numbers_are_read_back_as_text(
    lake: Lake, spark: "SparkSession", topics: Topics
) -> None:
    for name in ("007", "2024"):
        topics.producer.create_topic(name, queues=1)
        topics.send(name, bodies(2))
    lake.archive("007,2024")

    rows = read_archive(spark, "parquet", str(lake.folder)).collect()

    assert {row["topic"] for row in rows} == {"007", "2024"}
    assert lake.verify("007,2024", bodies=True).is_good


def test_an_archive_may_begin_somewhere_else(lake: Lake, topics: Topics) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, bodies(5))
    offsets = msgspec.json.encode({topic: {"broker-a": {"0": 3}}}).decode()

    report = lake.archive(topic, source={"startingOffsets": offsets})

    assert report.facts["messages"] == 2
