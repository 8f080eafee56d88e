"""A server under the client, whoever wrote it, and what scenarios need to use it."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from msgspec import Struct

from emberq.aio import Client, Producer, PullConsumer, PushConsumer, ReceivedMessage
from emberq.errors import TopicNotFound
from emberq.model.queue import MessageQueue

FIRST = "CONSUME_FROM_FIRST_OFFSET"
LOOK_AGAIN_S = 0.01
# Retries and level 1 after a second. Checks of transactions soon, but 5.x brokers note ends of
# transactions in batches, and those must be written before. Checks are counted though nobody is
# there to be asked, and who answers may be a program that takes half a minute to start.
BROKER_KEYS = {
    "messageDelayLevel": " ".join(["1s"] * 18),
    "enablePropertyFilter": "true",
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    "transactionCheckMax": "600",
    "transactionOpBatchInterval": "100",
}


class Server(Struct, frozen=True, kw_only=True):
    """Where the name server is, and how long to wait for what must come."""

    name: str
    name_server: str
    patience_s: float

    def client(self, **options: Any) -> Client:
        return Client(self.name_server, **options)

    def producer(self, **options: Any) -> Producer:
        """With a client of its own, unless one is given."""
        options.setdefault("send_timeout", self.patience_s)
        return Producer(unique("producers"), **self._reached(options))

    def pusher(self, group: str, **options: Any) -> PushConsumer:
        """A push consumer from the first message on."""
        options.setdefault("consume_from_where", FIRST)
        return PushConsumer(group, **self._reached(options))

    def puller(self, group: str, **options: Any) -> PullConsumer:
        options.setdefault("consume_from_where", FIRST)
        return PullConsumer(group, **self._reached(options))

    def _reached(self, options: dict[str, Any]) -> dict[str, Any]:
        return options if "client" in options else {"name_server": self.name_server, **options}

    async def topic(self, queues: int = 4, **client_options: Any) -> str:
        """A new one, which name servers know."""
        topic = unique("topic")
        async with self.client(**client_options) as client, Producer("makers", client=client) as it:
            await it.create_topic(topic, queues=queues)
            await self.routed(it, topic)
        return topic

    async def routed(self, asker: Producer | PullConsumer, topic: str) -> Sequence[MessageQueue]:
        """The queues of a new topic, which name servers hear of in their own time."""
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                return await asker.queues(topic)
            except TopicNotFound:
                assert time.monotonic() < deadline, f"{topic} has no route"
                await asyncio.sleep(LOOK_AGAIN_S)

    async def until(self, condition: Callable[[], object]) -> None:
        """Return as soon as `condition()` is true; fail when patience is at its end."""
        deadline = time.monotonic() + self.patience_s
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            await asyncio.sleep(LOOK_AGAIN_S)

    async def read(self, topic: str, count: int, **client_options: Any) -> list[ReceivedMessage]:
        """The first messages of all queues of a topic, by a group of their own."""
        return await self.read_until(topic, lambda found: len(found) >= count, **client_options)

    async def read_until(
        self, topic: str, is_enough: Callable[[list[ReceivedMessage]], bool], **client_options: Any
    ) -> list[ReceivedMessage]:
        """The same, as many as a test needs."""
        found: list[ReceivedMessage] = []
        async with (
            self.client(**client_options) as client,
            PullConsumer(unique("readers"), client=client, consume_from_where=FIRST) as puller,
        ):
            await puller.assign(await self.routed(puller, topic))
            deadline = time.monotonic() + self.patience_s
            while not is_enough(found):
                assert time.monotonic() < deadline, f"only {len(found)} messages came"
                found += await puller.poll(timeout=timedelta(seconds=0.5))
        return found


def unique(what: str) -> str:
    return f"{what}-{uuid4().hex[:12]}"
