"""Sends three orders and handles them: `python examples/first_steps.py localhost:9876`."""

import asyncio
import sys

from emberq.aio import Producer, PushConsumer, ReceivedMessage

ORDERS = 3


async def main(name_server: str) -> None:
    async with Producer("shop", name_server=name_server, codec=dict) as producer:
        for number in range(ORDERS):
            result = await producer.send(
                "orders", {"number": number}, tags="created", keys=f"order-{number}"
            )
            print(f"sent {result.message_id} to queue {result.queue.queue_id}")

    handled = 0
    consumer = PushConsumer(
        "billing", name_server=name_server, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    )

    @consumer.subscribe("orders", tags="created || paid", codec=dict)
    async def handle(message: ReceivedMessage) -> None:
        nonlocal handled
        handled += 1
        print(f"handled {message.value} of {message.born_at:%H:%M:%S}")
        if handled == ORDERS:
            consumer.stop()

    await consumer.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
