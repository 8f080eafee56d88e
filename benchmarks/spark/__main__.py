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
from benchmarks.spark.tree import cpu_seconds
from emberq import Message, MessageQueue, Producer
from emberq.testing.local_broker import run_broker
from emberq.testing.local_nameserver import run_name_server

RESULTS = Path(__file__).parents[1] / "results"
BODY_SIZE_BYTES = 200
BATCH_COUNT = 500
TOPIC = "bench"
FULL_COLUMNS = (
    "topic, brokerName, queueId, queueOffset, keys, tags, body, bornTimestamp, storeTimestamp, "
    "properties"
)
NO_MAP = FULL_COLUMNS.removesuffix(", properties")


class Figure(Struct, kw_only=True):
    name: str
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
                _fill(address, count)
                without = {server.program.process.pid, broker.program.process.pid}
                figures = _measure(home, address, count, rounds, without)
    _print(figures, count)
    _store(figures, count, rounds, arguments.output)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round of everything")
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="store the figures here")
    return parser.parse_args()


def _fill(address: str, count: int) -> None:
    """Six properties per message, as official clients make them."""
    queue = MessageQueue("broker-a", 0, TOPIC)
    with Producer("bench", name_server=address) as producer:
        producer.create_topic(TOPIC, queues=1)
        for first in range(0, count, BATCH_COUNT):
            producer.send_batch(
                [
                    Message(
                        TOPIC,
                        _body(number),
                        tags=f"tag-{number % 5}",
                        keys=f"key-{number}",
                        properties={"user": f"u{number % 1000}", "region": "eu-central"},
                    )
                    for number in range(first, min(first + BATCH_COUNT, count))
                ],
                queue=queue,
            )


def _body(number: int) -> bytes:
    """JSON of which no two are equal: a column file must not be able to store it once."""
    digits = f"{number * 2_654_435_761 % 10**12:012d}"
    text = f'{{"order":{number},"sku":"{digits}","price":{number % 997}.{number % 89:02d}}}'
    return (text * 6).encode()[:BODY_SIZE_BYTES]


def _measure(home: Path, address: str, count: int, rounds: int, without: set[int]) -> list[Figure]:
    spark = _session(home)
    options = {"nameServer": address, "maxBytesPerPartition": "1g"}

    def source(**more: str) -> Any:
        return spark.read.format("rocketmq").options(**options, **more).load(TOPIC)

    parquet = str(home / "rows.parquet")
    source().write.parquet(parquet)
    queries: dict[str, Callable[[], Any]] = {
        "Parquet, all columns": lambda: spark.read.parquet(parquet),
        "source, all columns": source,
        "source, all columns, scan=local": lambda: source(scan="local"),
        "Parquet, without the map": lambda: spark.read.parquet(parquet).selectExpr(
            *NO_MAP.split(", ")
        ),
        "source, without the map": lambda: source(columns=NO_MAP),
        "source, body and offset": lambda: source(columns="queueOffset,body"),
        "source, view index": lambda: source(view="index"),
        "source, all columns, decoder=scalar": lambda: source(decoder="scalar"),
    }
    figures: dict[str, Figure] = {}
    for number in range(rounds + 1):  # the first warms up
        for name, make in queries.items():
            if name.endswith("scalar") and number != rounds:
                continue
            found = _timed(name, make(), count, without)
            best = figures.get(name)
            if number and (best is None or found.cpu_us_per_row < best.cpu_us_per_row):
                figures[name] = found
    figures["sink"] = _timed_sink(spark, address, parquet, count, without)
    spark.stop()
    return list(figures.values())


def _timed(name: str, frame: Any, count: int, without: set[int]) -> Figure:
    return _run(name, count, without, lambda: frame.write.format("noop").mode("overwrite").save())


def _timed_sink(spark: Any, address: str, parquet: str, count: int, without: set[int]) -> Figure:
    rows = spark.read.parquet(parquet).select("body", "keys", "tags").coalesce(1)
    rows.limit(1_000).write.format("rocketmq").mode("append").option("nameServer", address).save(
        "bench-sink"
    )  # makes the topic, and starts what starts once
    writer = rows.write.format("rocketmq").mode("append").option("nameServer", address)
    return _run("sink, body, keys and tags", count, without, lambda: writer.save("bench-sink"))


def _run(name: str, count: int, without: set[int], work: Callable[[], None]) -> Figure:
    began, cpu = time.perf_counter(), cpu_seconds(os.getpid(), without)
    work()
    wall_s, cpu_s = time.perf_counter() - began, cpu_seconds(os.getpid(), without) - cpu
    return Figure(name=name, rows_per_s=count / wall_s, cpu_us_per_row=cpu_s / count * 1e6)


def _session(home: Path) -> Any:
    java_home = Path(sys.prefix, "java-home")
    if java_home.exists():
        os.environ["JAVA_HOME"] = str(java_home)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.local.dir", str(home / "local"))
        .getOrCreate()
    )


def _print(figures: list[Figure], count: int) -> None:
    by_name = {figure.name: figure for figure in figures}
    print(f"\n{count:,} rows of {BODY_SIZE_BYTES} B bodies and six properties, one task")
    print(f"{'':40}{'rows/s':>12}{'CPU µs/row':>12}{'of Parquet':>12}")
    for figure in figures:
        kind = "without the map" if "without" in figure.name else "all columns"
        peer = by_name[f"Parquet, {kind}"]
        ratio = "" if figure.name.startswith("sink") else _ratio(peer, figure)
        print(f"{figure.name:40}{figure.rows_per_s:12,.0f}{figure.cpu_us_per_row:12.2f}{ratio:>12}")


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
        "rounds": rounds,
        "figures": to_builtins(figures),
    }
    output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
