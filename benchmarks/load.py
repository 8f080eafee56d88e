"""The load program: `python -m benchmarks.load` reads a job, drives a server, writes its results.

It runs as a process of its own and does the same to every server: sets a table up by registering
brokers, asks for each topic once and compares the answers, then measures shape after shape.
"""

import asyncio
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from enum import StrEnum
from itertools import cycle

import msgspec
from msgspec import Struct

from benchmarks import workload
from benchmarks.latency import percentiles_ms
from benchmarks.load_connection import AnswerShape, LoadConnection, Tally
from benchmarks.process_facts import CpuTime, Memory, cpu_time, memory
from benchmarks.wire_client import WireClient
from emberq.model.route import TopicRoute
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.codes import ResponseCode
from emberq.remoting.event_loop import run

SEED = 20_261_116
SEQUENCE_LENGTH = 50_000  # random topics before they repeat; connections begin at other places
LOOKUP_BROKERS = 2
REGISTERING_BROKERS = 4
REGISTRATION_PAUSE_S = 0.1  # beside look-ups: about ten whole tables per second
CHECK_BATCH = 100
EMPTY_TABLE_TIMEOUT_S = 30.0
DRAIN_TIMEOUT_S = 10.0


class Kind(StrEnum):
    LOOKUP = "lookup"
    LOOKUP_BESIDE_REGISTRATIONS = "lookup_beside_registrations"
    REGISTER_SAME = "register_same"
    REGISTER_CHANGED = "register_changed"
    UNSUPPORTED = "unsupported"
    ECHO = "echo"


class Measurement(Struct, frozen=True, kw_only=True):
    """One row to measure."""

    kind: Kind
    connections: int = 1
    in_flight: int = 1
    topic_count: int = 0
    warm_up_s: float = 0.3
    duration_s: float = 1.0


class Job(Struct, frozen=True, kw_only=True):
    """All measurements of one table size on one server."""

    port: int
    pid: int
    core: int | None  # the load program stays on this one
    topic_count: int
    measurements: list[Measurement]


class Outcome(Struct, frozen=True, kw_only=True):
    measurement: Measurement
    requests: int
    duration_s: float
    server_cpu: CpuTime
    load_cpu_s: float
    latencies_ms: dict[str, float] | None = None


class JobOutcome(Struct, frozen=True, kw_only=True):
    outcomes: list[Outcome]
    memory_mb: Memory


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    if job.core is not None:
        os.sched_setaffinity(0, {job.core})
    with ExitStack() as brokers:
        if job.topic_count:
            _await_empty_table(job.port)
            _register(job, brokers)
            _check_all_routes(job.port, job.topic_count)
        outcomes = [run(_drive(job, measurement)) for measurement in job.measurements]
        result = JobOutcome(outcomes=outcomes, memory_mb=memory(job.pid))
    sys.stdout.buffer.write(msgspec.json.encode(result))


# Set-up


def _await_empty_table(port: int) -> None:
    """Brokers of the job before went with their connections; the official server needs a while."""
    deadline = time.monotonic() + EMPTY_TABLE_TIMEOUT_S
    request = workload.route_requests(1)[0]
    with WireClient(port) as client:
        while client.call(request)[1].code != ResponseCode.TOPIC_NOT_EXIST:
            if time.monotonic() > deadline:
                raise RuntimeError("the table of the job before is still there")
            time.sleep(0.01)


def _register(job: Job, brokers: ExitStack) -> None:
    """Brokers that hold their connections: closing one removes its broker from the table."""
    for number in range(LOOKUP_BROKERS):
        client = brokers.enter_context(WireClient(job.port))
        _, answer = client.call(workload.registration_request(number, job.topic_count))
        if answer.code != ResponseCode.SUCCESS:
            raise RuntimeError(f"registration answered {answer.code}: {answer.remark}")


def _check_all_routes(port: int, topic_count: int) -> None:
    requests = workload.route_requests(topic_count)
    with WireClient(port) as client:
        for start in range(0, topic_count, CHECK_BATCH):
            batch = requests[start : start + CHECK_BATCH]
            client.send(b"".join(batch))
            for _ in batch:
                _, answer = client.read()
                index = answer.opaque - workload.OPAQUE_FIRST
                expected = workload.expected_route(index, LOOKUP_BROKERS)
                if answer.code != ResponseCode.SUCCESS or not _is_same(answer.body, expected):
                    raise RuntimeError(f"topic {index}: {answer.code} {answer.body[:500]!r}")


def _is_same(body: bytes, expected: bytes) -> bool:
    """Brokers may stand in any order, bytes must not be more or fewer."""
    return body == expected or (len(body) == len(expected) and _sorted(body) == _sorted(expected))


