"""`python -m benchmarks.client_soak`: the client for half an hour while servers die and connections
break (`make bench PART=client_soak ARGS="--minutes 5"`).

A producer sends numbered messages of several keys, each key's next number when the one before it
was acknowledged; a concurrent, an orderly and a pull consumer read them. Every few seconds the next
fault comes. At the end everything acknowledged must have arrived everywhere, the keys of consumers
in order must have kept their order, memory must be flat, and closing must leave no task, socket or
thread; else the exit code is 1.
"""

import argparse
import asyncio
import gc
import os
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from itertools import cycle
from pathlib import Path

from msgspec import Struct

from benchmarks.process_facts import Memory, memory
from emberq.aio import (
    Client,
    ClientSettings,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
)
from emberq.errors import EmberqError
from emberq.remoting.event_loop import run
from emberq.testing.faulty_proxy import Towards
from tests.support.proxied_cluster import ProxiedCluster, proxied_cluster

MINUTES = 30.0
KEYS = 16
QUEUES = 8
PAUSE_S = 0.02
PAUSE_AFTER_FAILURE_S = 0.1
SEND_TIMEOUT_S = 2.0
FAULT_EVERY_S = 10.0
STALL_S = 4.0
# After a fault everything must flow again within this time.
RECOVERY_MAX_S = 45.0
REPORT_EVERY_S = 30.0
FLAT_MAX = 1.15
# Below this, growth is noise.
GROWTH_MIN_MB = 8.0
TOPIC = "soak"
FIRST = "CONSUME_FROM_FIRST_OFFSET"


