"""`python -m benchmarks.client.emberq_program NAME_SERVER`: EmberQ's client takes orders."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from benchmarks.client.worker import (
    BATCH_COUNT,
    CONSUME_TIMEOUT_S,
    IN_FLIGHT,
    LINGER_S,
    LINGERING_CALLERS,
    POLL_COUNT,
    Tally,
    repeat,
    serve,
)
from emberq.aio import Producer
from emberq.remoting.event_loop import run

if TYPE_CHECKING:
    from emberq.aio import PushConsumer, ReceivedMessage

CALLERS = {"one": 1, "in-flight": IN_FLIGHT, "lingering": LINGERING_CALLERS}


class EmberqOrders:
    def __init__(self, name_server: str) -> None:
        self._name_server = name_server

    async def produce(self, mode: str, topic: str, size: int, seconds: float) -> str:
        from emberq.aio import Message

        body = bytes(size)
        linger_s = LINGER_S if mode == "lingering" else 0.0
        async with Producer("bench", name_server=self._name_server, linger=linger_s) as producer:
            await producer.send(topic, body)
            if mode == "batch":
                return await repeat(
                    lambda: producer.send_batch([Message(topic, body) for _ in range(BATCH_COUNT)]),
                    seconds,
                    count=BATCH_COUNT,
                )
            return await repeat(lambda: producer.send(topic, body), seconds, callers=CALLERS[mode])

    async def consume(self, mode: str, topic: str, size: int, count: int) -> str:
        import asyncio

        from emberq.aio import ConsumeFromWhere, PullConsumer, PushConsumer

        group = f"bench-{time.time_ns()}"
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        tally = Tally(count, size, lambda: loop.call_soon_threadsafe(done.set))
        start = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        async with asyncio.timeout(CONSUME_TIMEOUT_S):
            if mode == "pull":
                async with PullConsumer(
                    group, name_server=self._name_server, consume_from_where=start
                ) as puller:
                    await puller.subscribe(topic)
                    while not tally.is_done():
                        for message in await puller.poll(POLL_COUNT):
                            tally.see(message.body)
            else:
                pusher = PushConsumer(
                    group, name_server=self._name_server, consume_from_where=start
                )
                _add_handler(pusher, mode, topic, tally)
                async with pusher:
                    await done.wait()
        return tally.report

    async def first(self, topic: str) -> str:
        started_at = time.perf_counter()
        producer = Producer("bench-first", name_server=self._name_server)
        await producer.start()
        await producer.send(topic, b"first")
        took_s = time.perf_counter() - started_at
        await producer.close()
        return f"{took_s:.6f}"


def _add_handler(consumer: "PushConsumer", mode: str, topic: str, tally: Tally) -> None:
    async def handle_async(message: "ReceivedMessage") -> None:
        tally.see(message.body)

    async def handle_batch(messages: "list[ReceivedMessage]") -> None:
        for message in messages:
            tally.see(message.body)

    def handle_sync(message: "ReceivedMessage") -> None:
        tally.see(message.body)

    handlers: dict[str, Callable[..., object]] = {
        "async": handle_async,
        "batch": handle_batch,
        "sync": handle_sync,
    }
    consumer.add_handler(topic, handlers[mode], batch_size=BATCH_COUNT if mode == "batch" else 1)


if __name__ == "__main__":
    run(serve(EmberqOrders(sys.argv[1])))
