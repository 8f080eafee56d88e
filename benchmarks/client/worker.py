"""What every client program of these benchmarks does: take orders, do them, report in one line.

Orders come by standard input, reports leave by standard output behind `=`, so that nothing else
that a client prints is taken for one. The Java and the Go program do the same.

    produce MODE TOPIC SIZE SECONDS  → MESSAGES SECONDS CPU_SECONDS
    consume MODE TOPIC SIZE COUNT    → MESSAGES SECONDS CPU_SECONDS
    first   TOPIC                    → SECONDS from the client's start to the first acknowledgement

This module imports little: start-up is measured through it too.
"""

import sys
import time
from collections.abc import Awaitable, Callable
from itertools import count as counting
from typing import Protocol

IN_FLIGHT = 64
BATCH_COUNT = 32
# Automatic batching: so many callers wait for their own message at any time.
LINGERING_CALLERS = 1_000
LINGER_S = 0.005
POLL_COUNT = 128
# Of the messages to consume, the first part is not timed: joining a group is not consuming.
UNTIMED_PART = 5
CONSUME_TIMEOUT_S = 60.0

Send = Callable[[], Awaitable[object]]


class Clock:
    """Wall and CPU time of this process, all its threads included."""

    def __init__(self) -> None:
        self._wall_s = time.perf_counter()
        self._cpu_s = time.process_time()

    def report(self, messages: int) -> str:
        cpu_s = time.process_time() - self._cpu_s
        return f"{messages} {time.perf_counter() - self._wall_s:.6f} {cpu_s:.6f}"


class Tally:
    """Counts what arrives; its clock runs from the first timed message to the last one."""

    def __init__(self, count: int, size: int, on_done: Callable[[], object]) -> None:
        self._count = count
        self._size = size
        self._on_done = on_done
        self._untimed = count // UNTIMED_PART
        self._numbers = counting(1)  # handlers may run in several threads
        self._clock: Clock | None = None
        self.report = ""

    def is_done(self) -> bool:
        return bool(self.report)

    def see(self, body: bytes) -> None:
        assert len(body) == self._size, f"a body of {len(body)} bytes, expected {self._size}"
        number = next(self._numbers)
        if number == self._untimed:
            self._clock = Clock()
        elif number == self._count:
            assert self._clock is not None
            self.report = self._clock.report(number - self._untimed)
            self._on_done()


class Orders(Protocol):
    """The client under test; every call makes a client of its own and closes it."""

    async def produce(self, mode: str, topic: str, size: int, seconds: float) -> str: ...

    async def consume(self, mode: str, topic: str, size: int, count: int) -> str: ...

    async def first(self, topic: str) -> str: ...


async def serve(orders: Orders) -> None:
    """Orders are read between two measurements, when nothing else should run."""
    for line in sys.stdin:
        match line.split():
            case "produce", mode, topic, size, seconds:
                report = await orders.produce(mode, topic, int(size), float(seconds))
            case "consume", mode, topic, size, count:
                report = await orders.consume(mode, topic, int(size), int(count))
            case "first", topic:
                report = await orders.first(topic)
            case _:
                raise SystemExit(f"no order: {line!r}")
        sys.stdout.write(f"= {report}\n")
        sys.stdout.flush()


async def repeat(send: Send, seconds: float, *, callers: int = 1, count: int = 1) -> str:
    """Callers that each send, wait and send again; `count` messages leave with one send."""
    from asyncio import gather

    sent = 0
    end = time.perf_counter() + seconds

    async def call() -> None:
        nonlocal sent
        while time.perf_counter() < end:
            await send()
            sent += count

    clock = Clock()
    if callers == 1:
        await call()
    else:
        await gather(*(call() for _ in range(callers)))
    return clock.report(sent)
