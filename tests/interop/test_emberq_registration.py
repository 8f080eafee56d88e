"""EmberQ brokers at official name servers of both lines."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from emberq.model.route import TopicRoute
from emberq.model.topic import TopicConfig
from emberq.protocol.bodies.codec import decode_body
from emberq.testing.local_broker import run_broker
from emberq.testing.local_nameserver import RawClient, connected
from tests.integration.nameserver.running import eventually
from tests.interop.harness.artifacts import Line
from tests.interop.harness.servers import NameServer, start_official_name_server, wait_for_boot
from tests.support.brokers import broker_in

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def official(line: Line, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NameServer]:
    server = start_official_name_server(line, tmp_path_factory.mktemp(f"names-{line.name}-"))
    try:
        wait_for_boot(server)
        yield server
    finally:
        server.process.kill()


async def route_of(client: RawClient, topic: str) -> TopicRoute | None:
    answer = await client.route(topic, acceptStandardJsonOnly="true")
    return decode_body(TopicRoute, answer.body) if answer.code == 0 else None


@pytest.mark.parametrize(
    "keys",
    [{}, {"compressedRegister": "true"}, {"forceRegister": "false"}],
    ids=["plain", "packed", "asked-first"],
)
async def test_topics_of_an_emberq_broker_are_routed_from_start_to_stop(
    tmp_path: Path, official: NameServer, line: Line, keys: dict[str, str]
) -> None:
    if "compressedRegister" in keys and not line.is_v5:
        pytest.skip("a 4.9 name server takes no attributes in a packed registration")
    async with connected("127.0.0.1", official.port) as names:
        async with broker_in(tmp_path, namesrvAddr=official.address, **keys) as broker:
            running = broker.running
            own = await route_of(names, "TBW102")
            running.topics.create_for_send("orders", "TBW102", 4)
            await running.registration.settle()
            made = await route_of(names, "orders")
            running.topics.put(TopicConfig(name="orders", read_queue_count=6, write_queue_count=5))
            await running.registration.settle()
            changed = await route_of(names, "orders")
            await running.settings.update({"brokerPermission": "4"})
            await running.registration.settle()
            closed = await route_of(names, "orders")

        async def is_gone() -> bool:
            return await route_of(names, "TBW102") is None

        await eventually(is_gone)

    assert own is not None
    assert own.brokers[0].addresses == {0: running.addresses.main}
    assert own.queues[0].permission == 7
    assert made is not None
    assert (made.queues[0].read_queue_count, made.queues[0].write_queue_count) == (4, 4)
    assert changed is not None
    assert (changed.queues[0].read_queue_count, changed.queues[0].write_queue_count) == (6, 5)
    assert closed is not None
    assert closed.queues[0].permission == 4


async def test_a_killed_emberq_broker_leaves_the_routes(
    tmp_path: Path, official: NameServer
) -> None:
    async with connected("127.0.0.1", official.port) as names:
        with run_broker(tmp_path, name_servers=official.address) as broker:
            before = await route_of(names, "TBW102")
            broker.kill()

        async def is_gone() -> bool:
            return await route_of(names, "TBW102") is None

        await eventually(is_gone)

    assert before is not None
    assert before.brokers[0].addresses == {0: broker.address}
