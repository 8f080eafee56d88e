"""A broker and a real name server: what routes say, and when."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from emberq.model.route import TopicRoute
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.codes import RequestCode
from emberq.testing.local_nameserver import RawClient, connected
from tests.integration.nameserver.running import eventually, name_server
from tests.support.brokers import BrokerUnderTest, broker_in

pytestmark = pytest.mark.integration


async def permission_of(client: RawClient, topic: str) -> int | None:
    answer = await client.route(topic)
    return decode_body(TopicRoute, answer.body).queues[0].permission if answer.body else None


@asynccontextmanager
async def registered_broker(folder: Path) -> AsyncIterator[tuple[BrokerUnderTest, RawClient]]:
    """A broker, and a client of its name server."""
    (folder / "names").mkdir()
    async with (
        name_server(folder / "names") as (host, port),
        connected(host, port) as names,
        broker_in(folder, namesrvAddr=f"{host}:{port}") as broker,
    ):
        yield broker, names


async def test_an_update_of_the_permission_reaches_clients_at_once(tmp_path: Path) -> None:
    async with registered_broker(tmp_path) as (broker, names):
        before = await permission_of(names, "BenchmarkTest")
        await broker.running.settings.update({"brokerPermission": "4"})
        await broker.running.registration.settle()
        closed = await permission_of(names, "BenchmarkTest")
        await broker.running.settings.update({"brokerPermission": "6"})
        await broker.running.registration.settle()
        opened = await permission_of(names, "BenchmarkTest")

    assert (before, closed, opened) == (6, 4, 6)


async def test_a_topic_that_a_send_makes_is_routed(tmp_path: Path) -> None:
    async with registered_broker(tmp_path) as (broker, names):
        broker.running.topics.create_for_send("orders", "TBW102", 4)

        async def is_routed() -> bool:
            return await permission_of(names, "orders") == 6

        await eventually(is_routed)


async def test_a_topic_of_a_tool_is_routed_when_it_is_answered(tmp_path: Path) -> None:
    fields = {
        "topic": "orders",
        "defaultTopic": "TBW102",
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    async with registered_broker(tmp_path) as (broker, names):
        answer = await broker.client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        permission = await permission_of(names, "orders")

    assert answer.code == 0
    assert permission == 6


async def test_auto_creation_follows_its_switch(tmp_path: Path) -> None:
    async with broker_in(tmp_path) as broker:
        topics, settings = broker.running.topics, broker.running.settings
        await settings.update({"autoCreateTopicEnable": "false"})
        off = topics.create_for_send("orders", "TBW102", 4)
        await settings.update({"autoCreateTopicEnable": "true"})
        on = topics.create_for_send("orders", "TBW102", 4)

    assert off is None
    assert on is not None


async def test_an_ordered_topic_of_the_name_server_is_ordered_after_a_restart_too(
    tmp_path: Path,
) -> None:
    (tmp_path / "names").mkdir()
    async with name_server(tmp_path / "names") as (host, port), connected(host, port) as names:
        entry = {"namespace": "ORDER_TOPIC_CONFIG", "key": "BenchmarkTest", "value": "broker-a:4"}
        await names.call(RequestCode.PUT_KV_CONFIG, entry)
        async with broker_in(tmp_path, namesrvAddr=f"{host}:{port}"):
            pass
    async with broker_in(tmp_path) as broker:
        topic = broker.running.topics.get("BenchmarkTest")

    assert topic is not None
    assert topic.is_ordered
