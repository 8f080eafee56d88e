"""Reads a topic from its start: `python examples/pull_and_commit.py localhost:9876`."""

import asyncio
import sys

from emberq.aio import Message, Producer, PullConsumer

LINES = 5


async def main(name_server: str) -> None:
    async with Producer("writer", name_server=name_server, codec=str) as producer:
        await producer.send_batch([Message("lines", f"line {number}") for number in range(LINES)])

    async with PullConsumer(
        "report",
        name_server=name_server,
        codec=str,
        auto_commit=False,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    ) as consumer:
        await consumer.subscribe("lines")
        count = 0
        async for message in consumer:
            count += 1
            print(f"{message.queue.queue_id}/{message.queue_offset}: {message.value}")
            if count == LINES:
                break
        await consumer.commit()
        print("committed")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
