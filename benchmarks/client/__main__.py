"""`python -m benchmarks.client`: the Python client beside others, in turns on the same brokers."""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec

from benchmarks import machine, official
from benchmarks.client import page, programs, servers
from benchmarks.client.figures import Figures, Start, judge, row_from
from benchmarks.client.programs import Outcome, Running
from benchmarks.client.rows import CONSUMED_COUNT, ON_KAFKA, SIZES, WAYS, Program, Way
from emberq.aio import Message, Producer
from emberq.errors import TopicNotFound
from emberq.model.system_topics import DEFAULT_TOPIC
from tests.interop.harness.artifacts import ArtifactsUnavailable

RESULTS = Path(__file__).parents[1] / "results"
PRODUCE_S, QUICK_S = 0.8, 0.5
ROUNDS = 2
# Before the first round; consumers have an untimed part anyway. Java's compilers need more work
# before they are done.
WARM_UP_S = 0.3
JAVA_WARM_UP_S = 3.0
STARTS = 3
FILL_COUNT = 400  # messages per request of ours, when a topic is filled
FILL_AT_ONCE = 4
KAFKA_QUEUED_MAX = 20_000
_STARTED_AT = time.monotonic()


def main() -> int:
    arguments = _arguments()
    absent = _absent(arguments)
    figures = Figures(
        facts=machine.gather(java=_java_version(absent)),
        clients=programs.versions(),
        brokers=f"EmberQ, Kafka {servers.KAFKA_VERSION} (acks=1)",
        is_quick=arguments.quick,
        absent=absent,
    )
    sizes = [arguments.size] if arguments.size else list(SIZES)
    ways = [way for way in WAYS if not arguments.only or arguments.only in way.title]
    with ExitStack() as stack:
        running = _start_all(stack, [each for each in Program if each not in absent], sizes)
        outcomes: dict[tuple[Program, Way, int], list[Outcome]] = {}
        for number in range(1 if arguments.quick else arguments.rounds):
            for program, way, size, outcome in _round(running, ways, sizes, arguments, number):
                outcomes.setdefault((program, way, size), []).append(outcome)
        figures.rows = [
            row_from(program, way.verb, way.mode, size, each)
            for (program, way, size), each in outcomes.items()
        ]
        if not arguments.only and SIZES[0] in sizes:
            figures.starts = [_first_sends(each, address) for each, (address, _) in running.items()]
    figures.goals = judge(figures)
    print()
    for line in page.lines(figures):
        print(line)
    if not (arguments.quick or arguments.only or arguments.alone):
        _store(figures)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.client", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round, not stored")
    parser.add_argument("--alone", action="store_true", help="EmberQ's client only, not stored")
    parser.add_argument("--only", metavar="TEXT", help="rows whose name contains this; not stored")
    parser.add_argument("--size", type=int, choices=SIZES, help="one size; others stay as stored")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default {ROUNDS}")
    return parser.parse_args()


def _absent(arguments: argparse.Namespace) -> dict[str, str]:
    """Clients that are left out, and why."""
    absent: dict[str, str] = {}
    for program in Program:
        if arguments.alone and program is not Program.EMBERQ:
            absent[program] = "left out (--alone)"
        elif (reason := programs.missing(program)) is not None:
            absent[program] = reason
            continue
        try:
            if program not in absent:
                programs.command(program, "")
        except ArtifactsUnavailable as error:
            absent[program] = str(error)
    return absent


def _java_version(absent: dict[str, str]) -> str | None:
    return None if Program.JAVA in absent else official.java_version()


Programs = dict[Program, tuple[str, Running]]


def _start_all(stack: ExitStack, wanted: list[Program], sizes: list[int]) -> Programs:
    """Brokers with full topics, and every client beside its broker's address."""
    _say("EmberQ's broker")
    name_server = stack.enter_context(servers.emberq_cluster())
    asyncio.run(_fill(name_server, sizes))
    kafka = ""
    if ON_KAFKA.intersection(wanted):
        _say("Kafka")
        kafka = stack.enter_context(servers.kafka()).address
        _fill_kafka(kafka, sizes)
    running: Programs = {}
    for program in wanted:
        address = kafka if program in ON_KAFKA else name_server
        running[program] = (address, stack.enter_context(programs.started(program, address)))
    return running


