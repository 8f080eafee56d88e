"""Orders are seen when they are paid: `python examples/transactions.py localhost:9876`."""

import asyncio
import sys

from emberq.aio import Producer, PushConsumer, ReceivedMessage

paid: set[str] = set()


def was_paid(message: ReceivedMessage) -> bool:
    """Asked by the broker when it did not hear how a transaction ended."""
    return message.keys[0] in paid


async def pay(producer: Producer, order: str, *, has_money: bool) -> None:
    async with producer.transaction() as transaction:
        await transaction.send("payments", order.encode(), keys=order)
        if not has_money:
            raise ValueError(f"no money for {order}")
        paid.add(order)  # where your database commits


async def main(name_server: str) -> None:
    consumer = PushConsumer(
        "shipping", name_server=name_server, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    )
    shipped: list[str] = []

    @consumer.subscribe("payments")
    async def ship(message: ReceivedMessage) -> None:
        shipped.append(message.keys[0])
        print(f"shipped {message.keys[0]}")
        if message.keys[0] == "order-3":
            consumer.stop()

    async with Producer("checkout", name_server=name_server, check=was_paid) as producer:
        await pay(producer, "order-1", has_money=True)
        try:
            await pay(producer, "order-2", has_money=False)
        except ValueError as error:
            print(error)
        await pay(producer, "order-3", has_money=True)
        await consumer.run()
    print("order-2 was never seen" if "order-2" not in shipped else "order-2 was seen")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
