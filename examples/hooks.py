"""A context that travels with messages: `python examples/hooks.py localhost:9876`.

The hooks do here what they would do with OpenTelemetry's `inject` and `extract`.
"""

import asyncio
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from emberq.aio import Producer, PushConsumer, ReceivedMessage, Sending

request_id: ContextVar[str] = ContextVar("request_id", default="none")


@contextmanager
def give_along(sending: Sending) -> Iterator[None]:
    sending.properties["request-id"] = request_id.get()
    try:
        yield
    except Exception:
        logging.exception("not sent topic=%s", sending.topic)
        raise


@contextmanager
def take_over(messages: Sequence[ReceivedMessage]) -> Iterator[None]:
    token = request_id.set(messages[0].properties["request-id"])
    try:
        yield
    finally:
        request_id.reset(token)


async def main(name_server: str) -> None:
    consumer = PushConsumer(
        "followers",
        name_server=name_server,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        hooks=[take_over],
    )

    @consumer.subscribe("followed")
    async def handle(message: ReceivedMessage) -> None:
        print(f"handled for {request_id.get()}")
        consumer.stop()

    async with Producer("leaders", name_server=name_server, hooks=[give_along]) as producer:
        request_id.set("request-42")
        await producer.send("followed", b"hello")
    await consumer.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
