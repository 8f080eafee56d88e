"""`make bench PART=spark.growth`: does a row cost the same in a topic of any size?

Topics of more and more rows, then of the same rows in more and more queues. One store at a time is
written, read and removed; a store may take at most half of the disk that is free.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
from msgspec import to_builtins

from benchmarks import machine
from benchmarks.spark.growth_case import Filled, Found

# Record, entry of its queue, and room for the last segment.
BYTES_PER_ROW = 240
SPARE_BYTES = 1 << 30
ROWS = (1_000_000, 10_000_000, 100_000_000)
QUEUES = (1, 10, 100, 1_000)
# Queues of the topics that grow, rows of the topics whose queues become more.
QUEUES_OF_ROWS = 8
ROWS_OF_QUEUES = 1_000_000
ROUNDS, ROWS_READ_ONCE = 3, 20_000_000
# "Flat" means at most so much of the smallest.
FLAT = 1.15


def main() -> int:
    given = _arguments()
    facts = machine.gather(java=None)
    print(f"{facts.cpu}, {facts.cores} cores, {facts.memory_gb} GB, load {facts.load_average:.1f}")
    print(
        f"commit {facts.commit}, one store at a time, {given.cores} task(s) at a time", flush=True
    )
    by_rows = [(rows, QUEUES_OF_ROWS) for rows in ROWS if rows <= given.rows_max]
    by_queues = [(given.queue_rows, queues) for queues in QUEUES if queues <= given.queues_max]
    results: dict[str, list[Found]] = {}
    for name, cases in {"rows": by_rows, "queues": by_queues}.items():
        if given.only in (None, name):
            results[name] = _measured(name, cases, given.directory, given.cores)
    if given.output is not None:
        content = {"facts": to_builtins(facts), **to_builtins(results)}
        given.output.write_text(json.dumps(content, indent=1) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.growth", description=__doc__)
    parser.add_argument("--rows-max", type=int, default=10_000_000, help="the largest topic")
    parser.add_argument("--queues-max", type=int, default=1_000, help="the most queues")
    parser.add_argument("--queue-rows", type=int, default=ROWS_OF_QUEUES)
    parser.add_argument("--only", choices=["rows", "queues"], help="one of the two")
    parser.add_argument("--cores", type=int, default=1, help="tasks at a time")
    parser.add_argument("--directory", type=Path, help="where stores are written")
    parser.add_argument("--output", type=Path, help="store the figures here")
    return parser.parse_args()


def _measured(
    name: str, cases: list[tuple[int, int]], directory: Path | None, cores: int
) -> list[Found]:
    print(
        f"\nmore {name}\n{'rows':>12}{'queues':>7}{'tasks':>7}{'plan ms':>9}{'CPU ms':>8}"
        f"{'count s':>9}{'scan s':>8}{'rows/s':>11}{'CPU µs':>8}{'broker':>8}"
        f"{'JVM MB':>8}{'worker':>8}{'broker':>8}{'anon.':>8}",
        flush=True,
    )
    found: list[Found] = []
    for rows, queues in cases:
        with tempfile.TemporaryDirectory(prefix="emberq-growth-", dir=directory) as folder:
            home = Path(folder)
            room = shutil.disk_usage(home).free // 2
            if rows * BYTES_PER_ROW + SPARE_BYTES > room:
                print(f"{rows:12,}: more than half of the free disk ({room / 1e9:.0f} GB)")
                break
            sizes = ["--rows", str(rows), "--queues", str(queues)]
            filled = msgspec.json.decode(_step("fill", home, sizes), type=Filled)
            rounds = 1 if rows > ROWS_READ_ONCE else ROUNDS
            sizes += ["--rounds", str(rounds), "--cores", str(cores)]
            each = msgspec.json.decode(_step("read", home, sizes), type=Found)
        found.append(each)
        _print(each, filled)
    if found:
        least, most = (pick(each.scan_cpu_us for each in found) for pick in (min, max))
        word = "flat" if most <= FLAT * found[0].scan_cpu_us else "not flat"
        print(f"CPU per row {least:.2f} to {most:.2f} µs: {word}", flush=True)
    return found


def _step(step: str, home: Path, sizes: list[str]) -> str:
    command = [sys.executable, "-m", "benchmarks.spark.growth_case", step, str(home), *sizes]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()[-1]


def _print(each: Found, filled: Filled) -> None:
    print(
        f"{each.rows:12,}{each.queues:7,}{each.tasks:7,}{each.plan_ms:9.1f}{each.plan_cpu_ms:8.1f}"
        f"{each.count_s:9.2f}{each.scan_s:8.1f}{each.rows / each.scan_s:11,.0f}"
        f"{each.scan_cpu_us:8.2f}{each.broker_cpu_us:8.2f}{each.driver_mb:8,.0f}"
        f"{each.worker_mb:8,.0f}{each.broker_mb:8,.0f}{each.broker_anonymous_mb:8,.0f}"
        f"  (filled in {filled.seconds:.0f} s, {filled.size_bytes / 1e9:.1f} GB)",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
