"""The load program: `python -m benchmarks.scenarios.driver` reads a job, drives a broker, reports.

It is a process of its own, bound to one core, and does the same to every broker.
"""

import asyncio
import gc
import os
import sys
import time

import msgspec
from msgspec import Struct

from benchmarks.latency import TAIL_POINTS, percentiles_ms
from benchmarks.process_facts import CpuTime, Memory, cpu_time, memory
from benchmarks.scenarios import frames
from benchmarks.scenarios.connections import (
    FrameConnection,
    PacedSender,
    PullConnection,
    PushConnection,
    SendConnection,
    Tally,
    stamped_body,
)
from benchmarks.scenarios.rows import BACKLOG_SIZES, Kind, RowShape
from benchmarks.wire_client import WireClient
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.remoting.event_loop import run

BACKLOG_MESSAGES = 16_384  # per queue
PUSH_TOPIC = "bench-push"
DRAIN_TIMEOUT_S = 30.0
# A broker that works less than this share of a core has nothing left to do.
IDLE_SHARE = 0.1
SETTLE_LOOK_S = 1.0
SETTLE_MAX_S = 90.0
# Frames per place before they repeat: other keys, and other topics where there are many.
SEQUENCE_LENGTH = 16
SEQUENCE_BYTES_MAX = 64 * 1024
# Neighbours in time are far apart in the table of topics; prime, so that all have their turn.
TOPIC_STEP = 7_919


class Job(Struct, frozen=True, kw_only=True):
    port: int
    pid: int
    core: int | None
    rows: list[RowShape]
    warm_up_s: float
    duration_s: float


class Outcome(Struct, frozen=True, kw_only=True):
    row: RowShape
    messages: int
    requests: int
    refused: int
    duration_s: float
    broker_cpu: CpuTime
    load_cpu_s: float
    latencies_ms: dict[str, float]
    memory: Memory


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    if job.core is not None:
        os.sched_setaffinity(0, {job.core})
    gc.disable()  # nothing here is circular, and a pause would be taken for the broker's
    _set_up(job)
    for row in job.rows:
        outcome = run(_drive(job, row))
        sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
        sys.stdout.buffer.flush()


def backlog_topic(size: int) -> str:
    return f"bench-backlog-{size}"


