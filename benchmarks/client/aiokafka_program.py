"""`python -m benchmarks.client.aiokafka_program BOOTSTRAP`: aiokafka takes orders."""

import sys
import time
from typing import Any

from aiokafka import AIOKafkaProducer

from benchmarks.client.worker import (
    CONSUME_TIMEOUT_S,
    IN_FLIGHT,
    LINGER_S,
    LINGERING_CALLERS,
    POLL_COUNT,
    Clock,
    Tally,
    repeat,
    serve,
)
from emberq.remoting.event_loop import run

CALLERS = {"one": 1, "in-flight": IN_FLIGHT, "lingering": LINGERING_CALLERS}


class AiokafkaOrders:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    async def produce(self, mode: str, topic: str, size: int, seconds: float) -> str:
        body = bytes(size)
        linger_ms = 0 if mode in ("one", "in-flight") else int(LINGER_S * 1000)
        async with AIOKafkaProducer(
            bootstrap_servers=self._bootstrap, acks=1, linger_ms=linger_ms
        ) as producer:
            await producer.send_and_wait(topic, body)
            if mode == "futures":
                return await self._futures(producer, topic, body, seconds)
            return await repeat(
                lambda: producer.send_and_wait(topic, body), seconds, callers=CALLERS[mode]
            )

    async def _futures(self, producer: Any, topic: str, body: bytes, seconds: float) -> str:
        """Its cheapest way: one caller, which looks at results a thousand messages later."""
        from asyncio import wait

        sent, end, clock = 0, time.perf_counter() + seconds, Clock()
        under_way: list[Any] = []
        while time.perf_counter() < end:
            before = under_way
            under_way = [await producer.send(topic, body) for _ in range(LINGERING_CALLERS // 2)]
            if before:
                await wait(before)
                assert all(result.result() for result in before)
            sent += len(under_way)
        await wait(under_way)
        return clock.report(sent)

    async def consume(self, mode: str, topic: str, size: int, count: int) -> str:
        from asyncio import timeout

        from aiokafka import AIOKafkaConsumer

        tally = Tally(count, size, lambda: None)
        async with (
            timeout(CONSUME_TIMEOUT_S),
            AIOKafkaConsumer(
                topic,
                bootstrap_servers=self._bootstrap,
                group_id=f"bench-{time.time_ns()}",
                auto_offset_reset="earliest",
            ) as consumer,
        ):
            while not tally.is_done():
                if mode == "async":
                    async for message in consumer:
                        tally.see(message.value)
                        if tally.is_done():
                            break
                else:
                    found = await consumer.getmany(timeout_ms=1000, max_records=POLL_COUNT)
                    for messages in found.values():
                        for message in messages:
                            tally.see(message.value)
        return tally.report

    async def first(self, topic: str) -> str:
        started_at = time.perf_counter()
        producer = AIOKafkaProducer(bootstrap_servers=self._bootstrap, acks=1)
        await producer.start()
        await producer.send_and_wait(topic, b"first")
        took_s = time.perf_counter() - started_at
        await producer.stop()
        return f"{took_s:.6f}"


if __name__ == "__main__":
    run(serve(AiokafkaOrders(sys.argv[1])))
