"""Steps of an order arrive in their order: `python examples/in_order.py localhost:9876`."""

import sys

from emberq import Producer, PushConsumer, ReceivedMessage

STEPS = ("created", "paid", "shipped")
CUSTOMERS = ("ada", "grace")


def main(name_server: str) -> None:
    with Producer("shop", name_server=name_server, codec=str) as producer:
        for step in STEPS:
            for customer in CUSTOMERS:
                producer.send("steps", step, keys=customer, ordering_key=customer)

    seen: dict[str, list[str]] = {customer: [] for customer in CUSTOMERS}
    consumer = PushConsumer(
        "tracking",
        name_server=name_server,
        ordered=True,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    )

    @consumer.subscribe("steps", codec=str)
    def handle(message: ReceivedMessage) -> None:
        [customer] = message.keys
        seen[customer].append(message.value)
        if all(len(steps) == len(STEPS) for steps in seen.values()):
            consumer.stop()

    consumer.run()
    for customer, steps in seen.items():
        print(f"{customer}: {' → '.join(steps)}")


if __name__ == "__main__":
    main(sys.argv[1])
