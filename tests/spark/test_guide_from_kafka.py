"""The page for people who know Kafka: its code runs as it stands there."""

import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.cluster import DEADLINE_S, Topics

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "spark-from-kafka.md"
BATCH, STREAM = re.findall(r"```python\n# EmberQ\n(.*?)```", PAGE.read_text(), re.DOTALL)


def run(code: str, topics: Topics, spark: SparkSession, **names: str) -> dict[str, Any]:
    """The page's code, with topics of this test instead of the page's."""
    code = code.replace("127.0.0.1:9876", topics.cluster.name_server)
    for name, own in names.items():
        code = re.sub(rf"(?<=[\"']){name}(?=[\"'])", own, code)
    scope: dict[str, Any] = {"spark": spark}
    exec(code, scope)
    return scope


def test_the_batch_of_the_page_runs(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, [b"one"], keys="k")

    scope = run(BATCH, topics, spark, orders=topic)

    assert [tuple(row) for row in scope["orders"].collect()] == [("k", "one")]


def test_the_stream_of_the_page_runs(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    source, target = topics.make("-in"), topics.make("-out")
    topics.send(source, [b"one", b"two"], keys="k")
    code = STREAM.replace("state/checked", str(tmp_path / "state"))

    scope = run(code, topics, spark, orders=source, checked=target, checker=topics.name("-g"))
    assert scope["query"].awaitTermination(int(DEADLINE_S))

    frame = spark.read.format("rocketmq").options(**topics.options).load(target)
    assert sorted((row.keys, bytes(row.body)) for row in frame.collect()) == [
        ("k", b"one"),
        ("k", b"two"),
    ]
