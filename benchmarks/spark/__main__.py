"""`make bench PART=spark`: rows per second and CPU per row, against Parquet of the same rows.

Interleaved rounds in one session on one core's worth of tasks, into Spark's `noop` sink; the best
round of each counts. CPU is that of the JVM and the Python workers, not of the broker.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from benchmarks import machine
from benchmarks.spark.filling import fill
from benchmarks.spark.session import local_session
from benchmarks.spark.tree_times import grown_s, tree_times
from emberq.spark.decode.vector import HAS_COMPILED
from emberq.testing.local_broker import run_broker
from emberq.testing.local_nameserver import run_name_server

RESULTS = Path(__file__).parents[1] / "results"
BODY_SIZES_BYTES = (200, 1024)
TOPIC = "bench"
FULL_COLUMNS = (
    "topic, brokerName, queueId, queueOffset, keys, tags, body, bornTimestamp, storeTimestamp, "
    "properties"
)
NO_MAP = FULL_COLUMNS.removesuffix(", properties")


# By name, what makes a frame.
Queries = dict[str, Callable[[], Any]]


class Figure(Struct, kw_only=True):
    name: str
    body_size_bytes: int
    rows_per_s: float
    cpu_us_per_row: float


def main() -> int:
    arguments = _arguments()
    count, rounds = (50_000, 1) if arguments.quick else (arguments.rows, arguments.rounds)
    with tempfile.TemporaryDirectory(prefix="emberq-bench-") as folder:
        home = Path(folder)
        with run_name_server(home / "namesrv") as server:
            address = f"{server.host}:{server.port}"
            keys = {"brokerIP1": "127.0.0.1", "mappedFileSizeCommitLog": str(256 << 20)}
            with run_broker(home / "broker", name_servers=address, config=keys) as broker:
                for size in BODY_SIZES_BYTES:
                    fill(address, f"{TOPIC}-{size}", count, size=size, queues=1)
                without = {server.program.process.pid, broker.program.process.pid}
                figures = _measure(home, address, count, rounds, without)
    _print(figures, count)
    _store(figures, count, rounds, arguments.output)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round of everything")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="store the figures here")
    return parser.parse_args()


def _measure(home: Path, address: str, count: int, rounds: int, without: set[int]) -> list[Figure]:
    spark = local_session(home, "local[1]")
    figures: list[Figure] = []
    for size in BODY_SIZES_BYTES:
        parquet = str(home / f"rows-{size}.parquet")
        measured = _Measured(spark, address, size, count, without)
        measured.source().write.parquet(parquet)
        small, _ = BODY_SIZES_BYTES
        queries = measured.queries(parquet) if size == small else measured.full_rows(parquet)
        figures += measured.best_of(queries, rounds)
        if size == small:
            figures.append(measured.sink(parquet))
    spark.stop()
    return figures


class _Measured:
    """Queries of one topic."""

    def __init__(self, spark: Any, address: str, size: int, count: int, without: set[int]) -> None:
        self._spark = spark
        self._address = address
        self._size = size
        self._count = count
        self._without = without

    def source(self, **more: str) -> Any:
        options = {"nameServer": self._address, "maxBytesPerPartition": "2g", **more}
        return self._spark.read.format("rocketmq").options(**options).load(f"{TOPIC}-{self._size}")

    def full_rows(self, parquet: str) -> Queries:
        return {
            "Parquet, all columns": lambda: self._spark.read.parquet(parquet),
            "source, all columns": self.source,
            "source, all columns, decoder=vector": lambda: self.source(decoder="vector"),
        }

    def queries(self, parquet: str) -> Queries:
        source = self.source
        return {
            **self.full_rows(parquet),
            "source, all columns, scan=local": lambda: source(scan="local"),
            "source, all columns, decoder=scalar": lambda: source(decoder="scalar"),
            "Parquet, without the map": lambda: self._spark.read.parquet(parquet).selectExpr(
                *NO_MAP.split(", ")
            ),
            "source, without the map": lambda: source(columns=NO_MAP),
            "source, without the map, decoder=vector": lambda: source(
                columns=NO_MAP, decoder="vector"
            ),
            "source, body and offset": lambda: source(columns="queueOffset,body"),
            "source, view index": lambda: source(view="index"),
        }

    def best_of(self, queries: Queries, rounds: int) -> list[Figure]:
        figures: dict[str, Figure] = {}
        for number in range(rounds + 1):  # the first warms up
            for name, make in queries.items():
                if name.endswith("scalar") and number != rounds:
                    continue
                writer = make().write.format("noop").mode("overwrite")
                found = self._run(name, writer.save)
                best = figures.get(name)
                if number and (best is None or found.cpu_us_per_row < best.cpu_us_per_row):
                    figures[name] = found
        return [figures[name] for name in queries]

    def sink(self, parquet: str) -> Figure:
        rows = self._spark.read.parquet(parquet).select("body", "keys", "tags").coalesce(1)
        writer = rows.limit(1_000).write.format("rocketmq").mode("append")
        writer.option("nameServer", self._address).save("bench-sink")
        # That made the topic, and started what starts once.
        writer = rows.write.format("rocketmq").mode("append").option("nameServer", self._address)
        return self._run("sink, body, keys and tags", lambda: writer.save("bench-sink"))

    def _run(self, name: str, work: Callable[[], None]) -> Figure:
        began, before = time.perf_counter(), tree_times(os.getpid(), self._without)
        work()
        wall_s = time.perf_counter() - began
        cpu_s = grown_s(before, tree_times(os.getpid(), self._without))
        return Figure(
            name=name,
            body_size_bytes=self._size,
            rows_per_s=self._count / wall_s,
            cpu_us_per_row=cpu_s / self._count * 1e6,
        )


def _print(figures: list[Figure], count: int) -> None:
    by_name = {(figure.body_size_bytes, figure.name): figure for figure in figures}
    decoder = "compiled" if HAS_COMPILED else "numpy"
    print(f"\n{count:,} rows with six properties, one task, decoder: {decoder}")
    print(f"{'':46}{'rows/s':>12}{'CPU µs/row':>12}{'of Parquet':>12}")
    for figure in figures:
        kind = "without the map" if "without" in figure.name else "all columns"
        peer = by_name[figure.body_size_bytes, f"Parquet, {kind}"]
        ratio = _ratio(peer, figure) if kind in figure.name else ""
        name = f"{figure.body_size_bytes:5,} B  {figure.name}"
        print(f"{name:46}{figure.rows_per_s:12,.0f}{figure.cpu_us_per_row:12.2f}{ratio:>12}")


def _ratio(peer: Figure, figure: Figure) -> str:
    """Rows per CPU second, Parquet's being 1."""
    return f"{peer.cpu_us_per_row / figure.cpu_us_per_row:.2f}"


def _store(figures: list[Figure], count: int, rounds: int, output: Path | None) -> None:
    facts = machine.gather(java=None)
    if output is None:
        return
    result = {
        "facts": to_builtins(facts),
        "rows": count,
        "decoder": "compiled" if HAS_COMPILED else "numpy",
        "rounds": rounds,
        "figures": to_builtins(figures),
    }
    output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
