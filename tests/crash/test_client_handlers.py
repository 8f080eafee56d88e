"""Handlers that fail in every way, members that are killed, and what a closed client leaves."""

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import emberq
from emberq.aio import Client, ClientSettings, Producer, PullConsumer, PushConsumer, ReceivedMessage
from emberq.testing.embedded import EmbeddedCluster, cluster_on_this_loop, embedded_cluster
from emberq.testing.faulty_proxy import Towards
from tests.support import consuming_member
from tests.support.leaks import no_thread_left, nothing_left
from tests.support.proxied_cluster import QUICK_LEVELS, ProxiedCluster, proxied_cluster
from tests.support.traffic import Received, collector, flows, traffic
from tests.support.waiting import until

pytestmark = pytest.mark.crash

FIRST = "CONSUME_FROM_FIRST_OFFSET"
MEMBER = Path(consuming_member.__file__)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with cluster_on_this_loop(tmp_path, messageDelayLevel=QUICK_LEVELS) as cluster:
        yield cluster


@pytest.fixture
async def forgetful(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """A lock that a killed member leaves behind is not waited for."""
    keys = {"rocketmq.broker.rebalance.lockMaxLiveTime": "1000"}
    async with cluster_on_this_loop(tmp_path, **keys) as cluster:
        yield cluster


async def awaits_what_was_cancelled(message: ReceivedMessage) -> None:
    other = asyncio.ensure_future(asyncio.sleep(60))
    other.cancel()
    await other


async def cancels_itself(message: ReceivedMessage) -> None:
    raise asyncio.CancelledError


async def exits(message: ReceivedMessage) -> None:
    sys.exit(1)


def exits_in_its_thread(message: ReceivedMessage) -> None:
    sys.exit(1)


async def takes_too_long(message: ReceivedMessage) -> None:
    async with asyncio.timeout(0):
        await asyncio.sleep(60)


def returns_something(message: ReceivedMessage) -> bool:
    return True


FAILING: list[Callable[[ReceivedMessage], Any]] = [
    awaits_what_was_cancelled,
    cancels_itself,
    exits,
    exits_in_its_thread,
    takes_too_long,
    returns_something,
]


@pytest.mark.parametrize("ordered", [False, True], ids=["concurrent", "in order"])
@pytest.mark.parametrize("failing", FAILING, ids=lambda function: function.__name__)
async def test_a_message_comes_again_and_others_come_after_a_handler_that(
    running: EmbeddedCluster,
    failing: Callable[[ReceivedMessage], Any],
    ordered: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With one worker: if that died, nothing would come any more."""
    handled: list[tuple[str, int]] = []
    consumer = PushConsumer(
        "readers",
        name_server=running.name_server,
        workers=1,
        ordered=ordered,
        consume_from_where=FIRST,
    )

    def note(message: ReceivedMessage) -> bool:
        handled.append((message.text(), message.delivery_attempt))
        return message.text() == "bad" and message.delivery_attempt == 1

    if asyncio.iscoroutinefunction(failing):

        @consumer.subscribe("orders")
        async def handle_async(message: ReceivedMessage) -> None:
            if note(message):
                await failing(message)
    else:

        @consumer.subscribe("orders")
        def handle(message: ReceivedMessage) -> Any:
            return failing(message) if note(message) else None

    async with Producer("writers", name_server=running.name_server) as producer:
        for body in (b"bad", b"good"):
            await producer.send("orders", body, ordering_key="k")
    async with consumer:
        await until(lambda: {("bad", 2), ("good", 1)} <= set(handled))

    if ordered:
        assert handled == [("bad", 1), ("bad", 2), ("good", 1)]
    assert "handler_failed" in caplog.text


async def test_slow_handlers_do_not_stop_others_nor_the_network(running: EmbeddedCluster) -> None:
    started, finish = threading.Event(), threading.Event()
    quick: list[str] = []
    settings = ClientSettings(heartbeat=0.05)
    async with (
        Client(running.name_server, settings=settings) as client,
        Producer("writers", client=client) as producer,
    ):
        consumer = PushConsumer("readers", client=client, workers=2, consume_from_where=FIRST)

        @consumer.subscribe("orders")
        def handle(message: ReceivedMessage) -> None:
            if message.text() == "slow":
                started.set()
                finish.wait(30)
            else:
                quick.append(message.text())

        await producer.send("orders", b"slow")
        async with consumer:
            await until(started.is_set)
            for number in range(20):
                await producer.send("orders", b"%d" % number)
            await until(lambda: len(quick) == 20)
            # What is behind the slow one is not committed.
            assert sum(running.broker.offsets.of("readers", "orders").values()) < 21
            finish.set()

    assert sum(running.broker.offsets.of("readers", "orders").values()) == 21


async def test_in_order_a_slow_handler_keeps_its_queue_until_it_has_finished(
    running: EmbeddedCluster,
) -> None:
    """A second member joins meanwhile: it must not begin behind the back of the first."""
    events: list[tuple[int, str]] = []
    began, finish = asyncio.Event(), asyncio.Event()

    def member() -> PushConsumer:
        consumer = PushConsumer(
            "readers", name_server=running.name_server, ordered=True, consume_from_where=FIRST
        )

        @consumer.subscribe("orders")
        async def handle(message: ReceivedMessage) -> None:
            events.append((message.queue_id, f"begins {message.text()}"))
            if message.text() == "0":
                began.set()
                await finish.wait()
            events.append((message.queue_id, f"ends {message.text()}"))

        return consumer

    def shares(*members: PushConsumer) -> list[int]:
        return [sum(queue.topic == "orders" for queue in each.queues) for each in members]

    async with Producer("writers", name_server=running.name_server) as producer:
        await producer.create_topic("orders", queues=2)
        queues = await producer.queues("orders")
        async with member() as first:
            await until(lambda: shares(first) == [2])
            for queue in queues:
                await producer.send("orders", b"0", queue=queue)
            async with asyncio.timeout(15):
                await began.wait()
            async with member() as second:
                for queue in queues:
                    await producer.send("orders", b"1", queue=queue)
                # Long enough for several attempts to hand a queue over.
                deadline = time.monotonic() + 2.5
                await until(lambda: time.monotonic() > deadline)
                assert shares(second) == [0]
                finish.set()
                await until(lambda: len(events) == 8)
                await until(lambda: shares(first, second) == [1, 1])

    for number in range(2):
        of_queue = [event for queue_id, event in events if queue_id == number]
        assert of_queue == ["begins 0", "ends 0", "begins 1", "ends 1"]


@pytest.mark.parametrize("kind", ["concurrent", "ordered"])
async def test_when_a_member_is_killed_another_one_takes_over(
    forgetful: EmbeddedCluster, kind: str
) -> None:
    received = Received()
    async with (
        Client(forgetful.name_server) as client,
        Producer("writers", client=client) as producer,
    ):
        await producer.create_topic("orders", queues=4)
        member = await asyncio.create_subprocess_exec(
            *(sys.executable, str(MEMBER), forgetful.name_server, "orders", "readers", kind),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert member.stdout is not None
            assert await member.stdout.readline() == b"ready\n"
            async with (
                collector(client, "orders", received, ordered=kind == "ordered", group="readers"),
                traffic(producer, "orders", received) as sender,
            ):
                for _ in range(40):
                    received.note((await member.stdout.readline()).strip())
                member.kill()
                async for line in member.stdout:
                    received.note(line.strip())
                await flows(sender, received)
        finally:
            if member.returncode is None:
                member.kill()
            await member.wait()


# Nothing is left


async def use_everything(name_server: str) -> None:
    """A producer and consumers of every kind, with handlers in threads and tasks."""
    got: list[bytes] = []
    settings = ClientSettings(close_timeout=2.0, api_timeout=1.0)
    async with (
        Client(name_server, settings=settings) as client,
        Producer("writers", client=client, linger=0.001) as producer,
        PullConsumer("pullers", client=client, consume_from_where=FIRST) as puller,
    ):
        consumer = PushConsumer("readers", client=client, consume_from_where=FIRST)
        ordered = PushConsumer("ordered", client=client, ordered=True, consume_from_where=FIRST)
        consumer.add_handler("orders", lambda message: got.append(message.body))

        @ordered.subscribe("orders")
        async def handle(message: ReceivedMessage) -> None:
            got.append(message.body)

        await producer.send("orders", b"x")
        await puller.subscribe("orders")
        async with consumer, ordered:
            await until(lambda: got.count(b"x") == 2)
            assert [message.body for message in await puller.poll(1)] == [b"x"]


async def test_closing_leaves_no_task_socket_or_thread(running: EmbeddedCluster) -> None:
    await use_everything(running.name_server)  # what asyncio keeps for ever is there now

    async with nothing_left():
        await use_everything(running.name_server)


async def frozen(cluster: ProxiedCluster) -> None:
    cluster.to_broker.freeze()
    cluster.to_name_server.freeze()


async def refusing(cluster: ProxiedCluster) -> None:
    cluster.to_broker.refuse()
    cluster.to_name_server.refuse()


async def stalled_for_good(cluster: ProxiedCluster) -> None:
    for proxy in (cluster.to_broker, cluster.to_name_server):
        proxy.stall(Towards.CLIENT)
        proxy.cut()


@pytest.mark.parametrize("fault", [frozen, refusing, stalled_for_good], ids=lambda it: it.__name__)
async def test_closing_ends_and_leaves_nothing_when_servers_are(
    tmp_path: Path, fault: Callable[[ProxiedCluster], Any]
) -> None:
    async with proxied_cluster(tmp_path) as cluster:
        settings = ClientSettings(close_timeout=2.0, api_timeout=0.5, heartbeat=0.2)
        received = Received()
        before = asyncio.all_tasks()
        async with (
            Client(cluster.name_server, settings=settings) as client,
            Producer("writers", client=client) as producer,
            collector(client, "orders", received, ordered=True, group="ordered"),
            collector(client, "orders", received, ordered=False, group="readers"),
        ):
            await producer.send("orders", b"k:0")
            await until(lambda: received.count == 2)
            await fault(cluster)
        for proxy in (cluster.to_broker, cluster.to_name_server):
            await proxy.close()
        assert asyncio.all_tasks() <= before


def test_a_blocking_client_leaves_no_thread_and_no_socket() -> None:
    with embedded_cluster() as cluster, no_thread_left():
        got: list[bytes] = []
        with (
            emberq.Producer("writers", name_server=cluster.name_server) as producer,
            emberq.PullConsumer(
                "pullers", name_server=cluster.name_server, consume_from_where=FIRST
            ) as puller,
        ):
            producer.send("orders", b"x")
            consumer = emberq.PushConsumer(
                "readers", name_server=cluster.name_server, consume_from_where=FIRST
            )
            consumer.add_handler("orders", lambda message: got.append(message.body))
            with consumer:
                puller.subscribe("orders")
                assert [message.body for message in puller.poll(1, timeout=15)] == [b"x"]
                deadline = time.monotonic() + 15
                while not got:
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
