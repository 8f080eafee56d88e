"""The client while servers die and the network breaks: no loss, no wrong order, no silent stop.

Messages may come twice where the protocol implies it: what was handled since the last commit, and
what was sent again because its answer was lost.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from emberq.aio import Client, ClientSettings, Producer, PullConsumer
from emberq.testing.faulty_proxy import Towards
from tests.support.proxied_cluster import ProxiedCluster, proxied_cluster
from tests.support.traffic import Received, Sender, collector, flows, traffic
from tests.support.waiting import DEADLINE_S, until

# One cluster for all: faults end with their test, and every test has a topic of its own.
pytestmark = [pytest.mark.crash, pytest.mark.asyncio(loop_scope="module")]

# Noticed and mended sooner than in half a minute.
SETTINGS = ClientSettings(heartbeat=0.5, api_timeout=1.0, persist_offsets=0.2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ProxiedCluster]:
    async with proxied_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def cluster(shared: ProxiedCluster) -> AsyncIterator[ProxiedCluster]:
    yield shared
    for proxy in (shared.to_broker, shared.to_name_server):
        proxy.heal()
        proxy.cut()  # what was frozen would stay at the broker
        await proxy.listen()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"t{abs(hash(request.node.name))}"


async def make(topic: str, cluster: ProxiedCluster) -> None:
    """Before anything breaks, and with more patience than the clients that are tested have."""
    settings = ClientSettings(api_timeout=DEADLINE_S)
    async with (
        Client(cluster.name_server, settings=settings) as client,
        Producer("makers", client=client) as producer,
    ):
        await producer.create_topic(topic, queues=4)


Fault = Callable[[ProxiedCluster, Sender, Received], Awaitable[None]]


async def broker_dies(cluster: ProxiedCluster, sender: Sender, received: Received) -> None:
    await cluster.kill_broker()
    await cluster.restart_broker()


async def broker_refuses(cluster: ProxiedCluster, sender: Sender, received: Received) -> None:
    failures = sender.failures
    cluster.to_broker.refuse()
    await until(lambda: sender.failures > failures + 10)
    await cluster.to_broker.listen()


async def connections_are_cut(cluster: ProxiedCluster, sender: Sender, received: Received) -> None:
    for _ in range(3):
        cluster.to_broker.cut()
        cluster.to_name_server.cut()
        await flows(sender, received)


async def connections_are_half_open(
    cluster: ProxiedCluster, sender: Sender, received: Received
) -> None:
    cluster.to_broker.freeze()
    cluster.to_name_server.freeze()


async def answers_are_held_back(
    cluster: ProxiedCluster, sender: Sender, received: Received
) -> None:
    failures = sender.failures
    cluster.to_broker.stall(Towards.CLIENT)
    await until(lambda: sender.failures >= failures + 4)
    cluster.to_broker.heal()


async def requests_are_held_back(
    cluster: ProxiedCluster, sender: Sender, received: Received
) -> None:
    failures = sender.failures
    cluster.to_broker.stall(Towards.SERVER)
    await until(lambda: sender.failures >= failures + 4)
    cluster.to_broker.heal()


async def answers_end_within_a_frame(
    cluster: ProxiedCluster, sender: Sender, received: Received
) -> None:
    for size in (1, 100, 1000):
        cluster.to_broker.truncate(Towards.CLIENT, size)
        await flows(sender, received)


async def requests_end_within_a_frame(
    cluster: ProxiedCluster, sender: Sender, received: Received
) -> None:
    for size in (1, 100, 1000):
        cluster.to_broker.truncate(Towards.SERVER, size)
        await flows(sender, received)


async def everything_is_slow(cluster: ProxiedCluster, sender: Sender, received: Received) -> None:
    cluster.to_broker.delay(0.05)
    await flows(sender, received)
    cluster.to_broker.heal()


FAULTS: list[Fault] = [
    broker_dies,
    broker_refuses,
    connections_are_cut,
    connections_are_half_open,
    answers_are_held_back,
    requests_are_held_back,
    answers_end_within_a_frame,
    requests_end_within_a_frame,
    everything_is_slow,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__.replace("_", " "))
async def test_nothing_is_lost_or_overtaken_when(
    cluster: ProxiedCluster, topic: str, fault: Fault
) -> None:
    concurrently, in_order = Received(), Received()
    await make(topic, cluster)
    async with (
        Client(cluster.name_server, settings=SETTINGS) as one,
        Client(cluster.name_server, settings=SETTINGS) as other,
        Producer("writers", client=one) as producer,
        collector(one, topic, concurrently, ordered=False, group=f"{topic}-concurrent"),
        collector(other, topic, in_order, ordered=True, group=f"{topic}-ordered"),
        traffic(producer, topic, concurrently, in_order) as sender,
    ):
        await flows(sender, concurrently, in_order)
        await fault(cluster, sender, in_order)
        await flows(sender, concurrently, in_order)

    in_order.check_order()


async def test_a_pull_consumer_goes_on_after_every_fault(
    cluster: ProxiedCluster, topic: str
) -> None:
    received = Received()
    await make(topic, cluster)
    async with (
        Client(cluster.name_server, settings=SETTINGS) as one,
        Client(cluster.name_server, settings=SETTINGS) as other,
        Producer("writers", client=one) as producer,
        PullConsumer(
            f"{topic}-pullers",
            client=other,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
            auto_commit_interval=0.2,
        ) as consumer,
    ):
        await consumer.subscribe(topic)

        async def read() -> None:
            async for message in consumer:
                received.note(message.body)

        reading = asyncio.create_task(read())
        async with traffic(producer, topic, received) as sender:
            for fault in (broker_dies, connections_are_cut, connections_are_half_open):
                await flows(sender, received)
                await fault(cluster, sender, received)
            await flows(sender, received)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    received.check_order()


async def test_without_a_name_server_everything_goes_on_and_a_new_one_is_found(
    cluster: ProxiedCluster, topic: str
) -> None:
    received = Received()
    settings = ClientSettings(heartbeat=0.5, api_timeout=1.0, route_refresh=0.2)
    async with (
        Client(cluster.name_server, settings=settings) as client,
        Producer("writers", client=client) as producer,
        collector(client, topic, received, ordered=False, group=f"{topic}-readers"),
    ):
        async with traffic(producer, topic, received) as sender:
            await flows(sender, received)
            await cluster.kill_name_server()
            await flows(sender, received)
            await cluster.restart_name_server()
            await flows(sender, received)
        await until(lambda: client.health().is_name_server_reachable)

        # The broker registers again by itself.
        client.routes.forget(topic)
        async with asyncio.timeout(40):
            while client.routes.known(topic) is None:  # noqa: ASYNC110 - refreshed beside
                await asyncio.sleep(0.05)


async def test_a_consumer_that_recovers_says_what_happened(
    cluster: ProxiedCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    received = Received()
    async with (
        Client(cluster.name_server, settings=SETTINGS) as client,
        Producer("writers", client=client) as producer,
        collector(client, topic, received, ordered=False, group=f"{topic}-readers"),
        traffic(producer, topic, received) as sender,
    ):
        await flows(sender, received)
        cluster.to_broker.cut()
        await flows(sender, received)
        assert "pull_failed" in caplog.text
        cluster.to_broker.freeze()
        await flows(sender, received)
        assert "connection_dropped" in caplog.text
