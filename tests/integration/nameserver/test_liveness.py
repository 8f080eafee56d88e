"""Brokers that come, fall silent and go, over real connections."""

import asyncio
from pathlib import Path

import pytest

from emberq.model.topic import TopicConfig
from emberq.nameserver import server
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, new_request
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from emberq.remoting.registry import HandlerRegistry
from emberq.remoting.server import listening
from emberq.testing.local_nameserver import CALL_TIMEOUT_S, Broker, RawClient, connected
from tests.integration.nameserver.running import DEADLINE_S, name_server, served, until_route_is

pytestmark = pytest.mark.integration

NO_ROUTE = ResponseCode.TOPIC_NOT_EXIST
TOPICS = [TopicConfig(name="T1"), TopicConfig(name="T2")]


async def test_a_closed_connection_removes_all_brokers_that_registered_through_it(
    tmp_path: Path,
) -> None:
    async with name_server(tmp_path) as address, connected(*address) as watcher:
        async with connected(*address) as broker:
            await broker.register(Broker(name="a", address="10.0.0.1:1"), TOPICS)
            await broker.register(Broker(name="b", address="10.0.0.2:1"), TOPICS)
            assert (await watcher.route("T1")).code == 0

        await until_route_is(watcher, "T1", NO_ROUTE)

        clusters = await watcher.call(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert clusters.body == b'{"brokerAddrTable":{},"clusterAddrTable":{}}'


async def test_the_older_of_two_connections_may_close(tmp_path: Path) -> None:
    async with name_server(tmp_path) as address, connected(*address) as newer:
        async with connected(*address) as older, connected(*address) as probe:
            await older.register(Broker(), TOPICS)
            await newer.register(Broker(), TOPICS)
            await probe.register(
                Broker(name="probe", address="10.0.0.9:1"),
                [TopicConfig(name="P1"), TopicConfig(name="P2")],
            )
        await until_route_is(newer, "P1", NO_ROUTE)  # both closes have been seen

        assert (await newer.route("T1")).code == 0


async def test_a_silent_broker_expires_and_is_hung_up_on(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path, scanNotActiveBrokerInterval="20") as address,
        connected(*address) as silent,
        connected(*address) as lively,
    ):
        short = {"heartbeatTimeoutMillis": "100"}
        await silent.register(Broker(name="a", address="10.0.0.1:1"), TOPICS, extra_fields=short)
        await lively.register(
            Broker(name="b", address="10.0.0.2:1"),
            [TopicConfig(name="L1"), TopicConfig(name="L2")],
        )

        await until_route_is(lively, "T1", NO_ROUTE)
        await asyncio.wait_for(silent.connection.closed, DEADLINE_S)

        assert (await lively.route("L1")).code == 0


async def test_a_broker_that_unregisters_and_registers_in_one_write_is_there(
    tmp_path: Path,
) -> None:
    broker = Broker()
    async with served(tmp_path) as client:
        await client.register(broker, TOPICS)

        leaving = client.connection.start_call(
            new_request(RequestCode.UNREGISTER_BROKER, broker.fields()), CALL_TIMEOUT_S
        )
        coming = asyncio.create_task(client.register(broker, TOPICS))
        assert (await leaving).code == 0
        assert (await coming).code == 0

        # Three round trips are more turns of the loop than a departure waits.
        for _ in range(3):
            assert (await client.route("T1")).code == 0


class Listener:
    """A broker's port that keeps what it is told."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self.registry = HandlerRegistry()
        self.registry.add(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, self.hear)

    def hear(self, command: Command, _: Connection) -> None:
        assert command.is_oneway
        self.heard.put_nowait(command.fields or {})

    async def next(self) -> dict[str, str]:
        return await asyncio.wait_for(self.heard.get(), DEADLINE_S)


async def test_slaves_are_told_when_the_smallest_id_of_their_group_changes(tmp_path: Path) -> None:
    slave = Listener()
    acting = {"enableActingMaster": "true"}
    async with (
        listening(Endpoint(slave.registry), "127.0.0.1", 0) as (host, port),
        name_server(tmp_path, notifyMinBrokerIdChanged="true") as address,
        connected(*address) as client,
    ):
        own_address = f"{host}:{port}"
        await client.register(Broker(id=1, address=own_address), TOPICS, extra_fields=acting)
        async with connected(*address) as master:
            await master.register(Broker(), TOPICS, extra_fields=acting)
            assert await slave.next() == {
                "minBrokerId": "0",
                "minBrokerAddr": "10.1.1.7:10911",
                "haBrokerAddr": "10.1.1.7:10912",
            }

        assert await slave.next() == {
            "minBrokerId": "1",
            "minBrokerAddr": own_address,
            "offlineBrokerAddr": "10.1.1.7:10911",
        }
        assert slave.heard.empty()


async def test_a_member_that_cannot_be_told_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    acting = {"enableActingMaster": "true"}
    async with served(tmp_path, notifyMinBrokerIdChanged="true") as client:
        for number, member in enumerate(
            ["no-port", "127.0.0.1:99999", "127.0.0.1:1", "[::1]:1", "x" * 300 + ":1"]
        ):
            slave = Broker(name=f"broker-{number}", id=1, address=member)
            master = Broker(name=f"broker-{number}", address=f"10.0.0.{number}:1")
            await client.register(slave, TOPICS, extra_fields=acting)
            await client.register(master, TOPICS, extra_fields=acting)

        async with asyncio.timeout(DEADLINE_S):
            while caplog.text.count("min_id_notice_failed") < 5:
                await client.route("T1")


async def test_a_stopping_server_does_not_report_its_brokers_as_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    slave = Listener()
    acting = {"enableActingMaster": "true"}
    async with listening(Endpoint(slave.registry), "127.0.0.1", 0) as (host, port):
        async with name_server(tmp_path, notifyMinBrokerIdChanged="true") as address:
            members = [RawClient(await connect(*address, Endpoint())) for _ in range(2)]
            brokers = [Broker(), Broker(id=1, address=f"{host}:{port}")]
            for member, broker in zip(members, brokers, strict=True):
                await member.register(broker, TOPICS, extra_fields=acting)
        for member in members:
            await asyncio.wait_for(member.connection.closed, DEADLINE_S)

    assert slave.heard.empty()
    assert "broker_left" not in caplog.text


async def test_the_key_value_table_is_logged_early_and_then_regularly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (server.KV_LOG_FIRST_AFTER_S, server.KV_LOG_INTERVAL_S) == (60.0, 600.0)
    monkeypatch.setattr(server, "KV_LOG_FIRST_AFTER_S", 0.0)
    monkeypatch.setattr(server, "KV_LOG_INTERVAL_S", 0.01)
    caplog.set_level("INFO")
    async with served(tmp_path) as client:
        await client.call(RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": "k", "value": "v"})
        caplog.clear()

        async with asyncio.timeout(DEADLINE_S):
            while caplog.text.count("kv_entry namespace=n key=k value=v") < 2:
                await client.call(RequestCode.GET_BROKER_CLUSTER_INFO)

    assert "kv_table namespaces=1" in caplog.text
