"""`python -m benchmarks.scenarios`: brokers under load, EmberQ's and the official one in turns."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from benchmarks import machine, official
from benchmarks.figures import EMBERQ, OFFICIAL
from benchmarks.scenarios import brokers, page
from benchmarks.scenarios.driver import Job, Outcome
from benchmarks.scenarios.figures import Figures, Neighbours, Start, judge, row_from
from benchmarks.scenarios.rows import Kind, RowShape, all_rows, quick_rows
from benchmarks.servers import Running

RESULTS = Path(__file__).parents[1] / "results"
FULL_S, QUICK_S = 2.0, 1.0
WARM_UP_S = 0.3
# Until Java's compilers are done; each row is warmed up again before it is measured.
COMPILE_S = 20.0
STARTS = 5
_STARTED_AT = time.monotonic()

Starter = Callable[[], AbstractContextManager[Running]]


def main() -> int:
    arguments = _arguments()
    rows = list(quick_rows() if arguments.quick else all_rows())
    if arguments.only:
        rows = [row for row in rows if arguments.only in row.name]
    starters: dict[str, Starter] = {EMBERQ: lambda: brokers.emberq_broker(is_pure=arguments.pure)}
    absent = "left out (--alone)"
    if not arguments.alone:
        try:
            jars = official.find_jars()
            starters[OFFICIAL] = lambda: brokers.official_broker(jars)
        except official.OfficialMissing as error:
            absent = f"not measured: {error}"
    has_official = OFFICIAL in starters
    figures = Figures(
        facts=machine.gather(java=official.java_version() if has_official else None),
        kernel=_kernel(arguments.pure),
        official=f"broker {official.LINE.server_version}, java {' '.join(brokers.JAVA_HEAP)}"
        if has_official
        else absent,
        is_quick=arguments.quick,
        starts=[],
        rows=[],
    )
    seconds = QUICK_S if arguments.quick else FULL_S
    _measure_rows(figures, starters, rows, arguments.rounds, seconds)
    if not arguments.only:
        figures.starts = [_start(server, start) for server, start in starters.items()]
        figures.neighbours = _two_brokers(starters[EMBERQ], seconds)
    figures.goals = judge(figures)
    print()
    for line in page.lines(figures):
        print(line)
    if not arguments.quick and not arguments.only:
        _store(figures)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scenarios", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few rows, one round, not stored")
    parser.add_argument("--alone", action="store_true", help="without the official broker")
    parser.add_argument("--pure", action="store_true", help="without the compiled kernel")
    parser.add_argument("--only", metavar="TEXT", help="rows whose name contains this; not stored")
    parser.add_argument("--rounds", type=int, default=1, help="starts of each broker (default 1)")
    return parser.parse_args()


def _measure_rows(
    figures: Figures,
    starters: dict[str, Starter],
    rows: list[RowShape],
    rounds: int,
    duration_s: float,
) -> None:
    """One broker at a time has the machine; rounds alternate between them."""
    outcomes: dict[tuple[str, str], list[Outcome]] = {}
    for number in range(rounds):
        for server, start in starters.items():
            _say(f"{server}, round {number + 1}/{rounds}: {len(rows)} rows")
            with start() as running:
                if server == OFFICIAL:
                    _compile(running, rows)
                for outcome in _run(running, rows, duration_s):
                    _say(f"{server}: {outcome.row.name}: {_rate(outcome):,.0f}/s")
                    outcomes.setdefault((server, outcome.row.name), []).append(outcome)
    figures.rows = [row_from(server, each) for (server, _), each in outcomes.items()]


def _compile(running: Running, rows: list[RowShape]) -> None:
    """Work of every kind, so that the official code is compiled when it counts."""
    kinds: dict[Kind, RowShape] = {}
    for row in rows:
        kinds.setdefault(row.kind, replace(row, topics=1, connections=min(row.connections, 8)))
    for _ in _run(running, list(kinds.values()), COMPILE_S / len(kinds)):
        pass


def _run(
    running: Running, rows: list[RowShape], duration_s: float, core: int | None = None
) -> Iterator[Outcome]:
    job = Job(
        port=running.port,
        pid=running.pid,
        core=_load_core() if core is None else core,
        rows=rows,
        warm_up_s=WARM_UP_S,
        duration_s=duration_s,
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.scenarios.driver"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        process.stdin.write(msgspec.json.encode(job))
        process.stdin.close()
        for line in process.stdout:
            yield msgspec.json.decode(line, type=Outcome)
    if process.returncode:
        raise RuntimeError("the load program failed")


def _start(server: str, start: Starter) -> Start:
    _say(f"start of {server}")
    times: list[float] = []
    count = STARTS if server == EMBERQ else 1
    for _ in range(count):
        with start() as running:
            times.append(round(running.first_answer_s, 3))
            memory = brokers.idle_memory(running)
    return Start(server=server, first_message_s=times, idle_memory=memory)


def _two_brokers(start: Starter, duration_s: float) -> Neighbours:
    """The same load on one broker, then on two at once, each with a load program of its own."""
    _say("two brokers side by side")
    row = RowShape(kind=Kind.SEND, size=128, connections=8, in_flight=16)
    cores = sorted(os.sched_getaffinity(0))
    with start() as first, start() as second, ThreadPoolExecutor(2) as pool:
        [alone] = _run(first, [row], duration_s)
        places = ((first, cores[0]), (second, cores[-1]))
        both = [
            outcome
            for outcomes in pool.map(lambda it: [*_run(it[0], [row], duration_s, it[1])], places)
            for outcome in outcomes
        ]
    return Neighbours(alone_us=_cpu_us(alone), both_us=[_cpu_us(outcome) for outcome in both])


def _cpu_us(outcome: Outcome) -> float:
    return round(outcome.broker_cpu.total_s / max(outcome.messages, 1) * 1e6, 2)


def _rate(outcome: Outcome) -> float:
    return outcome.messages / outcome.duration_s


def _kernel(is_pure: bool) -> str:
    """Which twin the broker runs on, as `emberq --version` says."""
    environment = {**os.environ, **({"EMBERQ_PURE": "1"} if is_pure else {})}
    done = subprocess.run(
        [sys.executable, "-m", "emberq", "--version"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return "compiled" if "compiled" in done.stdout else "pure Python"


def _load_core() -> int | None:
    cores = sorted(os.sched_getaffinity(0))
    return cores[-1] if len(cores) > 1 else None


def _store(figures: Figures) -> None:
    name = f"{figures.facts.date}-{figures.facts.commit}-scenarios.json"
    content = msgspec.json.format(msgspec.json.encode(figures), indent=1) + b"\n"
    (RESULTS / name).write_bytes(content)
    page.publish(figures, name)
    print(f"\nstored in {name} and in benchmarks/README.md")


def _say(step: str) -> None:
    print(f"[{time.monotonic() - _STARTED_AT:5.1f} s] {step}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
