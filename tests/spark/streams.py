"""Queries that tests start, and the sink that shows what they wrote."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.spark.cluster import DEADLINE_S


class Sink:
    """Collects what a query writes, batch by batch; may fail on demand."""

    def __init__(self) -> None:
        self.batches: dict[int, list[bytes]] = {}
        self.fails_at: int | None = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        bodies = [bytes(row.body) for row in frame.select("body").collect()]
        if batch == self.fails_at:
            raise RuntimeError("the sink is full")
        self.batches[batch] = bodies

    @property
    def bodies(self) -> list[bytes]:
        return sorted(body for bodies in self.batches.values() for body in bodies)


class Streams:
    """Queries with the same connection options; `stop` ends what still runs."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str], folder: Path) -> None:
        self._spark = spark
        self._options = options
        self._folder = folder
        self._running: list[StreamingQuery] = []

    def frame(self, topic: str, **options: Any) -> DataFrame:
        reader = self._spark.readStream.format("rocketmq").options(**self._options)
        return reader.options(**{name: str(value) for name, value in options.items()}).load(topic)

    def start(
        self, topic: str, sink: Sink, *, checkpoint: str = "c", once: bool = False, **options: Any
    ) -> StreamingQuery:
        writer = self.frame(topic, **options).writeStream.foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(self._folder / checkpoint))
        return self.started(writer.trigger(availableNow=True) if once else writer)

    def started(self, writer: DataStreamWriter) -> StreamingQuery:
        query = writer.start()
        self._running.append(query)
        return query

    def run(self, topic: str, sink: Sink, **options: Any) -> None:
        """All that is there now."""
        query = self.start(topic, sink, once=True, **options)
        assert query.awaitTermination(int(DEADLINE_S))

    def stop(self) -> None:
        for query in self._running:
            query.stop()


def numbered(first: int, stop: int) -> list[bytes]:
    return [b"%03d" % number for number in range(first, stop)]