def _sorted(body: bytes) -> TopicRoute:
    route = decode_body(TopicRoute, body)
    return TopicRoute(
        brokers=sorted(route.brokers, key=lambda broker: broker.broker_name),
        queues=sorted(route.queues, key=lambda queue: queue.broker_name),
    )


# Measuring


async def _drive(job: Job, measurement: Measurement) -> Outcome:
    tally = Tally(latencies_s=[] if measurement.in_flight == 1 else None)
    with ExitStack() as brokers:
        connections = await _connect(job, measurement, tally)
        if measurement.kind is Kind.LOOKUP_BESIDE_REGISTRATIONS:
            connections.append(await _registering_beside(job, tally, brokers))
        return await _observe(job, measurement, tally, connections)


async def _observe(
    job: Job, measurement: Measurement, tally: Tally, connections: list[LoadConnection]
) -> Outcome:
    await _watch(tally, measurement.warm_up_s)
    tally.latencies_s = None if tally.latencies_s is None else []
    started_at, answers, server, own = _reading(job, tally)
    await _watch(tally, measurement.duration_s)
    ended_at, answers_end, server_end, own_end = _reading(job, tally)
    latencies_s = tally.latencies_s
    tally.latencies_s = None
    await _drain(connections)
    return Outcome(
        measurement=measurement,
        requests=answers_end - answers,
        duration_s=ended_at - started_at,
        server_cpu=server_end - server,
        load_cpu_s=own_end - own,
        latencies_ms=percentiles_ms(latencies_s) if latencies_s else None,
    )


def _reading(job: Job, tally: Tally) -> tuple[float, int, CpuTime, float]:
    return time.perf_counter(), tally.answers, cpu_time(job.pid), time.process_time()


async def _connect(job: Job, measurement: Measurement, tally: Tally) -> list[LoadConnection]:
    loop = asyncio.get_running_loop()
    connections: list[LoadConnection] = []
    sources = _sources(measurement)
    expected = _expected_answer(job, next(sources[0]))
    for requests in sources:
        connection = LoadConnection(requests, expected, tally, in_flight=measurement.in_flight)
        await loop.create_connection(lambda it=connection: it, "127.0.0.1", job.port)  # type: ignore[misc] # a default argument binds the loop's variable
        connections.append(connection)
    return connections


async def _registering_beside(job: Job, tally: Tally, brokers: ExitStack) -> LoadConnection:
    """A broker whose table changes all the time.

    Its first connection stays open: a broker that left and came back would change the routes.
    """
    requests = _editions(LOOKUP_BROKERS - 1, job.topic_count)
    client = brokers.enter_context(WireClient(job.port))
    expected = AnswerShape.of(client.call(next(requests))[0])
    connection = LoadConnection(
        requests, expected, tally, pause_s=REGISTRATION_PAUSE_S, is_counted=False
    )
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: connection, "127.0.0.1", job.port)
    return connection


def _sources(measurement: Measurement) -> list[Iterator[bytes]]:
    """An endless sequence of requests per connection."""
    count, topic_count = measurement.connections, measurement.topic_count
    match measurement.kind:
        case Kind.LOOKUP | Kind.LOOKUP_BESIDE_REGISTRATIONS:
            requests = workload.route_requests(topic_count)
            sequence = random.Random(SEED).choices(requests, k=SEQUENCE_LENGTH)
            steps = [SEQUENCE_LENGTH * number // count for number in range(count)]
            return [cycle(sequence[step:] + sequence[:step]) for step in steps]
        case Kind.REGISTER_SAME:
            return [
                cycle([workload.registration_request(broker, topic_count)])
                for broker in range(count)
            ]
        case Kind.REGISTER_CHANGED:
            return [_editions(broker, topic_count) for broker in range(count)]
        case Kind.UNSUPPORTED:
            return [cycle([workload.unsupported_request()])] * count
        case Kind.ECHO:
            return [cycle([workload.echo_request()])] * count


def _editions(broker: int, topic_count: int) -> Iterator[bytes]:
    return cycle(
        [
            workload.registration_request(broker, topic_count, edition=edition)
            for edition in range(2)
        ]
    )


def _expected_answer(job: Job, request: bytes) -> AnswerShape:
    with WireClient(job.port) as client:
        return AnswerShape.of(client.call(request)[0])


async def _watch(tally: Tally, duration_s: float) -> None:
    await asyncio.sleep(duration_s)
    if tally.failure is not None:
        raise RuntimeError(tally.failure)


async def _drain(connections: list[LoadConnection]) -> None:
    for connection in connections:
        connection.stop()
    async with asyncio.timeout(DRAIN_TIMEOUT_S):
        while any(connection.outstanding for connection in connections):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    for connection in connections:
        connection.close()


if __name__ == "__main__":
    os.environ.setdefault("EMBERQ_LOOP", "uvloop")
    main()
