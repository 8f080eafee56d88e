"""What becomes of messages that cannot be handled.

python examples/retry_and_dead_letters.py localhost:9876
"""

import sys

from emberq import DeadLetter, Producer, PullConsumer, PushConsumer, ReceivedMessage, RetryLater


def main(name_server: str) -> None:
    consumer = PushConsumer(
        "payments", name_server=name_server, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    )
    finished: list[str] = []

    @consumer.subscribe("charges", codec=dict)
    def charge(message: ReceivedMessage) -> None:
        card = message.value["card"]
        print(f"attempt {message.delivery_attempt} to charge a {card} card")
        if card == "slow" and message.delivery_attempt == 1:
            raise RetryLater("the bank is busy", delay_level=1)  # 1 s, by the broker's list
        finished.append(card)
        if len(finished) == 3:
            consumer.stop()
        if card == "stolen":
            raise DeadLetter("nobody will ever pay this")

    with Producer("shop", name_server=name_server, codec=dict) as producer:
        for card in ("good", "slow", "stolen"):
            producer.send("charges", {"card": card})
    consumer.run()

    # Dead letters are kept in a topic of their own, until somebody looks at them.
    with PullConsumer(
        "undertaker",
        name_server=name_server,
        codec=dict,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    ) as dead:
        dead.subscribe("%DLQ%payments")
        for message in dead:
            print(f"dead: the {message.value['card']} card")
            break


if __name__ == "__main__":
    main(sys.argv[1])
