"""A message's way, recorded for trace tools: `python examples/message_trace.py localhost:9876`."""

import asyncio
import sys

from emberq.aio import Producer, PullConsumer, PushConsumer, ReceivedMessage

FIRST = "CONSUME_FROM_FIRST_OFFSET"


async def main(name_server: str) -> None:
    # A topic of one's own; with trace=True it is the official one, which the broker makes with
    # traceTopicEnable=true.
    async with Producer("shop", name_server=name_server, trace="my-trace") as producer:
        result = await producer.send("parcels", b"hello")

    consumer = PushConsumer(
        "post", name_server=name_server, consume_from_where=FIRST, trace="my-trace"
    )

    @consumer.subscribe("parcels")
    async def handle(message: ReceivedMessage) -> None:
        consumer.stop()

    await consumer.run()

    async with PullConsumer(
        "detective", name_server=name_server, consume_from_where=FIRST
    ) as traces:
        await traces.subscribe("my-trace")
        steps: list[str] = []
        async for message in traces:
            records = message.text().split("\x02")
            steps += [each.partition("\x01")[0] for each in records if result.message_id in each]
            if {"Pub", "SubAfter"} <= set(steps):
                break
        print(f"{result.message_id}: {' → '.join(sorted(steps))}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
