"""What name servers hear of a broker, and when."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from emberq.broker import registration as registration_module
from emberq.broker.addresses import BrokerAddresses
from emberq.broker.config import BrokerConfig
from emberq.broker.registration import Registration
from emberq.broker.topics import Topics
from emberq.model.topic import TopicConfig
from emberq.protocol.bodies.registration import checksum_matches, decode_registration
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, answer
from emberq.remoting.connection import Connection
from emberq.remoting.server import listening
from tests.support.endpoints import endpoint_of
from tests.support.waiting import until

ADDRESSES = BrokerAddresses(ip="10.0.0.1", port=10_911, ha_ip="10.0.0.2", ha_port=10_912)


class FakeNameServer:
    """Writes down what it is told, and answers as it is told to."""

    def __init__(self) -> None:
        self.requests: list[Command] = []
        self.refuses_next = False
        self.knows_version = False
        self.order_topics = b""
        self.address = ""
        self.hold: asyncio.Event | None = None
        self.endpoint = endpoint_of(
            {
                RequestCode.REGISTER_BROKER: self.register,
                RequestCode.QUERY_DATA_VERSION: self.query,
                RequestCode.UNREGISTER_BROKER: self.unregister,
            }
        )

    @property
    def codes(self) -> list[int]:
        return [request.code for request in self.requests]

    @property
    def tables(self) -> list[dict[str, TopicConfig]]:
        return [
            decode_registration(
                request.body,
                is_compressed=(request.fields or {})["compressed"] == "true",
                version=request.version,
            ).topic_table.topics
            for request in self.requests
            if request.code == RequestCode.REGISTER_BROKER
        ]

    async def register(self, command: Command, _: Connection) -> Command:
        self.requests.append(command)
        if self.hold is not None:
            await self.hold.wait()
        if self.refuses_next:
            self.refuses_next = False
            return answer(command, 1, "register broker failed", {})
        return answer(command, fields={}, body=self.order_topics)

    def query(self, command: Command, _: Connection) -> Command:
        self.requests.append(command)
        return answer(command, fields={"changed": str(not self.knows_version).lower()})

    def unregister(self, command: Command, _: Connection) -> Command:
        self.requests.append(command)
        return answer(command)


@asynccontextmanager
async def name_server(port: int = 0) -> AsyncIterator[FakeNameServer]:
    server = FakeNameServer()
    async with listening(server.endpoint, "127.0.0.1", port) as (host, listen_port):
        server.address = f"{host}:{listen_port}"
        yield server


class Broker:
    """The parts of a broker that registration sees."""

    def __init__(self, *name_servers: str, **config: Any) -> None:
        self.config = BrokerConfig(
            broker_name="broker-a", namesrv_addr=";".join(name_servers), **config
        )
        self.topics = Topics(self.config, now_ms=lambda: 1_000)
        self.registration = Registration(self.topics, lambda: self.config, ADDRESSES)
        self.topics.on_change(self.registration.topics_changed)

    async def __aenter__(self) -> "Broker":
        await self.registration.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.registration.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Periods of milliseconds."""
    monkeypatch.setattr(registration_module, "FIRST_PERIOD_S", 0.01)
    monkeypatch.setattr(registration_module, "RETRY_FIRST_S", 0.01)


async def test_every_name_server_gets_the_whole_table_at_the_start() -> None:
    async with (
        name_server() as one,
        name_server() as two,
        Broker(one.address, two.address) as broker,
    ):
        pass

    for server in (one, two):
        (table,) = server.tables
        assert table == dict(broker.topics.all())
        request = server.requests[0]
        assert request.fields == {
            "brokerName": "broker-a",
            "brokerAddr": "10.0.0.1:10911",
            "clusterName": "DefaultCluster",
            "haServerAddr": "10.0.0.2:10912",
            "brokerId": "0",
            "compressed": "false",
            "bodyCrc32": (request.fields or {})["bodyCrc32"],
            "enableActingMaster": "false",
        }
        assert checksum_matches(request.body, int(request.fields["bodyCrc32"]))


async def test_a_stop_unregisters_everywhere() -> None:
    async with name_server() as one, name_server() as two, Broker(one.address, two.address):
        pass

    for server in (one, two):
        assert server.codes[-1] == RequestCode.UNREGISTER_BROKER
        assert server.requests[-1].fields == {
            "brokerName": "broker-a",
            "brokerAddr": "10.0.0.1:10911",
            "clusterName": "DefaultCluster",
            "brokerId": "0",
        }


async def test_a_packed_registration_says_the_same() -> None:
    async with name_server() as server, Broker(server.address, compressed_register=True) as broker:
        pass

    assert server.tables == [dict(broker.topics.all())]


async def test_changes_of_one_turn_are_told_together_and_alone() -> None:
    async with name_server() as server, Broker(server.address) as broker:
        broker.topics.create_for_send("orders", "TBW102", 4)
        broker.topics.create_for_send("payments", "TBW102", 4)
        await broker.registration.settle()

        assert [sorted(table) for table in server.tables[1:]] == [["orders", "payments"]]


async def test_changes_during_a_call_wait_for_the_next_one() -> None:
    async with name_server() as server, Broker(server.address) as broker:
        server.hold = asyncio.Event()
        broker.topics.create_for_send("a", "TBW102", 4)
        await until(lambda: len(server.requests) == 2)
        for name in ("b", "c", "d"):
            broker.topics.create_for_send(name, "TBW102", 4)
        server.hold.set()
        await broker.registration.settle()

        assert [sorted(table) for table in server.tables[1:]] == [["a"], ["b", "c", "d"]]


