"""`make bench PART=spark`: the goals of the Spark source, its sink and its archive.

Spark has one core to itself, with its JVM and all its Python processes; who serves it has the
others. Queries and their peers take turns in one session, and the round with the least CPU counts.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec

from benchmarks import gate, machine
from benchmarks.spark import goal_page, in_process
from benchmarks.spark.cores import Cores, pinned
from benchmarks.spark.filling import fill
from benchmarks.spark.goal_figures import LARGE, SMALL, Figures, Measured, MicroBatches
from benchmarks.spark.goal_list import judge
from benchmarks.spark.pinned_queries import SINK_TOPIC, TOPIC, PinnedQueries
from benchmarks.spark.session import local_session
from benchmarks.spark.tree import keep_orphans
from emberq import Producer
from emberq.spark.decode.vector import HAS_COMPILED
from emberq.testing.local_broker import run_broker
from emberq.testing.local_nameserver import run_name_server

RESULTS = Path(__file__).parents[1] / "results"
ROWS = {SMALL: 1_000_000, LARGE: 500_000}
ROUNDS = 5
QUICK_SHARE, QUICK_ROUNDS = 20, 1
STORE = {"brokerIP1": "127.0.0.1", "mappedFileSizeCommitLog": str(256 << 20)}
_STARTED_AT = time.monotonic()


def main() -> int:
    given = _arguments()
    rounds = QUICK_ROUNDS if given.quick else given.rounds
    rows = {size: count // QUICK_SHARE if given.quick else count for size, count in ROWS.items()}
    facts, cores = machine.gather(java=None), Cores()
    keep_orphans()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="emberq-bench-")))
        address, without = _serve(stack, home, cores)
        _fill(address, rows)
        queries: list[Measured] = []
        with pinned(cores.of_spark):
            _say("Spark, on one core")
            spark = local_session(home, "local[1]")
            for size, count in rows.items():
                each = PinnedQueries(spark, address, home, size, count, without)
                queries += each.measured(rounds, _say)
            few = PinnedQueries(spark, address, home, SMALL, rows[SMALL], without)
            count_s = few.count_s()
            spark.stop()
            _say("decoders, pulls and the encoder, without Spark")
            alone = in_process.measure(address, f"{TOPIC}-{SMALL}", rows[SMALL], rounds)
        _say("micro-batches, on all cores")
        figures = Figures(
            facts=facts,
            versions=_versions(),
            is_quick=given.quick,
            queries=queries,
            count_s=count_s,
            in_process=alone,
            micro_batches=_micro_batches(address),
            goals=[],
        )
    figures.goals = judge(figures)
    print()
    for line in goal_page.lines(figures):
        print(line)
    if not given.quick:
        _store(figures)
    return gate.exit_code(figures.goals, is_gate=given.gate)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round, not stored")
    parser.add_argument(
        "--gate", action="store_true", help="exit code 1 if a figure is far from its goal"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default {ROUNDS}")
    return parser.parse_args()


def _serve(stack: ExitStack, home: Path, cores: Cores) -> tuple[str, set[int]]:
    """The name server's address, and the processes that serve."""
    with pinned(cores.of_servers):
        names = stack.enter_context(run_name_server(home / "namesrv"))
        address = f"{names.host}:{names.port}"
        broker = stack.enter_context(
            run_broker(home / "broker", name_servers=address, config=STORE)
        )
    return address, {names.program.process.pid, broker.program.process.pid}


def _fill(address: str, rows: dict[int, int]) -> None:
    for size, count in rows.items():
        _say(f"{count:,} messages of {size:,} B")
        fill(address, f"{TOPIC}-{size}", count, size=size, queues=1)
    with Producer("bench", name_server=address) as producer:
        producer.create_topic(SINK_TOPIC, queues=4)


def _micro_batches(address: str) -> MicroBatches:
    command = [sys.executable, "-m", "benchmarks.spark.micro_batches", address]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=MicroBatches)


def _versions() -> str:
    import pyspark

    return f"PySpark {pyspark.__version__} ({'compiled' if HAS_COMPILED else 'numpy'} decoder)"


def _store(figures: Figures) -> None:
    name = f"{figures.facts.date}-{figures.facts.commit}-spark.json"
    content = msgspec.json.format(msgspec.json.encode(figures), indent=1) + b"\n"
    (RESULTS / name).write_bytes(content)
    goal_page.publish(figures, name)
    print(f"\nstored in {name} and in benchmarks/README.md")


def _say(step: str) -> None:
    print(f"[{time.monotonic() - _STARTED_AT:5.1f} s] {step}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
