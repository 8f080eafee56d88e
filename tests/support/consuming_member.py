"""A member of a consumer group to be killed: `consuming_member.py NAMESRV TOPIC GROUP KIND`.

It prints `ready` when it has its share, then every message before it is handled.
"""

import asyncio
import sys

from emberq.aio import Client, ClientSettings, PushConsumer, ReceivedMessage

HANDLING_S = 0.01


async def main(name_server: str, topic: str, group: str, kind: str) -> None:
    settings = ClientSettings(persist_offsets=0.1)
    async with Client(name_server, settings=settings) as client:
        consumer = PushConsumer(
            group,
            client=client,
            ordered=kind == "ordered",
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        )

        @consumer.subscribe(topic)
        async def handle(message: ReceivedMessage) -> None:
            print(message.text(), flush=True)  # noqa: T201 - what the test reads
            await asyncio.sleep(HANDLING_S)

        async with consumer:
            await consumer.settled()
            print("ready", flush=True)  # noqa: T201
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
