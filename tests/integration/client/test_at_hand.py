"""Administration at hand, against EmberQ's broker."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from emberq.client.aio.client import Client
from emberq.client.aio.producer import Producer
from emberq.errors import MessageNotFound, RecordError, TopicNotFound
from emberq.model.queue import MessageQueue
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import new_request
from emberq.testing.embedded import EmbeddedCluster as Cluster
from emberq.testing.embedded import cluster_on_this_loop as cluster

pytestmark = pytest.mark.integration


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as started:
        yield started


@pytest.fixture
async def producer(running: Cluster) -> AsyncIterator[Producer]:
    async with Producer("writers", name_server=running.name_server) as started:
        yield started


async def test_a_topic_is_created_with_its_queues(producer: Producer) -> None:
    await producer.create_topic("orders", queues=3)

    assert await producer.queues_of("orders") == [
        MessageQueue("broker-a", number, "orders") for number in range(3)
    ]
    with pytest.raises(TopicNotFound):
        await producer.create_topic("other", template_topic="nothing")


async def test_offsets_and_times_of_a_queue(producer: Producer) -> None:
    await producer.create_topic("orders", queues=1)
    [queue] = await producer.queues_of("orders")
    assert await producer.earliest_store_time(queue) is None
    for number in range(3):
        await producer.send("orders", b"%d" % number)

    now = datetime.now(UTC)
    assert (await producer.min_offset(queue), await producer.max_offset(queue)) == (0, 3)
    assert await producer.offset_by_time(queue, now - timedelta(hours=1)) == 0
    assert await producer.offset_by_time(queue, now + timedelta(hours=1)) == 3
    earliest = await producer.earliest_store_time(queue)
    assert earliest is not None
    assert abs(now - earliest) < timedelta(minutes=1)


async def test_messages_are_found_by_id_and_by_key(producer: Producer) -> None:
    sent = [
        await producer.send("orders", b"%d" % number, keys=["k", f"k{number}"])
        for number in range(3)
    ]

    viewed = await producer.view_message(sent[1].offset_message_id)
    by_key = await producer.query_messages("orders", "k")
    by_id = await producer.query_messages("orders", sent[2].message_id)

    assert (viewed.body, viewed.message_id) == (b"1", sent[1].message_id)
    assert [message.body for message in by_key] == [b"0", b"1", b"2"]
    assert [message.queue for message in by_id] == [sent[2].queue]
    assert await producer.query_messages("orders", "nothing") == []


async def test_a_broker_that_is_named_is_asked_whatever_the_route_says(producer: Producer) -> None:
    client = producer.client
    sent = await producer.send("orders", b"x", keys="k")
    gone = new_request(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "orders"})
    await client.name_servers.call(gone, client.settings.api_timeout)
    with pytest.raises(TopicNotFound):
        await client.routes.refresh("orders")

    found = await producer.query_messages(
        "orders", "k", is_complete=True, broker_name=sent.queue.broker_name
    )

    assert [message.message_id for message in found] == [sent.message_id]


async def test_ids_that_lead_nowhere_are_errors(producer: Producer, running: Cluster) -> None:
    sent = await producer.send("orders", b"x")
    beyond = f"{sent.offset_message_id[:16]}{10**9:016X}"

    with pytest.raises(MessageNotFound, match=beyond):
        await producer.view_message(beyond)
    with pytest.raises(RecordError):
        await producer.view_message("nonsense")


async def test_namespaces_do_not_show(running: Cluster) -> None:
    async with (
        Client(running.name_server, namespace="ns") as client,
        Producer("writers", client=client) as producer,
    ):
        await producer.send("orders", b"x", keys="k")
        [found] = await producer.query_messages("orders", "k")

    assert (found.topic, found.queue.topic) == ("orders", "orders")
