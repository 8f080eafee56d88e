"""`python -m benchmarks.timers`: messages that wait for a time, beside the official broker.

Three things per broker: what a waiting message costs on its way in, and the memory when a million
of them wait; how fast very many that are due at once are delivered; and how long after its time a
message comes while 5,000 per second are sent and delivered.
"""

import argparse
import random
import socket
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks import machine, official
from benchmarks.process_facts import cpu_time, memory
from benchmarks.scenarios import brokers, frames
from benchmarks.servers import Running
from benchmarks.wire_client import WireClient
from emberq.protocol.codes import RequestCode
from emberq.record.decode import iter_records

RESULTS = Path(__file__).parent / "results"
BODY = b"x" * 128
WAITING_COUNT = 1_000_000
# Nearly an hour ahead, spread over an hour: nothing of it is delivered while we measure.
WAITING_FROM_MS, WAITING_SPREAD_MS = 3_000_000, 3_600_000
BURST_COUNT = 200_000
BURST_IN_MS, BURST_SPREAD_MS = 25_000, 2_000
PACED_PER_S, PACED_S = 5_000, 10
PACED_DELAY_MS = (1_000, 3_000)
CONNECTIONS, IN_FLIGHT = 4, 16
SETTLE_TIMEOUT_S = 120.0
POLL_S = 0.02
WAITING_TOPIC, BURST_TOPIC, PACED_TOPIC = "bench-waiting", "bench-burst", "bench-paced"

RATE_GOAL, MEMORY_GOAL, FLAT_GOAL, LATE_GOAL_MS = 1.0, 0.2, 1.15, 100.0


class BrokerFigures(Struct, kw_only=True):
    """All CPU is the broker's own."""

    broker: str
    idle_anonymous_mb: float = 0.0
    idle_resident_mb: float = 0.0
    waiting_count: int = 0
    send_us_first_tenth: float = 0.0  # CPU per message, the wheel included
    send_us_last_tenth: float = 0.0
    send_per_s: float = 0.0
    anonymous_mb: float = 0.0
    resident_mb: float = 0.0
    burst_count: int = 0
    burst_cpu_us: float = 0.0
    burst_per_cpu_s: float = 0.0
    burst_per_s: float = 0.0
    paced_count: int = 0
    late_p50_ms: float = 0.0
    late_p99_ms: float = 0.0
    late_max_ms: float = 0.0
    early_count: int = 0


class Report(Struct, kw_only=True):
    facts: machine.Facts
    brokers: list[BrokerFigures]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def timed(topic: str, queue_id: int, place: int, due_ms: int) -> bytes:
    """A send as a Java client of 5.5.0 writes it."""
    properties = (
        f"UNIQ_KEY\x01{place:08X}{due_ms:024X}\x02WAIT\x01true\x02TIMER_DELIVER_MS\x01{due_ms}\x02"
    )
    fields = {"a": "PG", "b": topic, "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0"}
    fields |= {"g": str(now_ms()), "h": "0", "i": properties, "j": "0", "k": "false", "m": "false"}
    return frames.request(RequestCode.SEND_MESSAGE_V2, fields, BODY)


class Senders:
    """A few connections with a window each; one thread."""

    def __init__(self, port: int) -> None:
        self._sockets = [
            socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(CONNECTIONS)
        ]
        for each in self._sockets:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, messages: Iterable[bytes]) -> int:
        """Send all of them, so many at a time; returns how many were stored."""
        count = 0
        pending = iter(messages)
        while True:
            windows = [list(islice(pending, IN_FLIGHT)) for _ in self._sockets]
            if not windows[0]:
                return count
            for each, window in zip(self._sockets, windows, strict=True):
                each.sendall(b"".join(window))
            for each, window in zip(self._sockets, windows, strict=True):
                _read_answers(each, len(window))
                count += len(window)

    def close(self) -> None:
        for each in self._sockets:
            each.close()


def _read_answers(connection: socket.socket, count: int) -> None:
    content = b""
    while count:
        while len(content) < 4 or len(content) < 4 + int.from_bytes(content[:4], "big"):
            part = connection.recv(1 << 18)
            if not part:
                raise RuntimeError("the broker closed the connection")
            content += part
        end = 4 + int.from_bytes(content[:4], "big")
        if b'"code":0,' not in content[8:end]:
            raise RuntimeError(f"refused: {content[8:end]!r}")
        content = content[end:]
        count -= 1


def max_offsets(client: WireClient, topic: str) -> int:
    total = 0
    for queue_id in range(frames.QUEUES):
        fields = {"topic": topic, "queueId": str(queue_id), "committed": "true"}
        _, answer = client.call(frames.request(RequestCode.GET_MAX_OFFSET, fields, b""))
        total += int((answer.fields or {}).get("offset", "0"))
    return total


