"""`python -m benchmarks.scenarios.soak`: many clients on one broker for minutes.

1,000 producers at 10 messages a second each, 1,000 consumers in 200 groups of 5, each group with
its own topic; then 10,000 idle connections, and heartbeats beside 64 flooding connections. Every
message that was acknowledged must arrive once; loss or repetition ends with exit code 1.
"""

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import cycle

from msgspec import Struct

from benchmarks.latency import percentiles_ms
from benchmarks.process_facts import Memory, cpu_time, memory
from benchmarks.scenarios import brokers, frames
from benchmarks.scenarios.connections import FrameConnection, SendConnection, Tally
from benchmarks.scenarios.soak_clients import Received, SoakConsumer, SoakProducer, heartbeat
from benchmarks.servers import Running
from benchmarks.wire_client import WireClient
from emberq.protocol.bodies.heartbeat import Heartbeat, ProducerPresence
from emberq.protocol.codes import ResponseCode
from emberq.remoting.event_loop import run

PRODUCERS = 1_000
GROUPS = 200
MEMBERS = 5
PER_PRODUCER_S = 10
TICK_S = 0.002
HEARTBEAT_INTERVAL_S = 30.0
COMMIT_INTERVAL_S = 5.0
MEMORY_FIRST_AFTER_S = 120.0
ARRIVAL_MAX_S = 60.0
IDLE_CONNECTIONS = 10_000
IDLE_HELD_S = 10.0
FLOODING = 64
FLOOD_S = 10.0
BEAT_EVERY_S = 0.02


class Soaked(Struct, kw_only=True):
    """What the clients saw."""

    acknowledged: int
    refused: int
    arrived: int
    lost: int
    twice: int
    send_ms: dict[str, float]
    delivery_ms: dict[str, float]
    cpu_us: float
    memory_early: Memory
    memory_late: Memory
    refusals: list[str]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scenarios.soak")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--pure", action="store_true", help="without the compiled kernel")
    parser.add_argument("--per-second", type=int, default=PER_PRODUCER_S * PRODUCERS)
    arguments = parser.parse_args()
    gc.disable()  # nothing here is circular, and a pause would be taken for the broker's
    with brokers.emberq_broker(is_pure=arguments.pure) as running:
        soaked = run(_soak(running, arguments.minutes * 60, arguments.per_second))
        _report(soaked)
        idle = run(_hold_idle(running))
        beats = run(_beat_beside_flood(running))
    print(f"{IDLE_CONNECTIONS:,} idle connections held, {idle.resident_mb:.0f} MB resident")
    print(f"heartbeat beside {FLOODING} flooding connections: {_text(beats)} ms (goal: p99 100)")
    return 1 if soaked.lost or soaked.twice else 0


def _report(soaked: Soaked) -> None:
    early, late = soaked.memory_early, soaked.memory_late
    print(
        f"acknowledged {soaked.acknowledged:,}, refused {soaked.refused:,}, arrived "
        f"{soaked.arrived:,}, lost {soaked.lost}, twice {soaked.twice}\n"
        f"send {_text(soaked.send_ms)} ms, delivery {_text(soaked.delivery_ms)} ms (goal: p99 50)\n"
        f"broker {soaked.cpu_us:.1f} µs of CPU per message\n"
        f"memory {early.anonymous_mb:.0f} → {late.anonymous_mb:.0f} MB anonymous "
        f"({late.anonymous_mb / early.anonymous_mb:.2f} ×, goal 1.1), "
        f"{early.resident_mb:.0f} → {late.resident_mb:.0f} MB resident"
    )
    for refusal in sorted(set(soaked.refusals))[:5]:
        print(f"refused: {refusal}")


async def _soak(running: Running, duration_s: float, per_second: int) -> Soaked:
    topics = [f"soak-{number:03d}" for number in range(GROUPS)]
    _create(running.port, topics)
    tally = Tally(latencies_s=[])
    received = Received(counts=[bytearray() for _ in range(PRODUCERS)])
    consumers = [
        SoakConsumer(tally, received, f"soak-group-{number:03d}", topics[number], queue)
        for number in range(GROUPS)
        for queue in range(MEMBERS)
    ]
    producers = [
        SoakProducer(tally, number, topics[number % GROUPS], MEMBERS) for number in range(PRODUCERS)
    ]
    await _connect(running.port, [*consumers, *producers])
    cpu_before = cpu_time(running.pid).total_s
    chores = asyncio.create_task(_chores(consumers, producers))
    early = await _send(running, producers, duration_s, per_second)
    late = memory(running.pid)
    await _await_arrival(producers, received)
    cpu_s = cpu_time(running.pid).total_s - cpu_before
    chores.cancel()
    _close([*consumers, *producers])
    if tally.failure is not None:
        raise RuntimeError(tally.failure)
    return Soaked(
        acknowledged=sum(len(producer.acknowledged) for producer in producers),
        refused=tally.refused,
        arrived=received.messages,
        lost=_lost(producers, received),
        twice=received.twice,
        send_ms=percentiles_ms(tally.latencies_s),
        delivery_ms=percentiles_ms(received.latencies_s),
        cpu_us=cpu_s / max(received.messages, 1) * 1e6,
        memory_early=early,
        memory_late=late,
        refusals=[text for producer in producers for text in producer.refused],
    )