def _set_up(job: Job) -> None:
    """Create topics and fill queues, as far as the rows need them; done once per broker."""
    pulled = sorted({row.size for row in job.rows if row.kind is Kind.PULL})
    with WireClient(job.port) as client:
        for request in frames.create_topics(max(row.topics for row in job.rows)):
            _call(client, request)
        if any(row.kind is Kind.PUSH for row in job.rows):
            _call(client, frames.create_topic(PUSH_TOPIC, 1))
        for size in pulled:
            assert size in BACKLOG_SIZES
            _call(client, frames.create_topic(backlog_topic(size), frames.BACKLOG_QUEUES))
            for queue_id in range(frames.BACKLOG_QUEUES):
                batch = frames.send_batch(backlog_topic(size), queue_id, frames.body_of(size))
                for _ in range(BACKLOG_MESSAGES // frames.BATCH_COUNT):
                    _call(client, batch)
    _fill_topics(job)


def _fill_topics(job: Job) -> None:
    """A message to every queue that a row with many topics writes to, and time to make their
    files: that happens once in a queue's life and is not what a message costs."""
    many = [row for row in job.rows if row.topics > 1]
    if not many:
        return
    with WireClient(job.port) as client:
        for row in many:
            for number in range(row.connections):
                for place in range(row.in_flight):
                    requests = _send_frames(row, number, place)
                    client.send(b"".join(requests))
                    for _ in requests:
                        client.read()
    deadline = time.monotonic() + SETTLE_MAX_S
    while time.monotonic() < deadline:
        before = cpu_time(job.pid).total_s
        time.sleep(SETTLE_LOOK_S)
        if cpu_time(job.pid).total_s - before < SETTLE_LOOK_S * IDLE_SHARE:
            return


def _call(client: WireClient, request: bytes) -> None:
    answer = client.call(request)[1]
    if answer.code != ResponseCode.SUCCESS:
        raise RuntimeError(f"set-up was answered {answer.code}: {answer.remark}")


async def _drive(job: Job, row: RowShape) -> Outcome:
    tally = Tally(latencies_s=[])
    connections = await _connected(job, row, tally)
    await _watch(tally, job.warm_up_s)
    tally.latencies_s.clear()
    messages, requests, refused = tally.messages, tally.requests, tally.refused
    broker_cpu, load_cpu = cpu_time(job.pid), time.process_time()
    started_at = time.perf_counter()
    await _watch(tally, job.duration_s)
    duration_s = time.perf_counter() - started_at
    outcome = Outcome(
        row=row,
        messages=tally.messages - messages,
        requests=tally.requests - requests,
        refused=tally.refused - refused,
        duration_s=duration_s,
        broker_cpu=cpu_time(job.pid) - broker_cpu,
        load_cpu_s=time.process_time() - load_cpu,
        latencies_ms=percentiles_ms(tally.latencies_s, TAIL_POINTS),
        memory=memory(job.pid),
    )
    await _drain(connections)
    return outcome


async def _connected(job: Job, row: RowShape, tally: Tally) -> list[FrameConnection]:
    connections: list[FrameConnection] = []
    for number in range(row.connections):
        match row.kind:
            case Kind.SEND | Kind.BATCH:
                places = [_send_frames(row, number, place) for place in range(row.in_flight)]
                count = frames.BATCH_COUNT if row.kind is Kind.BATCH else 1
                connections.append(SendConnection(tally, places, count))
            case Kind.PULL:
                queue_id = number % frames.BACKLOG_QUEUES
                pulls = frames.PullFrames(
                    backlog_topic(row.size), queue_id, row.count_max, may_wait=False
                )
                connections.append(PullConnection(tally, pulls, BACKLOG_MESSAGES))
            case Kind.PUSH:
                pulls = frames.PullFrames(PUSH_TOPIC, 0, row.count_max, may_wait=True)
                connections.append(PushConnection(tally, pulls, _end_offset(job.port)))
                connections.append(PacedSender(tally, _stamped_send, row.per_s))
    loop = asyncio.get_running_loop()
    for connection in connections:
        await loop.create_connection(lambda it=connection: it, "127.0.0.1", job.port)  # type: ignore[misc] # a default argument binds the loop's variable
    return connections


def _send_frames(row: RowShape, number: int, place: int) -> list[bytes]:
    make = frames.send_batch if row.kind is Kind.BATCH else frames.send
    per_frame = row.size * (frames.BATCH_COUNT if row.kind is Kind.BATCH else 1)
    count = max(1, min(SEQUENCE_LENGTH, SEQUENCE_BYTES_MAX // per_frame))
    if row.topics > 1:
        count = -(-row.topics // (row.connections * row.in_flight))  # every topic once
    first = (number * row.in_flight + place) * count
    return [
        make(
            frames.topic_name(turn * TOPIC_STEP % row.topics),
            turn % frames.QUEUES,
            frames.body_of(row.size),
            place,
            turn,
        )
        for turn in range(first, first + count)
    ]


def _stamped_send() -> bytes:
    return frames.send(PUSH_TOPIC, 0, stamped_body())


def _end_offset(port: int) -> int:
    fields = {"topic": PUSH_TOPIC, "queueId": "0", "committed": "true"}
    with WireClient(port) as client:
        answer = client.call(frames.request(RequestCode.GET_MAX_OFFSET, fields))[1]
    return int((answer.fields or {})["offset"])


async def _watch(tally: Tally, duration_s: float) -> None:
    await asyncio.sleep(duration_s)
    if tally.failure is not None:
        raise RuntimeError(tally.failure)


async def _drain(connections: list[FrameConnection]) -> None:
    """Answers on their way arrive before the next row begins; a consumer that waits does not."""
    for connection in connections:
        connection.stop()
    async with asyncio.timeout(DRAIN_TIMEOUT_S):
        while any(  # noqa: ASYNC110 - there is no single event to wait for
            connection.outstanding and not isinstance(connection, PushConnection)
            for connection in connections
        ):
            await asyncio.sleep(0.002)
    for connection in connections:
        connection.close()


if __name__ == "__main__":
    os.environ.setdefault("EMBERQ_LOOP", "uvloop")
    main()
