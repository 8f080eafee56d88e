"""Asks for a price and gets it: `python examples/request_reply.py localhost:9876`."""

import asyncio
import sys

from emberq.aio import Producer, PushConsumer, ReceivedMessage

PRICES = {"tea": "3.50", "coffee": "4.20"}


async def main(name_server: str) -> None:
    shop = PushConsumer("price-desk", name_server=name_server)

    @shop.reply("prices", codec=str)
    async def price(message: ReceivedMessage) -> str:
        return PRICES.get(message.value, "not sold here")

    async with Producer("customer", name_server=name_server, codec=str) as customer:
        await customer.send("prices", "the topic exists now")
        async with shop:
            await shop.settled()
            for name in ("tea", "coffee", "beer"):
                reply = await customer.request("prices", name, timeout=10.0)
                print(f"{name}: {reply.value}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
