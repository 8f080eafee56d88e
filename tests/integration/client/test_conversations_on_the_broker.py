"""Transactions and request-reply of our client on our broker."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

import emberq
from emberq.aio import Producer, PushConsumer, ReceivedMessage
from emberq.errors import RequestReplyTimeout
from emberq.testing.embedded import cluster_on_this_loop, embedded_cluster
from tests.support.waiting import until

pytestmark = pytest.mark.integration

QUICK = {"transactionTimeOut": "600", "transactionCheckInterval": "600"}
FIRST = "CONSUME_FROM_FIRST_OFFSET"


def consumer_of(topic: str, name_server: str, seen: Counter[bytes]) -> PushConsumer:
    consumer = PushConsumer("billing", name_server=name_server, consume_from_where=FIRST)

    @consumer.subscribe(topic)
    async def handle(message: ReceivedMessage) -> None:
        seen[message.body] += 1

    return consumer


async def fail(producer: Producer) -> None:
    async with producer.transaction() as transaction:
        await transaction.send("Paid", b"dropped")
        raise ValueError("no money")


async def test_consumers_see_what_was_committed_and_nothing_else(tmp_path: Path) -> None:
    seen: Counter[bytes] = Counter()
    async with (
        cluster_on_this_loop(tmp_path) as cluster,
        Producer("payers", name_server=cluster.name_server) as producer,
    ):
        async with producer.transaction() as transaction:
            for number in range(5):
                await transaction.send("Paid", b"kept-%d" % number)
        with pytest.raises(ValueError, match="no money"):
            await fail(producer)
        async with consumer_of("Paid", cluster.name_server, seen):
            await until(lambda: len(seen) == 5)

    assert seen == {b"kept-%d" % number: 1 for number in range(5)}


async def test_another_producer_of_the_group_is_asked_after_a_restart(tmp_path: Path) -> None:
    asked: Counter[bytes] = Counter()
    seen: Counter[bytes] = Counter()

    def check(message: ReceivedMessage) -> bool | None:
        asked[message.body] += 1
        if asked[message.body] == 1:
            return None  # not known yet: ask again
        return message.body == b"kept"

    async with (
        cluster_on_this_loop(tmp_path) as cluster,
        Producer("payers", name_server=cluster.name_server) as lost,
    ):
        transaction = lost.transaction()
        for body in (b"kept", b"dropped"):
            await transaction.send("Paid", body)
        # Nobody ends it.

    async with (
        cluster_on_this_loop(tmp_path, **QUICK) as cluster,
        Producer("payers", name_server=cluster.name_server, check=check) as producer,
    ):
        await producer.send("Paid", b"hello")  # brokers know who sends to them
        async with consumer_of("Paid", cluster.name_server, seen):
            await until(lambda: seen[b"kept"] and asked[b"dropped"] == 2)
            await until(
                lambda: (
                    cluster.broker.offsets.query("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", 0)
                    >= 4
                )
            )

    assert seen == {b"hello": 1, b"kept": 1}
    assert asked == {b"kept": 2, b"dropped": 2}


async def test_requests_are_answered(tmp_path: Path) -> None:
    async with cluster_on_this_loop(tmp_path) as cluster:
        replier = PushConsumer("repliers", name_server=cluster.name_server)

        @replier.reply("Requests", codec=str)
        async def double(message: ReceivedMessage) -> str:
            return str(message.value) * 2

        async with Producer("askers", name_server=cluster.name_server, codec=str) as producer:
            await producer.send("Requests", "the topic exists now")
            async with replier:
                await replier.settled()
                replies = await asyncio.gather(
                    *(producer.request("Requests", f"r{n}", timeout=45.0) for n in range(50))
                )
            with pytest.raises(RequestReplyTimeout):
                await producer.request("Requests", "nobody is here", timeout=2.0)

    assert [reply.value for reply in replies] == [f"r{n}" * 2 for n in range(50)]


def test_threads_have_transactions_too() -> None:
    with (
        embedded_cluster() as cluster,
        emberq.Producer("payers", name_server=cluster.name_server) as producer,
    ):
        with producer.transaction() as transaction:
            transaction.send("Paid", b"kept")
        with emberq.PullConsumer(
            "readers", name_server=cluster.name_server, consume_from_where=FIRST
        ) as consumer:
            consumer.subscribe("Paid")
            message = next(iter(consumer))

    assert message.body == b"kept"
