"""Our requests and replies through official brokers, which push them."""

import asyncio

import pytest

from emberq.aio import Producer, PushConsumer, ReceivedMessage
from emberq.errors import RequestReplyTimeout
from tests.interop.harness.cluster import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


def test_requests_are_answered_by_our_consumer(cluster: Cluster) -> None:
    asyncio.run(_converse(cluster.emberq.address))


async def _converse(name_server: str) -> None:
    topic = "EmberqRequests"
    consumer = PushConsumer("emberq-repliers", name_server=name_server)

    @consumer.reply(topic, codec=str)
    async def double(message: ReceivedMessage) -> str:
        return str(message.value) * 2

    async with Producer("emberq-askers", name_server=name_server, codec=str) as producer:
        await producer.send(topic, "the topic exists now")
        async with consumer:
            await consumer.settled()
            first = await producer.request(topic, "first", timeout=60.0)
            replies = await asyncio.gather(
                *(producer.request(topic, f"r{number}", timeout=30.0) for number in range(20))
            )
        with pytest.raises(RequestReplyTimeout):
            await producer.request(topic, "nobody is here", timeout=1.0)

    assert first.value == "firstfirst"
    assert [reply.value for reply in replies] == [f"r{number}" * 2 for number in range(20)]
