"""Our transactions on official brokers."""

import asyncio

import pytest

from emberq.aio import Producer, PushConsumer, ReceivedMessage
from tests.interop.harness.cluster import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


def test_consumers_see_what_was_committed_and_nothing_else(cluster: Cluster) -> None:
    asyncio.run(_pay(cluster.emberq.address))


async def _pay(name_server: str) -> None:
    topic = "EmberqTransactions"
    seen: list[bytes] = []
    all_here = asyncio.Event()
    consumer = PushConsumer(
        "emberq-billing",
        name_server=name_server,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    )

    @consumer.subscribe(topic)
    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.body)
        if message.body == b"last":
            all_here.set()

    async with Producer("emberq-payers", name_server=name_server) as producer:
        await producer.send(topic, b"first", ordering_key="k")
        async with consumer:
            async with producer.transaction() as transaction:
                await transaction.send(topic, b"kept", ordering_key="k")
            with pytest.raises(ValueError, match="no money"):
                await _fail(producer, topic)
            async with producer.transaction() as transaction:
                await transaction.send(topic, b"last", ordering_key="k")
            async with asyncio.timeout(90):
                await all_here.wait()

    assert sorted(set(seen)) == [b"first", b"kept", b"last"]


async def _fail(producer: Producer, topic: str) -> None:
    async with producer.transaction() as transaction:
        await transaction.send(topic, b"dropped", ordering_key="k")
        raise ValueError("no money")
