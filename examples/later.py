"""A reminder that comes later, and one that is taken back.

python examples/later.py localhost:9876
"""

import asyncio
import sys
from datetime import timedelta

from emberq.aio import Producer, PushConsumer, ReceivedMessage
from emberq.errors import NoPermission


async def main(name_server: str) -> None:
    arrived = asyncio.Event()
    consumer = PushConsumer("reminded", name_server=name_server)

    @consumer.subscribe("reminders", codec=str)
    async def handle(message: ReceivedMessage) -> None:
        print(f"reminded of {message.value}")
        arrived.set()

    async with Producer("planner", name_server=name_server, codec=str) as producer:
        await producer.send("reminders", "tea", delay=timedelta(seconds=1))
        cancelled = await producer.send("reminders", "the dentist", delay=timedelta(hours=1))
        try:
            await producer.recall(cancelled.recall_handle or "")
            print("the dentist is cancelled")
        except NoPermission:
            print("this broker lets nothing be taken back (recallMessageEnable=false)")
        async with consumer:
            await arrived.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9876"))
