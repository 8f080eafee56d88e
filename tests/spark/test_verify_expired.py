"""What `verify` says of messages that were gone before they were archived."""

from pathlib import Path
from typing import TYPE_CHECKING

from emberq.pipelines.archive import Archive
from emberq.pipelines.verify import Verify
from tests.spark.cluster import Topics
from tests.spark.test_losses import (
    bodies,
    cluster,  # noqa: F401 - fixtures: a broker that deletes what it is told to
    expire,
    producer,  # noqa: F401
    send,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_messages_that_retention_took_from_the_archive_are_counted_until_they_are_given_up(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make(queues=1)
    lake, address = str(tmp_path / "lake"), topics.cluster.name_server
    send(topics, topic, bodies(0, 10))
    Archive(topics=topic, path=lake, name_server=address).run(spark)
    send(topics, topic, bodies(10, 120))
    first = expire(spark, topics, topic)
    job = Verify(topics=topic, path=lake, name_server=address, bodies=True)

    behind = job.run(spark)
    Archive(topics=topic, path=lake, name_server=address, source={"failOnDataLoss": "false"}).run(
        spark
    )
    level = job.run(spark)

    assert behind.tables[0].rows == [[topic, "broker-a", 0, 0, 10, 0, 0, first - 10]]
    assert "expired before they were archived" in behind.facts["verdict"]
    assert not behind.is_good
    assert level.tables[0].rows == [
        [topic, "broker-a", 0, 120 - first, 130 - first, first - 10, 0, 0]
    ]
    assert not level.is_good