async def _send(
    running: Running, producers: Sequence[SoakProducer], duration_s: float, per_second: int
) -> Memory:
    """The producers in turns, at a fixed rate; returns the memory of the broker early on."""
    started_at = time.perf_counter()
    measured_at = started_at + min(MEMORY_FIRST_AFTER_S, duration_s / 5)
    early: Memory | None = None
    following = cycle(producers)
    sent = 0
    while (elapsed := time.perf_counter() - started_at) < duration_s:
        for _ in range(int(elapsed * per_second) - sent):
            next(following).send()
            sent += 1
        if early is None and time.perf_counter() > measured_at:
            early = memory(running.pid)
            print(f"after {elapsed:.0f} s: {sent:,} sent, {early}", flush=True)
        await asyncio.sleep(TICK_S)
    return early or memory(running.pid)


async def _chores(consumers: list[SoakConsumer], producers: list[SoakProducer]) -> None:
    """Heartbeats and commits, spread evenly as those of real clients are."""
    clients: list[SoakConsumer | SoakProducer] = [*consumers, *producers]
    beats, commits = cycle(clients), cycle(consumers)
    beats_due = commits_due = 0.0
    while True:
        await asyncio.sleep(0.05)
        beats_due += len(clients) * 0.05 / HEARTBEAT_INTERVAL_S
        commits_due += len(consumers) * 0.05 / COMMIT_INTERVAL_S
        for _ in range(int(beats_due)):
            next(beats).beat()
        for _ in range(int(commits_due)):
            next(commits).commit()
        beats_due, commits_due = beats_due % 1, commits_due % 1


async def _await_arrival(producers: Sequence[SoakProducer], received: Received) -> None:
    deadline = time.perf_counter() + ARRIVAL_MAX_S
    while time.perf_counter() < deadline:
        await asyncio.sleep(0.1)
        if not any(producer.outstanding for producer in producers) and not _lost(
            producers, received
        ):
            return


def _lost(producers: Iterable[SoakProducer], received: Received) -> int:
    lost = 0
    for number, producer in enumerate(producers):
        seen = received.counts[number]
        lost += sum(1 for each in producer.acknowledged if each >= len(seen) or not seen[each])
    return lost


async def _hold_idle(running: Running) -> Memory:
    """Connections that say nothing; all must still be there at the end."""
    connections = []
    for _ in range(IDLE_CONNECTIONS):
        connections.append(await asyncio.open_connection("127.0.0.1", running.port))
    await asyncio.sleep(IDLE_HELD_S)
    closed = sum(1 for reader, _ in connections if reader.at_eof())
    held = memory(running.pid)
    for _, writer in connections:
        writer.close()
    if closed:
        raise RuntimeError(f"{closed} of {IDLE_CONNECTIONS} idle connections were closed")
    return held


async def _beat_beside_flood(running: Running) -> dict[str, float]:
    flood = Tally(latencies_s=[])
    body = frames.body_of(1024)
    flooding = [
        SendConnection(
            flood,
            [[frames.send("soak-flood", place % 4, body, place)] for place in range(16)],
            1,
        )
        for _ in range(FLOODING)
    ]
    await _connect(running.port, flooding)
    beats = Tally(latencies_s=[])
    beating = _Beating(beats)
    await _connect(running.port, [beating])
    end = time.perf_counter() + FLOOD_S
    while time.perf_counter() < end:
        beating.beat()
        await asyncio.sleep(BEAT_EVERY_S)
    _close([*flooding, beating])
    return percentiles_ms(beats.latencies_s)


class _Beating(FrameConnection):
    """Measures heartbeats; one at a time."""

    def __init__(self, tally: Tally) -> None:
        super().__init__(tally)
        self._sent_at = 0.0
        presence = [ProducerPresence(group=frames.GROUP)]
        self._frame = heartbeat(Heartbeat(client_id="beating", producers=presence))

    def beat(self) -> None:
        if not self.outstanding:
            self._sent_at = time.perf_counter()
            self.request(self._frame)
            self.flush()

    def take(self, start: int, end: int, now: float) -> None:
        self._tally.latencies_s.append(time.perf_counter() - self._sent_at)


def _create(port: int, topics: list[str]) -> None:
    with WireClient(port) as client:
        for topic in topics:
            answer = client.call(frames.create_topic(topic, MEMBERS))[1]
            if answer.code != ResponseCode.SUCCESS:
                raise RuntimeError(f"{topic} was not created: {answer.code} {answer.remark}")


async def _connect(port: int, connections: Iterable[FrameConnection]) -> None:
    loop = asyncio.get_running_loop()
    for connection in connections:
        await loop.create_connection(lambda it=connection: it, "127.0.0.1", port)  # type: ignore[misc] # a default argument binds the loop's variable


def _close(connections: Iterable[FrameConnection]) -> None:
    for connection in connections:
        connection.stop()
        connection.close()


def _text(latencies_ms: dict[str, float]) -> str:
    return ", ".join(f"{point} {ms}" for point, ms in latencies_ms.items())


if __name__ == "__main__":
    sys.exit(main())
