"""Messages that go with a database: `python examples/transactions.py localhost:9876`."""

import sqlite3
import sys

from emberq import Producer, PullConsumer, ReceivedMessage, SendResult

database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("create table orders (number text primary key)")


def was_stored(message: ReceivedMessage) -> bool:
    """Brokers ask this when they did not hear the end, perhaps from another process."""
    [number] = message.keys
    return bool(database.execute("select 1 from orders where number = ?", (number,)).fetchone())


def main(name_server: str) -> None:
    with Producer("shop", name_server=name_server, codec=str, check=was_stored) as producer:
        # Consumers see the message when the block ends well.
        with producer.transaction() as transaction, database:
            transaction.send("stored-orders", "created", keys="order-1")
            database.execute("insert into orders values ('order-1')")

        # A block that raises takes its messages back.
        try:
            with producer.transaction() as transaction, database:
                transaction.send("stored-orders", "created", keys="order-1")
                database.execute("insert into orders values ('order-1')")
        except sqlite3.IntegrityError as error:
            print(f"rolled back: {error}")

        # The same as a function, for those who know transaction listeners.
        def store(result: SendResult) -> bool:
            with database:
                database.execute("insert into orders values ('order-2')")
            return True

        producer.send_in_transaction("stored-orders", "created", keys="order-2", execute=store)

    with PullConsumer(
        "accounting", name_server=name_server, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    ) as consumer:
        consumer.subscribe("stored-orders")
        seen = []
        for message in consumer:
            seen += message.keys
            if len(seen) == 2:
                break
        print(f"seen: {sorted(seen)}")


if __name__ == "__main__":
    main(sys.argv[1])