def _round(
    running: Programs, ways: list[Way], sizes: list[int], arguments: argparse.Namespace, number: int
) -> Iterator[tuple[Program, Way, int, Outcome]]:
    """Every row once; clients take turns within a row, so that a disturbance meets them all."""
    for way in ways:
        for size in sizes:
            for program in way.programs:
                if program not in running:
                    continue
                client = running[program][1]
                if number == 0 and not arguments.quick:
                    _warm_up(client, way, size)
                duration_s = QUICK_S if arguments.quick else PRODUCE_S
                outcome = _measure(client, way, size, duration_s)
                _say(
                    f"{number + 1}: {way.title}, {size} B: {program} "
                    f"{outcome.messages / outcome.seconds:,.0f}/s, "
                    f"{outcome.cpu_s / outcome.messages * 1e6:.1f} µs"
                )
                yield program, way, size, outcome


def _warm_up(client: Running, way: Way, size: int) -> None:
    if client.name is Program.JAVA:
        _measure(client, way, size, JAVA_WARM_UP_S)
    elif way.verb == "produce":
        _measure(client, way, size, WARM_UP_S)


def _measure(client: Running, way: Way, size: int, duration_s: float) -> Outcome:
    if way.verb == "produce":
        return client.measure("produce", way.mode, _produced(size), size, duration_s)
    return client.measure("consume", way.mode, _consumed(size), size, CONSUMED_COUNT)


def _first_sends(program: Program, address: str) -> Start:
    from_process_s: list[float] = []
    from_client_s: list[float] = []
    for number in range(STARTS + 1):
        started_at = time.perf_counter()
        with programs.started(program, address) as client:
            took_s = float(client.order("first", _produced(SIZES[0])))
            if number:  # the first start fills caches of files
                from_process_s.append(round(time.perf_counter() - started_at, 4))
                from_client_s.append(took_s)
    _say(f"first sends of {program}")
    return Start(program=program, from_process_s=from_process_s, from_client_s=from_client_s)


async def _fill(name_server: str, sizes: list[int]) -> None:
    async with Producer("bench-fill", name_server=name_server) as producer:
        await _registered(producer)
        for size in sizes:
            await producer.create_topic(_produced(size), queues=servers.PARTITIONS)
            await producer.create_topic(_consumed(size), queues=servers.PARTITIONS)
            await producer.send(_produced(size), b"route")
            messages = [Message(_consumed(size), bytes(size))] * FILL_COUNT
            for _ in range(0, CONSUMED_COUNT, FILL_COUNT * FILL_AT_ONCE):
                await asyncio.gather(*(producer.send_batch(messages) for _ in range(FILL_AT_ONCE)))


async def _registered(producer: Producer) -> None:
    """A broker takes messages a moment before the name server has heard of it."""
    deadline = time.monotonic() + servers.START_TIMEOUT_S
    while True:
        try:
            await producer.queues(DEFAULT_TOPIC)
        except TopicNotFound:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(servers.POLL_S)
        else:
            return


def _fill_kafka(address: str, sizes: list[int]) -> None:
    from confluent_kafka import Producer as KafkaProducer

    producer = KafkaProducer({"bootstrap.servers": address, "acks": 1, "linger.ms": 20})
    for size in sizes:
        for topic in (_produced(size), _consumed(size)):
            producer.produce(topic, bytes(size))
            producer.flush()
        for _ in range(CONSUMED_COUNT):
            producer.produce(_consumed(size), bytes(size))
            while len(producer) > KAFKA_QUEUED_MAX:
                producer.poll(0.01)
        if producer.flush(60):
            raise RuntimeError("Kafka took not all messages")


def _produced(size: int) -> str:
    return f"produced-{size}"


def _consumed(size: int) -> str:
    return f"consumed-{size}"


def _store(figures: Figures) -> None:
    name = f"{figures.facts.date}-{figures.facts.commit}-client.json"
    path = RESULTS / name
    if path.exists():  # a run of the same commit with another size
        stored = msgspec.json.decode(path.read_bytes(), type=Figures)
        sizes = {row.size for row in figures.rows}
        figures.rows += [row for row in stored.rows if row.size not in sizes]
        figures.starts = figures.starts or stored.starts
        figures.goals = judge(figures)
    content = msgspec.json.format(msgspec.json.encode(figures), indent=1) + b"\n"
    path.write_bytes(content)
    page.publish(figures, name)
    print(f"\nstored in {name} and in benchmarks/README.md")


def _say(step: str) -> None:
    print(f"[{time.monotonic() - _STARTED_AT:5.1f} s] {step}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
