"""Queries of one topic and of the same rows as Parquet, by turns in one session."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.spark.dropping_sinks import ColumnSink, RowSink
from benchmarks.spark.goal_figures import SMALL, Measured, Query, Round
from benchmarks.spark.other_sources import PreparedSource, TupleSource
from benchmarks.spark.tree_times import grown_s, settled_times, tree_times
from emberq.pipelines.archive import Archive

TOPIC = "bench"
SINK_TOPIC = "bench-sink"
FULL_COLUMNS = (
    "topic, brokerName, queueId, queueOffset, keys, tags, body, bornTimestamp, storeTimestamp, "
    "properties"
)
NO_MAP = FULL_COLUMNS.removesuffix(", properties")
COMPRESSION = "snappy"  # Spark's own default
# The slowest by far: a part of the rows is enough.
TUPLES_MAX = 200_000
# What writes files is slow, and rounds differ less.
WRITE_ROUNDS_MAX = 3
_WRITES = (
    *(Query.COPY, Query.WRITTEN, Query.ARCHIVE),
    *(Query.SINK, Query.FRAMES, Query.ROW_FRAMES),
)

Works = dict[Query, Callable[[], None]]


class PinnedQueries:
    def __init__(
        self, spark: Any, address: str, home: Path, size: int, count: int, without: set[int]
    ) -> None:
        """`without` are processes that serve, whose CPU does not count."""
        self._spark = spark
        self._address = address
        self._home = home
        self._size = size
        self._count = count
        self._without = without
        self._topic = f"{TOPIC}-{size}"
        self._parquet = str(home / f"rows-{size}.parquet")
        for source in (TupleSource, PreparedSource, ColumnSink, RowSink):
            spark.dataSource.register(source)

    def measured(self, rounds: int, say: Callable[[str], None]) -> list[Measured]:
        self._source().write.parquet(self._parquet)
        found: dict[Query, list[Round]] = {}
        works = self._works()
        for number in range(rounds + 1):  # the first warms up
            for query, work in works.items():
                if query in _WRITES and number > WRITE_ROUNDS_MAX:
                    continue
                done = self._round(work)
                say(f"{number or 'warm-up'}: {self._size:,} B, {query}: {done.seconds:.2f} s")
                if number:
                    found.setdefault(query, []).append(done)
        return [
            Measured(query=query, size=self._size, count=self._rows_of(query), rounds=each)
            for query, each in found.items()
        ]

    def count_s(self) -> float:
        """Of the topic, by its offsets; the quicker of two."""
        counts = self._source(view="offsets").selectExpr("sum(count)")
        times = []
        for _ in range(2):
            began = time.perf_counter()
            if counts.first()[0] != self._count:
                raise RuntimeError(f"not the {self._count:,} rows that were sent")
            times.append(time.perf_counter() - began)
        return min(times)

    def _rows_of(self, query: Query) -> int:
        return min(TUPLES_MAX, self._count) if query is Query.TUPLES else self._count

    def _works(self) -> Works:
        works: Works = {
            Query.PARQUET: lambda: _scan(self._rows()),
            Query.SOURCE: lambda: _scan(self._source()),
            Query.NUMPY: lambda: _scan(self._source(decoder="vector")),
            Query.PREPARED: lambda: _scan(self._read("prepared")),
        }
        if self._size == SMALL:
            ends = f'{{"{self._topic}":{{"broker-a":{{"0":{self._rows_of(Query.TUPLES)}}}}}}}'
            works |= {
                Query.LOCAL: lambda: _scan(self._source(scan="local")),
                Query.TUPLES: lambda: _scan(self._read("tuples", endingOffsets=ends)),
                Query.PARQUET_NO_MAP: lambda: _scan(self._rows().selectExpr(*NO_MAP.split(", "))),
                Query.SOURCE_NO_MAP: lambda: _scan(self._source(columns=NO_MAP)),
                Query.NUMPY_NO_MAP: lambda: _scan(self._source(columns=NO_MAP, decoder="vector")),
                Query.PREPARED_NO_MAP: lambda: _scan(self._read("prepared", columns=NO_MAP)),
                Query.BODY: lambda: _scan(self._source(columns="queueOffset,body")),
                Query.INDEX: lambda: _scan(self._source(view="index")),
                Query.SINK: self._send,
                Query.FRAMES: lambda: self._drop(ColumnSink.name()),
                Query.ROW_FRAMES: lambda: self._drop(RowSink.name()),
            }
        return works | {
            Query.COPY: lambda: self._write(self._rows()),
            Query.WRITTEN: lambda: self._write(self._source()),
            Query.ARCHIVE: self._archive,
        }

    def _rows(self) -> Any:
        return self._spark.read.parquet(self._parquet)

    def _source(self, **options: str) -> Any:
        return self._read("rocketmq", **options)

    def _read(self, source: str, **more: str) -> Any:
        options = {"nameServer": self._address, "maxBytesPerPartition": "2g", **more}
        return self._spark.read.format(source).options(**options).load(self._topic)

    def _write(self, frame: Any) -> None:
        frame.write.mode("overwrite").option("compression", COMPRESSION).parquet(self._target)

    def _archive(self) -> None:
        job = Archive(
            topics=self._topic,
            path=self._target,
            name_server=self._address,
            compression=COMPRESSION,
            columns=FULL_COLUMNS,
            source={"maxBytesPerPartition": "2g"},
        )
        done = job.run(self._spark).facts["messages"]
        if done != self._count:
            raise RuntimeError(f"{done} of {self._count:,} messages were archived")

    def _send(self) -> None:
        writer = self._outgoing().write.format("rocketmq").mode("append")
        writer.option("nameServer", self._address).save(SINK_TOPIC)

    def _drop(self, sink: str) -> None:
        self._outgoing().write.format(sink).mode("append").save()

    def _outgoing(self) -> Any:
        return self._rows().select("body", "keys", "tags").coalesce(1)

    @property
    def _target(self) -> str:
        return str(self._home / "written")

    def _round(self, work: Callable[[], None]) -> Round:
        shutil.rmtree(self._target, ignore_errors=True)
        root = os.getpid()
        before, began = tree_times(root, self._without), time.perf_counter()
        work()
        seconds = time.perf_counter() - began
        cpu_s = grown_s(before, settled_times(root, self._without))
        return Round(seconds=round(seconds, 3), cpu_s=round(cpu_s, 2))


def _scan(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()
