"""`make bench PART=spark.kafka`: topics through Spark beside Spark's connector for Kafka.

The same rows in both brokers, the same queries in one Spark session, one side at a time in
interleaved rounds; the best round of each counts.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import gate, machine, official
from benchmarks.client import servers
from benchmarks.spark import kafka_page
from benchmarks.spark.filling import fill
from benchmarks.spark.rounds import Figures, Round, Row, Work, judge
from benchmarks.spark.session import local_session
from benchmarks.spark.sides import EmberqSide, KafkaSide, Side
from benchmarks.spark.tree import keep_orphans
from benchmarks.spark.tree_times import grown_s, settled_times, tree_times
from emberq.spark.decode.vector import HAS_COMPILED
from emberq.testing.local_broker import run_broker
from emberq.testing.local_nameserver import run_name_server
from tests.interop.harness.artifacts import resolved_alone

RESULTS = Path(__file__).parents[1] / "results"
# The newest connector that Maven has, with the versions its project file names; Spark's own jars
# are PySpark's. Of the token provider, which only logs in, no newer release can be downloaded.
CONNECTOR = "4.2.0"
CONNECTOR_JARS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
MASTER = "local[2]"
# Kafka's consumers stay in Spark's cache after a query, each with what it fetched: with 2 GB the
# collector took most of the time of later rounds.
DRIVER_MEMORY = "6g"
# Rows by the size of their bodies: so many that what a query costs once, which is measured apart
# with a topic of few rows, does not hide what a row costs.
ROWS = {200: 2_400_000, 1024: 1_600_000}
OTHER_ROWS = 800_000
FEW_ROWS, FEW_SIZE = 1_000, 200
ROUNDS = 3
QUICK_ROWS, QUICK_ROUNDS = 40_000, 1
STORE = {"brokerIP1": "127.0.0.1", "mappedFileSizeCommitLog": str(256 << 20)}
_STARTED_AT = time.monotonic()


def main() -> int:
    arguments = _arguments()
    rounds = QUICK_ROUNDS if arguments.quick else arguments.rounds
    jars = resolved_alone(f"spark-kafka-{CONNECTOR}", CONNECTOR_JARS)
    figures = Figures(
        facts=machine.gather(java=official.java_version()),
        versions=_versions(),
        is_quick=arguments.quick,
        partitions=servers.PARTITIONS,
        rows=[],
        few=[],
        goals=[],
    )
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="emberq-bench-")))
        bench = _Bench(stack, home, sorted(jars.glob("*.jar")))
        for size in arguments.sizes:
            count = arguments.rows or ROWS.get(size, OTHER_ROWS)
            count = QUICK_ROWS if arguments.quick else count
            figures.rows += bench.measured(f"rows-{size}", size, count, rounds, tuple(Work))
        _say("what a query costs once")
        works = (Work.BATCH, Work.STREAM)
        figures.few += bench.measured("few", FEW_SIZE, FEW_ROWS, rounds, works)
    figures.goals = judge(figures)
    print()
    for line in kafka_page.lines(figures):
        print(line)
    if not arguments.quick:
        _store(figures)
    return gate.exit_code(figures.goals, is_gate=arguments.gate)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.kafka", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round, not stored")
    parser.add_argument(
        "--gate", action="store_true", help="exit code 1 if a figure is far from its goal"
    )
    told = " and ".join(f"{count:,} of {size:,} B" for size, count in ROWS.items())
    parser.add_argument("--rows", type=int, help=f"of each size; default {told}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default {ROUNDS}")
    parser.add_argument(
        "--sizes",
        type=lambda text: [int(each) for each in text.split(",")],
        default=list(ROWS),
        help="bytes of bodies, separated by commas; default 200,1024",
    )
    return parser.parse_args()


class _Bench:
    """Both brokers, and one Spark session that reads from both."""

    def __init__(self, stack: ExitStack, home: Path, jars: list[Path]) -> None:
        self._home = home
        keep_orphans()
        _say("EmberQ's broker")
        names = stack.enter_context(run_name_server(home / "namesrv"))
        self._address = f"{names.host}:{names.port}"
        broker = stack.enter_context(
            run_broker(home / "broker", name_servers=self._address, config=STORE)
        )
        _say(f"Kafka {servers.KAFKA_VERSION}")
        kafka = stack.enter_context(servers.kafka())
        _say("Spark")
        spark = local_session(home, MASTER, jars, DRIVER_MEMORY)
        stack.callback(spark.stop)
        broker_pid = broker.program.process.pid
        self._without = {names.program.process.pid, broker_pid, kafka.pid}
        self._emberq = EmberqSide(spark, self._address, broker_pid)
        self._kafka = KafkaSide(spark, kafka.address, kafka.pid)
        self._sides: tuple[Side, ...] = (self._emberq, self._kafka)

    def measured(
        self, topic: str, size: int, count: int, rounds: int, works: tuple[Work, ...]
    ) -> Iterator[Row]:
        self._fill(topic, size, count)
        found: dict[tuple[Work, str], list[Round]] = {}
        for number in range(rounds + 1):  # the first one warms up
            for work in works:
                for side in self._sides:
                    done = self._round(side, work, topic, count)
                    _say(_told(number, side, work, size, done, count))
                    if number:
                        found.setdefault((work, side.name), []).append(done)
        for (work, side_name), each in found.items():
            yield Row(side=side_name, work=work, size=size, count=count, rounds=each)

    def _fill(self, topic: str, size: int, count: int) -> None:
        _say(f"{count:,} messages of {size:,} B into EmberQ")
        fill(self._address, topic, count, size=size, queues=servers.PARTITIONS)
        _say("the same rows into Kafka")
        self._kafka.fill(self._emberq.batch(topic), topic)
        ours, theirs = (side.sums(topic) for side in self._sides)
        if ours != theirs or ours[0] != count:
            raise RuntimeError(f"not the same rows: {ours} in EmberQ, {theirs} in Kafka")

    def _round(self, side: Side, work: Work, topic: str, count: int) -> Round:
        with tempfile.TemporaryDirectory(dir=self._home) as folder:
            done = self._timed(side, self._work(side, work, topic, Path(folder)))
            if work is Work.ARCHIVE and (rows := side.archived(Path(folder)).count()) != count:
                raise RuntimeError(f"{side.name} archived {rows:,} of {count:,} rows")
        return done

    def _work(self, side: Side, work: Work, topic: str, folder: Path) -> Callable[[], None]:
        match work:
            case Work.BATCH:
                return lambda: side.batch(topic).write.format("noop").mode("overwrite").save()
            case Work.STREAM:
                return lambda: _streamed(side.stream(topic), folder)
            case Work.ARCHIVE:
                return lambda: side.archive(topic, folder)

    def _timed(self, side: Side, work: Callable[[], None]) -> Round:
        before = tree_times(os.getpid(), self._without)
        broker_cpu_s, began = side.broker_cpu_s(), time.perf_counter()
        work()
        seconds = time.perf_counter() - began
        spark_cpu_s = grown_s(before, settled_times(os.getpid(), self._without))
        return Round(
            seconds=round(seconds, 3),
            spark_cpu_s=round(spark_cpu_s, 2),
            broker_cpu_s=round(side.broker_cpu_s() - broker_cpu_s, 2),
        )


def _streamed(frame: Any, folder: Path) -> None:
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder))
    writer.trigger(availableNow=True).start().awaitTermination()


def _versions() -> str:
    import pyspark

    decoder = "compiled" if HAS_COMPILED else "numpy"
    return (
        f"PySpark {pyspark.__version__} ({MASTER}, {decoder} decoder), connector {CONNECTOR}, "
        f"Kafka {servers.KAFKA_VERSION}"
    )


def _told(number: int, side: Side, work: Work, size: int, done: Round, count: int) -> str:
    return (
        f"{number or 'warm-up'}: {work}, {size:,} B, {side.name}: {count / done.seconds:,.0f}/s, "
        f"{done.spark_cpu_s / count * 1e6:.2f} µs and {done.broker_cpu_s / count * 1e6:.2f} in "
        "the broker"
    )


def _store(figures: Figures) -> None:
    name = f"{figures.facts.date}-{figures.facts.commit}-spark-kafka.json"
    content = msgspec.json.format(msgspec.json.encode(figures), indent=1) + b"\n"
    (RESULTS / name).write_bytes(content)
    kafka_page.publish(figures, name)
    print(f"\nstored in {name} and in benchmarks/README.md")


def _say(step: str) -> None:
    print(f"[{time.monotonic() - _STARTED_AT:5.1f} s] {step}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
