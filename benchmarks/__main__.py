"""`python -m benchmarks`: measures, prints a table, and stores the figures."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import msgspec

from benchmarks import codecs, goals, machine, official, report, servers
from benchmarks.figures import EMBERQ, OFFICIAL, Figures, Loaded, Row, Start, row_from
from benchmarks.load import Job, JobOutcome, Kind, Measurement, Outcome
from benchmarks.plan import FULL, QUICK, TOPIC_COUNTS, Plan
from benchmarks.servers import JAVA_HEAP, Running

RESULTS = Path(__file__).parent / "results"
_STARTED_AT = time.monotonic()


def main() -> int:
    arguments = _arguments()
    plan = QUICK if arguments.quick else FULL
    jars, missing = _official(arguments.alone)
    figures = Figures(
        facts=machine.gather(java=None if jars is None else official.java_version()),
        is_quick=arguments.quick,
        official=missing
        or f"name server {official.LINE.server_version}, java {' '.join(JAVA_HEAP)}",
        notes=[],
        codecs=[],
        starts=[],
        loaded=[],
        rows=[],
        goals=[],
    )
    if not arguments.servers_only:
        _say("codecs")
        figures.codecs = codecs.measure_codecs(quick=arguments.quick)
    _measure_servers(figures, plan, jars)
    figures.goals = goals.judge(figures)
    print()
    for line in report.lines(figures):
        print(line)
    _store(figures, arguments.output)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round of everything")
    parser.add_argument("--alone", action="store_true", help="without the official name server")
    parser.add_argument("--servers-only", action="store_true", help="without the codecs")
    parser.add_argument(
        "--output", type=Path, help="store the figures here (a full run: in results/)"
    )
    return parser.parse_args()


def _official(alone: bool) -> tuple[Path | None, str | None]:
    if alone:
        return None, "left out (--alone)"
    try:
        return official.find_jars(), None
    except official.OfficialMissing as error:
        return None, f"not measured: {error}"


def _measure_servers(figures: Figures, plan: Plan, jars: Path | None) -> None:
    figures.starts.append(_start(EMBERQ, servers.emberq_name_server, plan.starts))
    if jars is not None:
        figures.starts.append(
            _start(OFFICIAL, lambda: servers.official_name_server(jars), plan.official_starts)
        )
    with ExitStack() as stack:
        running = {EMBERQ: stack.enter_context(servers.emberq_name_server())}
        if jars is not None:
            running[OFFICIAL] = stack.enter_context(servers.official_name_server(jars))
            _say("official server under load until its code is compiled")
            _run(running[OFFICIAL], TOPIC_COUNTS[0], plan.compiling())
        _measure_lookups(figures, plan, running)
        for topic_count in TOPIC_COUNTS:
            _say(f"registrations of {topic_count:,} topics")
            figures.rows += _rows(running, 0, plan.registrations(topic_count))
        _say("requests without a handler")
        figures.rows += _rows(running, 0, plan.remoting(Kind.UNSUPPORTED))
    _say("echo")
    with servers.echo_server() as echo:
        figures.rows += _rows({EMBERQ: echo}, 0, plan.remoting(Kind.ECHO))


def _start(server: str, start: Callable[[], AbstractContextManager[Running]], count: int) -> Start:
    _say(f"start of {server}, {count} times")
    with start():  # not counted: it fills caches of files and of compiled modules
        pass
    times = []
    for _ in range(count):
        with start() as running:
            times.append(round(running.first_answer_s, 4))
            memory = running.idle_memory()
    return Start(server=server, first_answer_s=times, idle_memory=memory)


def _measure_lookups(figures: Figures, plan: Plan, running: dict[str, Running]) -> None:
    """Rounds over all sizes and servers, so that a disturbance does not meet only one of them."""
    outcomes: dict[tuple[str, int, int], list[Outcome]] = {}
    loaded: dict[tuple[str, int], Loaded] = {}
    for number in range(plan.lookup_rounds):
        for topic_count in TOPIC_COUNTS:
            _say(f"look-ups in {topic_count:,} topics, round {number + 1}/{plan.lookup_rounds}")
            for server, process in running.items():
                done = _run(process, topic_count, plan.lookups(topic_count))
                loaded[server, topic_count] = Loaded(
                    server=server, topic_count=topic_count, memory=done.memory_mb
                )
                for place, outcome in enumerate(done.outcomes):
                    outcomes.setdefault((server, topic_count, place), []).append(outcome)
    figures.rows += [row_from(server, rounds) for (server, _, _), rounds in outcomes.items()]
    figures.loaded += loaded.values()


def _rows(
    running: dict[str, Running], topic_count: int, measurements: list[Measurement]
) -> Iterator[Row]:
    for server, process in running.items():
        for outcome in _run(process, topic_count, measurements).outcomes:
            yield row_from(server, [outcome])


def _run(server: Running, topic_count: int, measurements: list[Measurement]) -> JobOutcome:
    """Let the load program work on a server."""
    job = Job(
        port=server.port,
        pid=server.pid,
        core=_load_core(),
        topic_count=topic_count,
        measurements=measurements,
    )
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load"],
        input=msgspec.json.encode(job),
        stdout=subprocess.PIPE,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=JobOutcome)


def _load_core() -> int | None:
    cores = sorted(os.sched_getaffinity(0))
    return cores[-1] if len(cores) > 1 else None


def _store(figures: Figures, output: Path | None) -> None:
    if output is None:
        if figures.is_quick:
            return
        RESULTS.mkdir(exist_ok=True)
        output = RESULTS / f"{figures.facts.date}-{figures.facts.commit}.json"
    output.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=1) + b"\n")
    print(f"\nstored in {output.name}")


def _say(step: str) -> None:
    print(f"[{time.monotonic() - _STARTED_AT:5.1f} s] {step}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