def timer_behind(client: WireClient) -> int:
    """Messages of the timer's topic that are not in the wheel yet."""
    _, answer = client.call(frames.request(RequestCode.GET_BROKER_RUNTIME_INFO, {}, b""))
    return int(msgspec.json.decode(answer.body)["table"]["timerOffsetBehind"])


def await_wheel(client: WireClient) -> None:
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while timer_behind(client) > 0:
        if time.monotonic() > deadline:
            raise RuntimeError("messages do not reach the wheel")
        time.sleep(POLL_S)


def measure_waiting(running: Running, client: WireClient, figures: BrokerFigures) -> None:
    chance = random.Random(7)
    base_ms = now_ms() + WAITING_FROM_MS

    def messages(count: int) -> Iterator[bytes]:
        for place in range(count):
            due_ms = base_ms + chance.randrange(WAITING_SPREAD_MS)
            yield timed(WAITING_TOPIC, place % frames.QUEUES, place, due_ms)

    senders = Senders(running.port)
    tenth = figures.waiting_count // 10
    costs_us = []
    started = time.perf_counter()
    for _ in range(10):
        before = cpu_time(running.pid)
        senders.send(messages(tenth))
        await_wheel(client)
        costs_us.append((cpu_time(running.pid) - before).total_s * 1e6 / tenth)
    figures.send_per_s = round(10 * tenth / (time.perf_counter() - started))
    senders.close()
    figures.send_us_first_tenth = round(min(costs_us[:2]), 1)  # the first warms up
    figures.send_us_last_tenth = round(min(costs_us[-2:]), 1)
    time.sleep(3)
    sizes = memory(running.pid)
    figures.anonymous_mb, figures.resident_mb = sizes.anonymous_mb, sizes.resident_mb


def measure_burst(running: Running, client: WireClient, figures: BrokerFigures) -> None:
    """Very many that are due at nearly the same time, while all the others wait."""
    chance = random.Random(8)
    due_ms = now_ms() + BURST_IN_MS
    senders = Senders(running.port)
    senders.send(
        timed(BURST_TOPIC, place % frames.QUEUES, place, due_ms + chance.randrange(BURST_SPREAD_MS))
        for place in range(figures.burst_count)
    )
    senders.close()
    await_wheel(client)
    if now_ms() > due_ms:
        raise RuntimeError("sending took too long: the burst has begun")
    time.sleep((due_ms - now_ms()) / 1000)
    before, started = cpu_time(running.pid), time.perf_counter()
    while max_offsets(client, BURST_TOPIC) < figures.burst_count:
        time.sleep(POLL_S)
        if time.perf_counter() - started > SETTLE_TIMEOUT_S:
            raise RuntimeError("the burst is not delivered")
    spent_s, cpu_s = time.perf_counter() - started, (cpu_time(running.pid) - before).total_s
    figures.burst_cpu_us = round(cpu_s * 1e6 / figures.burst_count, 1)
    figures.burst_per_cpu_s = round(figures.burst_count / cpu_s)
    figures.burst_per_s = round(figures.burst_count / spent_s)


