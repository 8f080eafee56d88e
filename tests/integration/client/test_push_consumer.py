"""The push consumer against EmberQ's broker: delivery, retries, order, shares, stop."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from emberq.client.aio.client import Client
from emberq.client.aio.producer import Producer
from emberq.client.aio.push_consumer import PushConsumer
from emberq.client.core.message import Message
from emberq.client.core.received import ReceivedMessage
from emberq.client.settings import ClientSettings
from emberq.errors import ConfigError, DeadLetter, RetryLater, SuspendQueue
from emberq.testing.embedded import EmbeddedCluster as Cluster
from emberq.testing.embedded import cluster_on_this_loop as cluster
from tests.support.waiting import until

pytestmark = pytest.mark.integration

FIRST = "CONSUME_FROM_FIRST_OFFSET"
# The first levels are those of send-backs: 3, 4, 5.
QUICK_LEVELS = " ".join(["1s"] * 18)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path, messageDelayLevel=QUICK_LEVELS) as started:
        yield started


def consumer_of(running: Cluster, group: str = "readers", **options: Any) -> PushConsumer:
    options.setdefault("consume_from_where", FIRST)
    return PushConsumer(group, name_server=running.name_server, **options)


async def send(running: Cluster, topic: str, *bodies: bytes, **options: Any) -> None:
    async with Producer("writers", name_server=running.name_server) as producer:
        for body in bodies:
            await producer.send(topic, body, **options)


async def test_async_handlers_get_every_message(running: Cluster) -> None:
    await send(running, "orders", *(b"%d" % number for number in range(50)))
    got: list[bytes] = []
    consumer = consumer_of(running)

    @consumer.subscribe("orders")
    async def handle(message: ReceivedMessage) -> None:
        got.append(message.body)

    async with consumer:
        await until(lambda: len(got) == 50)
        assert sorted(got, key=int) == [b"%d" % number for number in range(50)]


async def test_sync_handlers_run_in_threads(running: Cluster) -> None:
    await send(running, "orders", b"x")
    threads: list[int] = []
    consumer = consumer_of(running)
    consumer.add_handler("orders", lambda message: threads.append(threading.get_ident()))

    async with consumer:
        await until(lambda: threads)

    assert threads[0] != threading.get_ident()


async def test_a_message_that_is_sent_later_is_delivered_at_once(running: Cluster) -> None:
    got: list[str] = []
    consumer = consumer_of(running)

    @consumer.subscribe("orders")
    async def handle(message: ReceivedMessage) -> None:
        got.append(message.text())

    await send(running, "orders", b"first")
    async with consumer:
        await until(lambda: got == ["first"])
        await send(running, "orders", b"second")
        await until(lambda: got == ["first", "second"])


async def test_tags_filter_messages(running: Cluster) -> None:
    await send(running, "orders", b"a", tags="A")
    await send(running, "orders", b"b", tags="B")
    await send(running, "orders", b"c", tags="C")
    got: list[bytes] = []
    consumer = consumer_of(running)

    @consumer.subscribe("orders", tags="A || C")
    async def handle(message: ReceivedMessage) -> None:
        got.append(message.body)

    async with consumer:
        await until(lambda: sorted(got) == [b"a", b"c"])


async def test_values_are_decoded_and_batches_are_lists(running: Cluster) -> None:
    async with Producer("writers", name_server=running.name_server, codec=dict) as producer:
        await producer.send_batch([Message("orders", {"n": number}) for number in range(10)])
    batches: list[list[int]] = []
    consumer = consumer_of(running)

    @consumer.subscribe("orders", codec=dict[str, int], batch_size=4)
    async def handle(messages: list[ReceivedMessage]) -> None:
        batches.append([message.value["n"] for message in messages])

    async with consumer:
        await until(lambda: sum(map(len, batches)) == 10)

    assert max(map(len, batches)) == 4


async def test_a_failed_message_comes_again_and_shows_its_first_topic(running: Cluster) -> None:
    await send(running, "orders", b"x")
    attempts: list[tuple[str, int, str]] = []
    consumer = consumer_of(running)

    @consumer.subscribe("orders")
    async def handle(message: ReceivedMessage) -> None:
        attempts.append((message.topic, message.delivery_attempt, message.message_id))
        if len(attempts) < 3:
            raise ValueError("not yet")

    async with consumer:
        await until(lambda: len(attempts) == 3)

    assert [(topic, attempt) for topic, attempt, _ in attempts] == [
        ("orders", 1),
        ("orders", 2),
        ("orders", 3),
    ]
    assert len({message_id for *_, message_id in attempts}) == 1


@pytest.mark.parametrize(
    ("error", "options"),
    [(DeadLetter("bad"), {}), (RetryLater(delay_level=1), {"max_reconsume_times": 0})],
)
async def test_dead_letters_are_kept(
    running: Cluster, error: Exception, options: dict[str, Any]
) -> None:
    await send(running, "orders", b"bad")
    consumer = consumer_of(running, **options)

    @consumer.subscribe("orders")
    async def handle(message: ReceivedMessage) -> None:
        raise error

    async with consumer:
        await until(lambda: running.broker.store.max_offset("%DLQ%readers", 0) == 1)


async def test_a_handler_that_returns_something_is_named_and_the_message_comes_again(
    running: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    await send(running, "orders", b"x")
    calls = 0
    consumer = consumer_of(running)

    @consumer.subscribe("orders")
    async def handle(message: ReceivedMessage) -> bool | None:
        nonlocal calls
        calls += 1
        return True if calls == 1 else None

    async with consumer:
        await until(lambda: calls == 2)

    assert "returned True; return None for success" in caplog.text


async def test_offsets_are_committed_after_the_work_and_a_restart_goes_on(running: Cluster) -> None:
    await send(running, "orders", *(b"%d" % number for number in range(20)))
    got: list[bytes] = []

    async def consume(count: int) -> None:
        consumer = consumer_of(running)

        @consumer.subscribe("orders")
        async def handle(message: ReceivedMessage) -> None:
            got.append(message.body)

        async with consumer:
            await until(lambda: len(got) >= count)

    await consume(20)
    await send(running, "orders", b"20")
    await consume(21)

    assert sorted(got, key=int) == [b"%d" % number for number in range(21)]


async def test_closing_lets_handlers_finish(running: Cluster) -> None:
    await send(running, "orders", b"x")
    began, finished = asyncio.Event(), []
    consumer = consumer_of(running)

    @consumer.subscribe("orders")
    async def handle(message: ReceivedMessage) -> None:
        began.set()
        await asyncio.sleep(0.2)
        finished.append(message.body)

    async with consumer:
        async with asyncio.timeout(15):
            await began.wait()

    assert finished == [b"x"]
    offsets = running.broker.offsets.of("readers", "orders")
    assert sum(offsets.values()) == 1


async def test_two_members_share_the_queues_and_one_takes_over(running: Cluster) -> None:
    await send(running, "orders", b"0")
    got: dict[str, list[bytes]] = {"a": [], "b": []}

    def member(name: str) -> PushConsumer:
        consumer = consumer_of(running)

        @consumer.subscribe("orders")
        async def handle(message: ReceivedMessage) -> None:
            got[name].append(message.body)

        return consumer

    def orders(consumer: PushConsumer) -> set[int]:
        return {queue.queue_id for queue in consumer.queues if queue.topic == "orders"}

    async with member("a") as first:
        await until(lambda: orders(first) == {0, 1, 2, 3})
        async with member("b") as second:
            await until(lambda: (len(orders(first)), len(orders(second))) == (2, 2))
            assert orders(first).isdisjoint(orders(second))
            await send(running, "orders", *(b"%d" % number for number in range(1, 21)))
            await until(lambda: len({*got["a"], *got["b"]}) == 21)
        await until(lambda: orders(first) == {0, 1, 2, 3})

    assert got["b"]


async def test_an_orderly_consumer_keeps_the_order_of_every_key(running: Cluster) -> None:
    async with Producer("writers", name_server=running.name_server) as producer:
        for number in range(10):
            for key in ("k1", "k2", "k3"):
                await producer.send("orders", f"{key}:{number}".encode(), ordering_key=key)
    got: dict[str, list[int]] = {}
    failures = 0
    consumer = consumer_of(running, ordered=True)

    @consumer.subscribe("orders")
    async def handle(message: ReceivedMessage) -> None:
        nonlocal failures
        key, _, number = message.text().partition(":")
        if number == "4" and key == "k1" and failures < 2:
            failures += 1
            raise SuspendQueue(seconds=0.01)
        got.setdefault(key, []).append(int(number))

    async with consumer:
        await until(lambda: sum(map(len, got.values())) == 30)

    assert failures == 2
    assert got == {key: list(range(10)) for key in ("k1", "k2", "k3")}


async def test_broadcasting_members_get_everything_and_remember_in_a_file(
    running: Cluster, tmp_path: Path
) -> None:
    await send(running, "orders", b"1", b"2")
    got: dict[str, list[bytes]] = {"a": [], "b": []}

    async def consume(name: str, count: int) -> None:
        client = Client(running.name_server, instance_name=name)
        consumer = PushConsumer(
            "readers",
            client=client,
            message_model="BROADCASTING",
            consume_from_where=FIRST,
            offsets_folder=tmp_path / "offsets",
        )

        @consumer.subscribe("orders")
        async def handle(message: ReceivedMessage) -> None:
            got[name].append(message.body)

        async with client, consumer:
            await until(lambda: len(got[name]) == count)

    await asyncio.gather(consume("a", 2), consume("b", 2))
    await send(running, "orders", b"3")
    await consume("a", 3)

    assert sorted(got["a"]) == [b"1", b"2", b"3"]
    assert sorted(got["b"]) == [b"1", b"2"]


async def test_pausing_stops_the_flow_and_lag_tells(running: Cluster) -> None:
    got: list[bytes] = []
    settings = ClientSettings(persist_offsets=0.05)
    async with Client(running.name_server, settings=settings) as client:
        consumer = PushConsumer("readers", client=client, consume_from_where=FIRST)

        @consumer.subscribe("orders")
        async def handle(message: ReceivedMessage) -> None:
            got.append(message.body)

        await send(running, "orders", b"1")
        async with consumer:
            await until(lambda: got == [b"1"])
            await until(lambda: sum(running.broker.offsets.of("readers", "orders").values()) == 1)
            assert sum(lag.messages for lag in consumer.lag()) == 0
            consumer.pause()
            consumer.resume()
            await send(running, "orders", b"2")
            await until(lambda: got == [b"1", b"2"])


async def test_run_ends_when_it_is_stopped(running: Cluster) -> None:
    await send(running, "orders", b"x")
    consumer = consumer_of(running)

    @consumer.subscribe("orders")
    async def handle(message: ReceivedMessage) -> None:
        consumer.stop()

    async with asyncio.timeout(20):
        await consumer.run()


async def test_mistakes_are_named(running: Cluster) -> None:
    consumer = consumer_of(running)
    with pytest.raises(ConfigError, match="nothing is subscribed"):
        await consumer.start()
    consumer.add_handler("orders", print)
    with pytest.raises(ConfigError, match="has a handler already"):
        consumer.add_handler("orders", print)
    with pytest.raises(ConfigError, match="not by both"):
        consumer.add_handler("others", print, tags="A", sql="a > 1")
    with pytest.raises(ConfigError, match="batch_size"):
        consumer.add_handler("others", print, batch_size=0)
    with pytest.raises(ConfigError, match="workers"):
        consumer_of(running, workers=0)


async def test_a_topic_that_is_made_after_the_start_is_consumed_at_once(running: Cluster) -> None:
    got: list[bytes] = []
    async with Client(running.name_server) as client:
        consumer = PushConsumer("early-birds", client=client, consume_from_where=FIRST)

        @consumer.subscribe("made-later")
        async def handle(message: ReceivedMessage) -> None:
            got.append(message.body)

        async with consumer, Producer("writers", client=client) as producer:
            await producer.send("made-later", b"x")
            await until(lambda: got == [b"x"])
