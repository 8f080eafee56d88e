"""The pull consumer against EmberQ's broker."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from emberq.client.aio.producer import Producer
from emberq.client.aio.pull_consumer import PullConsumer
from emberq.client.core.received import ReceivedMessage
from emberq.errors import ClientClosed, ClientError, ConfigError
from emberq.model.queue import MessageQueue
from emberq.testing.embedded import EmbeddedCluster as Cluster
from emberq.testing.embedded import cluster_on_this_loop as cluster
from tests.support.waiting import until

pytestmark = pytest.mark.integration

FIRST = "CONSUME_FROM_FIRST_OFFSET"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as started:
        yield started


def consumer_of(running: Cluster, **options: Any) -> PullConsumer:
    options.setdefault("consume_from_where", FIRST)
    return PullConsumer("pullers", name_server=running.name_server, **options)


async def send(running: Cluster, *bodies: bytes, **options: Any) -> None:
    async with Producer("writers", name_server=running.name_server) as producer:
        for body in bodies:
            await producer.send("orders", body, **options)


async def poll_all(consumer: PullConsumer, count: int) -> list[ReceivedMessage]:
    got: list[ReceivedMessage] = []
    async with asyncio.timeout(15):
        while len(got) < count:
            got += await consumer.poll(count - len(got), timeout=1)
    return got


async def test_a_subscriber_polls_everything(running: Cluster) -> None:
    await send(running, *(b"%d" % number for number in range(20)))
    async with consumer_of(running) as consumer:
        await consumer.subscribe("orders")
        got = await poll_all(consumer, 20)

    assert sorted((message.body for message in got), key=int) == [b"%d" % n for n in range(20)]


async def test_iteration_commits_a_message_after_its_loop_body(running: Cluster) -> None:
    await send(running, b"1", b"2", ordering_key="k")
    seen: list[tuple[bytes, int]] = []

    def committed() -> int:
        return max(running.broker.offsets.of("pullers", "orders").values(), default=0)

    async with consumer_of(running, auto_commit_interval=0.02) as consumer:
        await consumer.subscribe("orders")
        async for message in consumer:
            await until(lambda: committed() >= len(seen))  # what is finished
            await asyncio.sleep(0.1)  # several commits pass by
            seen.append((message.body, committed()))
            if len(seen) == 2:
                break

    assert seen == [(b"1", 0), (b"2", 1)]
    assert max(running.broker.offsets.of("pullers", "orders").values()) == 2


async def test_what_was_not_finished_comes_again(running: Cluster) -> None:
    await send(running, b"1", b"2", b"3", ordering_key="k")

    async def fail_at_the_second() -> None:
        async with consumer_of(running) as consumer:
            await consumer.subscribe("orders")
            async for message in consumer:
                if message.body == b"2":
                    raise ValueError("oops")

    with pytest.raises(ValueError, match="oops"):
        await fail_at_the_second()

    async with consumer_of(running) as consumer:
        await consumer.subscribe("orders")
        assert [message.body for message in await poll_all(consumer, 2)] == [b"2", b"3"]


async def test_without_auto_commit_only_commit_counts(running: Cluster) -> None:
    await send(running, b"1", b"2", ordering_key="k")
    async with consumer_of(running, auto_commit=False) as consumer:
        await consumer.subscribe("orders")
        [first] = await poll_all(consumer, 1)
        await consumer.commit()
        assert await consumer.committed(first.queue) == 1
        await poll_all(consumer, 1)

    assert max(running.broker.offsets.of("pullers", "orders").values()) == 1


async def test_queues_are_assigned_by_hand_and_positions_are_free(running: Cluster) -> None:
    await send(running, *(b"%d" % number for number in range(5)), ordering_key="k")
    async with consumer_of(running) as consumer:
        queues = await consumer.queues("orders")
        [queue] = [
            each for each in queues if running.broker.store.max_offset("orders", each.queue_id) == 5
        ]
        await consumer.assign([queue])
        assert consumer.assignment == [queue]
        assert [message.body for message in await poll_all(consumer, 5)] == [
            b"0",
            b"1",
            b"2",
            b"3",
            b"4",
        ]
        await consumer.seek(queue, 3)
        assert [message.body for message in await poll_all(consumer, 2)] == [b"3", b"4"]
        await consumer.seek_to_begin(queue)
        assert (await poll_all(consumer, 1))[0].body == b"0"
        await consumer.seek_to_end(queue)
        assert await consumer.poll(timeout=0.05) == []
        later = datetime.now(UTC) + timedelta(hours=1)
        assert await consumer.offset_for_time(queue, later) == 5
        with pytest.raises(ClientError, match="from 0 to 5"):
            await consumer.seek(queue, 6)
        with pytest.raises(ClientError, match="not assigned"):
            await consumer.seek(MessageQueue("broker-a", 99, "orders"), 0)
        with pytest.raises(ConfigError, match="exclude each other"):
            await consumer.subscribe("orders")


async def test_a_paused_queue_gives_no_more_until_it_is_resumed(running: Cluster) -> None:
    await send(running, b"1", ordering_key="k")
    async with consumer_of(running) as consumer:
        await consumer.subscribe("orders")
        [first] = await poll_all(consumer, 1)
        await until(lambda: len(consumer.assignment) == 4)
        consumer.pause(first.queue)
        # The pull that the broker holds still brings what comes next; then it rests.
        await send(running, b"2", ordering_key="k")
        assert (await poll_all(consumer, 1))[0].body == b"2"
        await send(running, b"3", ordering_key="k")
        assert await consumer.poll(timeout=0.2) == []
        consumer.resume(first.queue)
        assert (await poll_all(consumer, 1))[0].body == b"3"


async def test_two_members_divide_the_queues(running: Cluster) -> None:
    await send(running, b"x")
    async with consumer_of(running) as one, consumer_of(running) as other:
        await one.subscribe("orders")
        await other.subscribe("orders")
        await until(lambda: (len(one.assignment), len(other.assignment)) == (2, 2))

        assert set(one.assignment).isdisjoint(other.assignment)


async def test_values_are_decoded(running: Cluster) -> None:
    await send(running, b'{"a":1}')
    async with consumer_of(running, codec=dict[str, int]) as consumer:
        await consumer.subscribe("orders", tags="*")
        assert (await poll_all(consumer, 1))[0].value == {"a": 1}


async def test_a_consumer_is_used_between_start_and_close(running: Cluster) -> None:
    consumer = consumer_of(running)
    with pytest.raises(ClientClosed):
        await consumer.poll()
    async with consumer:
        pass
    with pytest.raises(ClientClosed):
        await consumer.poll()
