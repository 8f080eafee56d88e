"""Log records that go to a topic: `python examples/logging_to_a_topic.py localhost:9876`."""

import logging.config
import sys

from emberq import PullConsumer


def configure(name_server: str) -> None:
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"plain": {"format": "%(asctime)s %(name)s %(message)s"}},
            "handlers": {
                "topic": {
                    "class": "emberq.TopicLogHandler",
                    "topic": "app-logs",
                    "name_server": name_server,
                    "formatter": "plain",
                },
            },
            "root": {"level": "INFO", "handlers": ["topic"]},
        }
    )


def main(name_server: str) -> None:
    configure(name_server)
    logging.getLogger("shop.orders").warning("order %d is late", 7)

    with PullConsumer(
        "operators", name_server=name_server, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    ) as consumer:
        consumer.subscribe("app-logs", tags="WARNING || ERROR")
        for message in consumer:
            print(f"{message.tags} of {message.keys[0]}: {message.text()}")
            break


if __name__ == "__main__":
    main(sys.argv[1])
