"""Numbered messages of several keys, sent and received while things break.

Each key's next number is sent when the one before it was acknowledged; what failed is sent again.
So whatever breaks: every acknowledged number arrives, and of each key the first arrivals ascend.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from emberq.aio import Client, Producer, PushConsumer, ReceivedMessage
from emberq.errors import EmberqError
from tests.support.waiting import until

KEYS = 4
PAUSE_S = 0.005
PAUSE_AFTER_FAILURE_S = 0.05
# A recovery is a chain of timeouts and attempts, and a busy machine makes each of them longer.
RECOVERY_MAX_S = 60.0


class Sender:
    """Sends until it is stopped."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self.acknowledged: dict[str, int] = {}  # the last number of each key
        self.failures = 0

    @property
    def count(self) -> int:
        return sum(last + 1 for last in self.acknowledged.values())

    async def run(self) -> None:
        await asyncio.gather(*(self._send_key(f"k{number}") for number in range(KEYS)))

    async def _send_key(self, key: str) -> None:
        number = 0
        while True:
            try:
                await self._producer.send(
                    self._topic, f"{key}:{number}".encode(), ordering_key=key, timeout=1.0
                )
            except EmberqError:
                self.failures += 1
                await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
                continue
            self.acknowledged[key] = number
            number += 1
            await asyncio.sleep(PAUSE_S)


class Received:
    """What consumers got, all of them together."""

    def __init__(self) -> None:
        self.first: dict[str, list[int]] = {}
        self.count = 0
        self._seen: dict[str, set[int]] = {}

    def note(self, body: bytes) -> None:
        self.count += 1
        key, _, text = body.decode().partition(":")
        number = int(text)
        seen = self._seen.setdefault(key, set())
        if number not in seen:
            seen.add(number)
            self.first.setdefault(key, []).append(number)

    @property
    def distinct(self) -> int:
        return sum(map(len, self.first.values()))

    def missing(self, sender: Sender) -> list[str]:
        return [
            f"{key}:{number}"
            for key, last in sender.acknowledged.items()
            for number in range(last + 1)
            if number not in self._seen.get(key, ())
        ]

    def check_order(self) -> None:
        for key, numbers in self.first.items():
            assert numbers == sorted(numbers), f"{key} arrived out of order"


def collector(
    client: Client, topic: str, received: Received, *, ordered: bool, group: str
) -> PushConsumer:
    consumer = PushConsumer(
        group, client=client, ordered=ordered, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    )

    @consumer.subscribe(topic)
    async def handle(message: ReceivedMessage) -> None:
        received.note(message.body)

    return consumer


@asynccontextmanager
async def traffic(producer: Producer, topic: str, *receivers: Received) -> AsyncIterator[Sender]:
    """Send while the block runs; then everything that was acknowledged must arrive everywhere."""
    sender = Sender(producer, topic)
    sending = asyncio.create_task(sender.run())
    try:
        yield sender
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    for received in receivers:
        await until(lambda: not received.missing(sender), RECOVERY_MAX_S)  # noqa: B023 - asked now


async def flows(sender: Sender, *receivers: Received, messages: int = 40) -> None:
    """Wait until messages are acknowledged and received again."""
    goal = sender.count + messages
    await until(lambda: sender.count >= goal, RECOVERY_MAX_S)
    for received in receivers:
        arrived = received.distinct + messages
        await until(lambda: received.distinct >= arrived, RECOVERY_MAX_S)  # noqa: B023 - asked now