class Sender:
    """Keeps every key going."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.acknowledged = [-1] * KEYS
        self.failures = 0

    @property
    def count(self) -> int:
        return sum(last + 1 for last in self.acknowledged)

    async def run(self) -> None:
        await asyncio.gather(*(self._send(key) for key in range(KEYS)))

    async def _send(self, key: int) -> None:
        number = 0
        while True:
            try:
                await self._producer.send(
                    TOPIC, b"%d:%d" % (key, number), ordering_key=key, timeout=SEND_TIMEOUT_S
                )
            except EmberqError:
                self.failures += 1
                await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
                continue
            self.acknowledged[key] = number
            number += 1
            await asyncio.sleep(PAUSE_S)


class Arrivals:
    """What one consumer got, in little memory: all below a mark, and a few above it."""

    def __init__(self, name: str, *, is_ordered: bool) -> None:
        self.name = name
        self._is_ordered = is_ordered
        self._marks = [0] * KEYS
        self._above: list[set[int]] = [set() for _ in range(KEYS)]
        self.count = 0
        self.twice = 0
        self.out_of_order = 0

    def note(self, body: bytes) -> None:
        key, number = map(int, body.split(b":"))
        self.count += 1
        above, mark = self._above[key], self._marks[key]
        if number < mark or number in above:
            self.twice += 1
            return
        if self._is_ordered and number != mark:
            self.out_of_order += 1
        above.add(number)
        while mark in above:
            above.discard(mark)
            mark += 1
        self._marks[key] = mark

    def missing(self, sender: Sender) -> int:
        return sum(
            max(last + 1 - mark - len(above), 0)
            for last, mark, above in zip(sender.acknowledged, self._marks, self._above, strict=True)
        )


class Left(Struct, frozen=True, kw_only=True):
    """What there is in this process."""

    tasks: int
    sockets: int
    threads: int


def _there_is() -> Left:
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(entry.readlink()))
        except FileNotFoundError:
            continue
    return Left(
        tasks=len(asyncio.all_tasks()),
        sockets=sum(link.startswith("socket:") for link in links),
        threads=threading.active_count(),
    )


Fault = Callable[[ProxiedCluster], Awaitable[None]]


async def _cut(cluster: ProxiedCluster) -> None:
    cluster.to_broker.cut()
    cluster.to_name_server.cut()


async def _half_open(cluster: ProxiedCluster) -> None:
    cluster.to_broker.freeze()
    cluster.to_name_server.freeze()


async def _stalled(cluster: ProxiedCluster) -> None:
    cluster.to_broker.stall(Towards.CLIENT)
    await asyncio.sleep(STALL_S)
    cluster.to_broker.heal()


async def _truncated(cluster: ProxiedCluster) -> None:
    cluster.to_broker.truncate(Towards.CLIENT, 1000)
    cluster.to_broker.truncate(Towards.SERVER, 1000)


async def _slow(cluster: ProxiedCluster) -> None:
    cluster.to_broker.delay(0.05)
    await asyncio.sleep(STALL_S)
    cluster.to_broker.heal()


async def _broker_killed(cluster: ProxiedCluster) -> None:
    await cluster.kill_broker()
    await cluster.restart_broker()


async def _name_server_killed(cluster: ProxiedCluster) -> None:
    await cluster.kill_name_server()
    await cluster.restart_name_server()


FAULTS: tuple[Fault, ...] = (
    *(_cut, _half_open, _broker_killed, _truncated, _stalled, _slow),
    _name_server_killed,
)


class Soak:
    """One run."""

    def __init__(self, cluster: ProxiedCluster, duration_s: float) -> None:
        self._cluster = cluster
        self._duration_s = duration_s
        self._started_at = time.monotonic()
        self.arrivals = [
            Arrivals("concurrent", is_ordered=False),
            Arrivals("in order", is_ordered=True),
            Arrivals("pull", is_ordered=True),
        ]
        self.recoveries_s: dict[str, list[float]] = {}
        self.stuck: list[str] = []
        self.early: Memory | None = None
        self.late: Memory | None = None
        self.lost: dict[str, int] = {}

    async def run(self) -> int:
        """The number of messages that were acknowledged."""
        settings = ClientSettings(heartbeat=5.0, persist_offsets=1.0)
        concurrent, in_order, pulled = self.arrivals
        server = self._cluster.name_server
        async with (
            Client(server, settings=settings) as sending,
            Client(server, settings=settings) as receiving,
            Producer("soak-producers", client=sending) as producer,
        ):
            await producer.create_topic(TOPIC, queues=QUEUES)
            pushing = _pusher(receiving, "soak-concurrent", concurrent, ordered=False)
            ordered = _pusher(receiving, "soak-ordered", in_order, ordered=True)
            puller = PullConsumer("soak-pull", client=receiving, consume_from_where=FIRST)
            async with pushing, ordered, puller:
                await puller.subscribe(TOPIC)
                reading = asyncio.create_task(_read(puller, pulled))
                sender = Sender(producer)
                sender_task = asyncio.create_task(sender.run())
                await self._break_things(sender)
                sender_task.cancel()
                await asyncio.gather(sender_task, return_exceptions=True)
                await self._arrive(sender)
                self.late = memory(os.getpid())
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
        self.lost = {each.name: each.missing(sender) for each in self.arrivals}
        return sender.count

    async def _break_things(self, sender: Sender) -> None:
        faults = cycle(FAULTS)
        await self._flows("start", sender)
        reported_at = 0.0
        while (elapsed := time.monotonic() - self._started_at) < self._duration_s:
            if elapsed - reported_at >= REPORT_EVERY_S:
                reported_at = elapsed
                self._report(elapsed, sender)
            if self.early is None and elapsed > self._duration_s / 5:
                gc.collect()
                self.early = memory(os.getpid())
            fault = next(faults)
            await fault(self._cluster)
            await self._flows(fault.__name__.strip("_").replace("_", " "), sender)
            await asyncio.sleep(
                max(FAULT_EVERY_S - (time.monotonic() - self._started_at - elapsed), 0)
            )
        gc.collect()

    async def _flows(self, name: str, sender: Sender) -> None:
        """Wait until messages are sent, and arrive everywhere, again."""
        began_at = time.monotonic()
        goal = sender.count + 4 * KEYS
        marks = [each.count for each in self.arrivals]
        while time.monotonic() - began_at < RECOVERY_MAX_S:
            arrives = all(
                each.count >= mark + 4 * KEYS
                for each, mark in zip(self.arrivals, marks, strict=True)
            )
            if sender.count >= goal and arrives:
                self.recoveries_s.setdefault(name, []).append(time.monotonic() - began_at)
                return
            await asyncio.sleep(0.05)
        self.stuck.append(name)

    async def _arrive(self, sender: Sender) -> None:
        deadline = time.monotonic() + RECOVERY_MAX_S
        while any(each.missing(sender) for each in self.arrivals):
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(0.05)

    def _report(self, elapsed: float, sender: Sender) -> None:
        now = memory(os.getpid())
        got = ", ".join(f"{each.name} {each.count:,}" for each in self.arrivals)
        print(
            f"[{elapsed:5.0f} s] acknowledged {sender.count:,}, failures {sender.failures:,}; "
            f"{got}; {now.anonymous_mb:.0f} MB anonymous; {_there_is()}",
            flush=True,
        )


def _pusher(client: Client, group: str, arrivals: Arrivals, *, ordered: bool) -> PushConsumer:
    consumer = PushConsumer(group, client=client, ordered=ordered, consume_from_where=FIRST)

    @consumer.subscribe(TOPIC)
    async def note(message: ReceivedMessage) -> None:
        arrivals.note(message.body)

    return consumer


async def _read(consumer: PullConsumer, arrivals: Arrivals) -> None:
    async for message in consumer:
        arrivals.note(message.body)


async def _soak(duration_s: float) -> bool:
    with tempfile.TemporaryDirectory(prefix="emberq-soak-") as folder:
        async with proxied_cluster(Path(folder)) as cluster:
            there_was = _there_is()
            soak = Soak(cluster, duration_s)
            acknowledged = await soak.run()
            cluster.to_broker.cut()
            cluster.to_name_server.cut()
            await asyncio.sleep(1.0)  # the proxies' own connections end
            return _judge(soak, acknowledged, there_was, _there_is())


def _judge(soak: Soak, acknowledged: int, before: Left, after: Left) -> bool:
    early, late = soak.early, soak.late
    assert early is not None
    assert late is not None
    growth_mb = late.anonymous_mb - early.anonymous_mb
    is_flat = growth_mb < GROWTH_MIN_MB or late.anonymous_mb <= early.anonymous_mb * FLAT_MAX
    # The broker that was restarted is another process with pipes of its own, not sockets.
    is_clean = after.tasks <= before.tasks and after.sockets <= before.sockets
    print(f"acknowledged {acknowledged:,}")
    for each in soak.arrivals:
        print(
            f"{each.name}: arrived {each.count:,}, lost {soak.lost[each.name]}, "
            f"twice {each.twice:,}, out of order {each.out_of_order}"
        )
    for name, times in soak.recoveries_s.items():
        print(f"{name}: {len(times)} times, all flows again after {max(times):.1f} s at most")
    for name in soak.stuck:
        print(f"{name}: did not flow again within {RECOVERY_MAX_S:.0f} s")
    print(
        f"memory {early.anonymous_mb:.0f} → {late.anonymous_mb:.0f} MB anonymous "
        f"({late.anonymous_mb / early.anonymous_mb:.2f} ×, goal {FLAT_MAX}), "
        f"{early.resident_mb:.0f} → {late.resident_mb:.0f} MB resident"
    )
    print(f"before: {before}; after closing: {after}")
    return (
        not any(soak.lost.values())
        and not any(each.out_of_order for each in soak.arrivals)
        and not soak.stuck
        and is_flat
        and is_clean
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.client_soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    arguments = parser.parse_args()
    is_sound = run(_soak(arguments.minutes * 60))
    print("sound" if is_sound else "NOT SOUND")
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