async def test_a_name_server_that_forgot_us_gets_the_whole_table() -> None:
    async with name_server() as server, Broker(server.address) as broker:
        server.refuses_next = True
        broker.topics.create_for_send("orders", "TBW102", 4)
        await broker.registration.settle()

        assert [len(table) for table in server.tables] == [15, 1, 16]


async def test_a_table_for_many_is_told_as_a_whole() -> None:
    async with name_server() as server, Broker(server.address) as broker:
        broker.topics.new_version()
        await broker.registration.settle()

        assert [len(table) for table in server.tables] == [15, 15]


async def test_a_removed_topic_is_no_reason_to_fail() -> None:
    async with name_server() as server, Broker(server.address) as broker:
        broker.topics.create_for_send("orders", "TBW102", 4)
        broker.topics.remove("orders")
        await broker.registration.settle()

        assert server.tables[1:] == [{}]


@pytest.mark.usefixtures("quick")
async def test_the_whole_table_is_told_again_every_period() -> None:
    async with name_server() as server, Broker(server.address):
        await until(lambda: len(server.tables) >= 2)

    assert [len(table) for table in server.tables[:2]] == [15, 15]


@pytest.mark.usefixtures("quick")
async def test_without_force_an_unchanged_table_is_only_asked_about() -> None:
    async with name_server() as server:
        server.knows_version = True
        async with Broker(server.address, force_register=False):
            await until(lambda: len(server.requests) >= 2)

    assert server.codes[:2] == [RequestCode.REGISTER_BROKER, RequestCode.QUERY_DATA_VERSION]


@pytest.mark.usefixtures("quick")
async def test_without_force_a_table_that_is_not_known_is_told() -> None:
    async with name_server() as server, Broker(server.address, force_register=False):
        await until(lambda: len(server.requests) >= 3)

    assert server.codes[1:3] == [RequestCode.QUERY_DATA_VERSION, RequestCode.REGISTER_BROKER]


async def test_a_broker_that_takes_no_messages_says_so_with_every_topic() -> None:
    async with name_server() as server, Broker(server.address) as broker:
        broker.config = replace(broker.config, broker_permission=4)
        broker.topics.new_version()
        await broker.registration.settle()

        permissions = {topic.name: topic.permission for topic in server.tables[1].values()}
        assert permissions["TBW102"] == 4
        assert permissions["BenchmarkTest"] == 4
        assert permissions["rmq_sys_SYNC_BROKER_MEMBER_broker-a"] == 0


async def test_topics_that_the_name_server_calls_ordered_are_so() -> None:
    async with name_server() as server:
        server.order_topics = b'{"table":{"BenchmarkTest":"broker-a:4"}}'
        async with Broker(server.address) as broker:
            topic = broker.topics.get("BenchmarkTest")
            assert topic is not None
            assert topic.is_ordered


async def test_a_dead_name_server_delays_nothing_and_is_found_when_it_is_back(
    quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    async with name_server() as dead:
        address, port = dead.address, int(dead.address.rpartition(":")[2])
    async with name_server() as alive, Broker(alive.address, address) as broker:
        assert len(alive.tables) == 1
        broker.topics.create_for_send("orders", "TBW102", 4)
        await broker.registration.settle()
        async with name_server(port) as back:
            await until(lambda: back.tables)

            assert len(back.tables[0]) == 16

    assert caplog.text.count("registration_failed") == 1


@pytest.mark.usefixtures("quick")
async def test_a_restarted_name_server_is_told_everything_at_once() -> None:
    async with name_server() as before:
        port = int(before.address.rpartition(":")[2])
        broker = Broker(before.address)
        await broker.registration.start()
    async with name_server(port) as after:
        await until(lambda: after.tables)
        await broker.registration.close()

        assert len(after.tables[0]) == 15


async def test_a_silent_name_server_does_not_hold_up_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registration_module, "FIRST_ROUND_REST_MAX_S", 0.01)
    async with name_server() as silent, name_server() as alive:
        silent.hold = asyncio.Event()
        async with Broker(silent.address, alive.address) as broker:
            assert len(alive.tables) == 1
            silent.hold.set()
            await broker.registration.settle()


async def test_a_failure_of_our_own_does_not_end_registration(
    quick: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with name_server() as server, Broker(server.address) as broker:
        with monkeypatch.context() as patch:
            patch.setattr(Registration, "registration_of", lambda *_: 1 / 0)
            broker.topics.new_version()
            await until(lambda: "registration_broken" in caplog.text)
        count = len(server.tables)

        await until(lambda: len(server.tables) > count)


async def test_name_servers_come_and_go_with_the_configuration() -> None:
    async with (
        name_server() as old,
        name_server() as kept,
        name_server() as new,
        Broker(old.address, kept.address) as broker,
    ):
        broker.config = replace(broker.config, namesrv_addr=f"{kept.address};{new.address}")
        broker.registration.config_changed(broker.config)
        await until(lambda: new.tables and old.codes[-1] == RequestCode.UNREGISTER_BROKER)

        assert kept.codes == [RequestCode.REGISTER_BROKER]

    assert new.codes == [RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER]


async def test_a_broker_without_name_servers_runs() -> None:
    async with Broker() as broker:
        broker.topics.create_for_send("orders", "TBW102", 4)
        await broker.registration.settle()
