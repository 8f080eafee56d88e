"""`python -m benchmarks.client.confluent_program BOOTSTRAP`: confluent-kafka takes orders.

Its work is done by threads of a C library; what is Python here is the caller's part.
"""

import sys
import time
from asyncio import run
from itertools import count

from confluent_kafka import Consumer, Producer

from benchmarks.client.worker import (
    CONSUME_TIMEOUT_S,
    IN_FLIGHT,
    LINGER_S,
    LINGERING_CALLERS,
    POLL_COUNT,
    Clock,
    Tally,
    serve,
)

IN_FLIGHT_MAX = {"one": 1, "in-flight": IN_FLIGHT, "lingering": LINGERING_CALLERS}


class ConfluentOrders:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    async def produce(self, mode: str, topic: str, size: int, seconds: float) -> str:
        body = bytes(size)
        producer = self._producer(LINGER_S if mode == "lingering" else 0.0)
        producer.produce(topic, body)
        producer.flush()
        in_flight_max = IN_FLIGHT_MAX[mode]
        acknowledged = count()
        done = sent = 0

        def delivered(error: object, message: object) -> None:
            nonlocal done
            assert error is None, error
            done = next(acknowledged) + 1

        clock, end = Clock(), time.perf_counter() + seconds
        while time.perf_counter() < end:
            producer.produce(topic, body, on_delivery=delivered)
            sent += 1
            producer.poll(0)
            while sent - done >= in_flight_max:
                producer.poll(0.1)
        producer.flush()
        assert done == sent
        return clock.report(sent)

    async def consume(self, mode: str, topic: str, size: int, count: int) -> str:
        tally = Tally(count, size, lambda: None)
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": f"bench-{time.time_ns()}",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([topic])
        deadline = time.perf_counter() + CONSUME_TIMEOUT_S
        while not tally.is_done() and time.perf_counter() < deadline:
            if mode == "sync":
                message = consumer.poll(1.0)
                messages = [] if message is None else [message]
            else:
                messages = consumer.consume(POLL_COUNT, 1.0)
            for message in messages:
                assert message.error() is None, message.error()
                tally.see(message.value())
        consumer.close()
        return tally.report

    async def first(self, topic: str) -> str:
        started_at = time.perf_counter()
        producer = self._producer(0.0)
        producer.produce(topic, b"first")
        assert producer.flush(10) == 0
        return f"{time.perf_counter() - started_at:.6f}"

    def _producer(self, linger_s: float) -> Producer:
        return Producer(
            {"bootstrap.servers": self._bootstrap, "acks": 1, "linger.ms": linger_s * 1000}
        )


if __name__ == "__main__":
    run(serve(ConfluentOrders(sys.argv[1])))