def measure_paced(running: Running, client: WireClient, figures: BrokerFigures) -> None:
    """5,000 per second in and out; how late each one is."""
    chance = random.Random(9)
    senders = Senders(running.port)
    started = time.perf_counter()
    step = PACED_PER_S // 50
    for turn in range(figures.paced_count // step):
        wait_s = started + turn / 50 - time.perf_counter()
        if wait_s > 0:
            time.sleep(wait_s)
        senders.send(
            timed(
                PACED_TOPIC,
                place % frames.QUEUES,
                place,
                now_ms() + chance.randint(*PACED_DELAY_MS),
            )
            for place in range(step)
        )
    senders.close()
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while max_offsets(client, PACED_TOPIC) < figures.paced_count:
        time.sleep(POLL_S)
        if time.monotonic() > deadline:
            raise RuntimeError("not all are delivered")
    late_ms = sorted(_lateness(client))
    figures.late_p50_ms = late_ms[len(late_ms) // 2]
    figures.late_p99_ms = late_ms[len(late_ms) * 99 // 100]
    figures.late_max_ms = late_ms[-1]
    figures.early_count = sum(1 for late in late_ms if late < 0)


def _lateness(client: WireClient) -> Iterator[int]:
    for queue_id in range(frames.QUEUES):
        offset = 0
        while True:
            fields = {"consumerGroup": "G", "topic": PACED_TOPIC, "queueId": str(queue_id)}
            fields |= {"queueOffset": str(offset), "maxMsgNums": "32", "sysFlag": "4"}
            fields |= {"commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*"}
            fields |= {"subVersion": "0"}
            _, answer = client.call(frames.request(RequestCode.PULL_MESSAGE, fields, b""))
            if answer.code != 0:
                break
            for record in iter_records(answer.body, is_crc_checked=False):
                asked = record.properties.partition(b"TIMER_DELIVER_MS\x01")[2]
                yield record.stored_at_ms - int(asked.partition(b"\x02")[0])
            offset = int((answer.fields or {})["nextBeginOffset"])


def measure(name: str, running: Running, scale: float) -> BrokerFigures:
    figures = BrokerFigures(
        broker=name,
        waiting_count=int(WAITING_COUNT * scale),
        burst_count=int(BURST_COUNT * min(1.0, scale * 2)),
        paced_count=PACED_PER_S * PACED_S,
    )
    idle = brokers.idle_memory(running)
    figures.idle_anonymous_mb, figures.idle_resident_mb = idle.anonymous_mb, idle.resident_mb
    with WireClient(running.port) as client:
        for topic in (WAITING_TOPIC, BURST_TOPIC, PACED_TOPIC):
            client.call(frames.create_topic(topic, frames.QUEUES))
        measure_waiting(running, client, figures)
        print_part(figures, "waiting")
        measure_burst(running, client, figures)
        print_part(figures, "burst")
        measure_paced(running, client, figures)
        print_part(figures, "paced")
    return figures


def print_part(figures: BrokerFigures, part: str) -> None:
    if part == "waiting":
        print(
            f"{figures.broker}: {figures.waiting_count} waiting, "
            f"{figures.send_us_first_tenth} → {figures.send_us_last_tenth} CPU-µs per message, "
            f"{figures.send_per_s}/s, memory {figures.anonymous_mb} MB anonymous, "
            f"{figures.resident_mb} MB resident (idle {figures.idle_anonymous_mb}, "
            f"{figures.idle_resident_mb})",
            flush=True,
        )
    elif part == "burst":
        print(
            f"{figures.broker}: {figures.burst_count} due at once: {figures.burst_cpu_us} CPU-µs "
            f"per message, {figures.burst_per_cpu_s} per CPU-second, {figures.burst_per_s}/s",
            flush=True,
        )
    else:
        print(
            f"{figures.broker}: {PACED_PER_S}/s in and out, late by {figures.late_p50_ms} ms "
            f"(p50), {figures.late_p99_ms} ms (p99), {figures.late_max_ms} ms at most; "
            f"{figures.early_count} early",
            flush=True,
        )


def goals(ours: BrokerFigures, theirs: BrokerFigures | None) -> Iterator[str]:
    flat = ours.send_us_last_tenth / ours.send_us_first_tenth
    yield f"flat in the number waiting: {flat:.2f} ({_met(flat <= FLAT_GOAL)})"
    yield f"p99 {ours.late_p99_ms} ms ({_met(ours.late_p99_ms <= LATE_GOAL_MS)})"
    yield f"none early ({_met(ours.early_count == 0)})"
    if theirs is not None:
        rate = ours.burst_per_cpu_s / theirs.burst_per_cpu_s
        yield f"deliveries per CPU-second: {rate:.2f} of the official ({_met(rate >= RATE_GOAL)})"
        share = ours.anonymous_mb / theirs.anonymous_mb
        yield f"anonymous memory: {share:.2f} of the official ({_met(share <= MEMORY_GOAL)})"


def _met(is_met: bool) -> str:
    return "met" if is_met else "missed"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.timers", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the million messages")
    parser.add_argument("--only", choices=("emberq", "official"), help="one broker alone")
    parser.add_argument("--output", type=Path, help="store the figures here")
    chosen = parser.parse_args()
    found: dict[str, BrokerFigures] = {}
    if chosen.only != "official":
        with brokers.emberq_broker() as running:
            found["emberq"] = measure("EmberQ", running, chosen.scale)
    java = None
    if chosen.only != "emberq":
        try:
            jars = official.find_jars()
        except official.OfficialMissing as error:
            print(f"official broker not measured: {error}")
        else:
            java = official.java_version()
            with brokers.official_broker(jars) as running:
                found["official"] = measure("official 5.5.0", running, chosen.scale)
    if "emberq" in found:
        for line in goals(found["emberq"], found.get("official")):
            print(line)
    if chosen.output is not None:
        report = Report(facts=machine.gather(java=java), brokers=list(found.values()))
        chosen.output.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
