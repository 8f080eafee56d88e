"""Our transactions on official brokers."""

import asyncio
from collections.abc import Sequence

import pytest

from emberq.aio import Message, MessageQueue, Producer, PushConsumer, ReceivedMessage
from tests.interop.harness.cluster import Cluster, wait_until_registered
from tests.interop.harness.servers import start_official_broker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

ASKING_BROKER = "brk-asking"


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


def test_a_broker_that_misses_the_end_asks_another_producer_of_the_group(
    cluster: Cluster,
) -> None:
    broker = start_official_broker(
        cluster.line,
        ASKING_BROKER,
        cluster.home / ASKING_BROKER,
        cluster.name_servers,
        transactionTimeOut="1000",
        transactionCheckInterval="2000",
    )
    try:
        broker.wait_for_boot()
        wait_until_registered(cluster.emberq, broker)
        asyncio.run(_abandon_and_check(cluster.emberq.address))
    finally:
        broker.process.kill()


async def _abandon_and_check(name_server: str) -> None:
    topic = "EmberqChecks"
    asked: list[bytes] = []
    seen: list[bytes] = []

    def check(message: ReceivedMessage) -> bool:
        asked.append(message.body)
        return message.body == b"kept"

    def on_the_asking_broker(queues: Sequence[MessageQueue], _: Message) -> MessageQueue:
        return next(queue for queue in queues if queue.broker_name == ASKING_BROKER)

    async with Producer("emberq-checked", name_server=name_server) as lost:
        transaction = lost.transaction()
        for body in (b"kept", b"dropped"):
            await transaction.send(topic, body, selector=on_the_asking_broker)
        # Nobody ends it.

    consumer = PushConsumer(
        "emberq-checks",
        name_server=name_server,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    )

    @consumer.subscribe(topic)
    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.body)

    async with Producer("emberq-checked", name_server=name_server, check=check) as producer:
        # A producer is known where it sends to.
        await producer.send(topic, b"hello", selector=on_the_asking_broker)
        async with consumer, asyncio.timeout(90):
            while {*seen, *asked} != {b"kept", b"hello", b"dropped"} or b"kept" not in seen:  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    assert set(asked) == {b"kept", b"dropped"}
    assert set(seen) == {b"kept", b"hello"}
