"""All ways to send: `python examples/send_messages.py localhost:9876`."""

import asyncio
import sys
from dataclasses import dataclass

from emberq.aio import Message, Producer


@dataclass
class Order:
    number: int
    customer: str


async def main(name_server: str) -> None:
    async with Producer("shop", name_server=name_server) as producer:
        result = await producer.send("letters", b"hello", tags="greeting", keys=["letter-1"])
        print(result.status, result.message_id, result.queue, result.queue_offset)

        # Many at once are tasks, not threads.
        bodies = [b"%d" % number for number in range(100)]
        await asyncio.gather(*(producer.send("letters", body) for body in bodies))

        # One request for all, or as many as their sizes need.
        await producer.send_batch([Message("letters", body) for body in bodies])

        # To a queue of one's own choice; the function gets the list of queues and the message.
        await producer.send("letters", b"hello", queue=result.queue)
        await producer.send("letters", b"hello", selector=lambda queues, message: queues[0])

        # Without an answer: nobody will know whether it was stored.
        await producer.send_oneway("letters", b"hello")

    async with Producer("shop", name_server=name_server, codec=Order) as producer:
        await producer.send("typed-orders", Order(1, "ada"), properties={"source": "web"})
        print("all sent")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
