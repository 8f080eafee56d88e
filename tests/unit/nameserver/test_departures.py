import asyncio
from typing import cast

import pytest

from emberq.model.topic import TopicConfig
from emberq.nameserver.departures import Departures
from emberq.nameserver.route_table import Registration, RouteTable, Unregistration
from emberq.remoting.connection import Connection
from tests.unit.nameserver.serving import Peer


def registration(name: str) -> Registration:
    topics = {topic: TopicConfig(name=topic) for topic in ("T1", "T2")}
    return Registration(
        cluster="C1", broker_name=name, broker_id=0, address=f"{name}:1", topics=topics
    )


def leaving(name: str) -> Unregistration:
    return Unregistration(cluster="C1", broker_name=name, broker_id=0, address=f"{name}:1")


class CountingTable(RouteTable):
    walks = 0

    def unregister(self, leaving: object) -> None:
        self.walks += 1
        super().unregister(leaving)  # type: ignore[arg-type]  # passed on as it came


async def next_turn() -> None:
    done = asyncio.Event()
    asyncio.get_running_loop().call_soon(done.set)
    await done.wait()


async def test_brokers_that_leave_together_cost_one_walk() -> None:
    table = CountingTable()
    departures = Departures(table, lambda: 10)
    for name in "abc":
        table.register(registration(name), name, 0)

    assert all(departures.add([leaving(name)], "unregistered") for name in "abc")
    assert len(table.brokers()) == 3
    await next_turn()

    assert table.brokers() == {}
    assert table.walks == 1


async def test_above_the_capacity_a_request_is_refused() -> None:
    table = RouteTable()
    departures = Departures(table, lambda: 2)
    assert departures.add([leaving("a"), leaving("b")], "unregistered")

    assert not departures.add([leaving("c")], "unregistered")

    await next_turn()
    assert departures.add([leaving("c")], "unregistered")


async def test_closed_connections_count_even_above_the_capacity(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    table = RouteTable()
    departures = Departures(table, lambda: 1)
    peer = Peer()
    peer.session = departures
    for name in "abc":
        table.register(registration(name), peer, 0)
    departures.add([leaving("a")], "unregistered")

    departures.connection_closed(cast(Connection, peer))
    await next_turn()

    assert table.brokers() == {}
    assert "broker_left name=c id=0 address=c:1 cluster=C1 reason=connection_closed" in caplog.text


async def test_connections_of_clients_are_of_no_interest() -> None:
    table = RouteTable()
    peer = Peer()
    table.register(registration("a"), peer, 0)

    Departures(table, lambda: 10).connection_closed(cast(Connection, peer))
    await next_turn()

    assert list(table.brokers()) == ["a"]


async def test_silent_brokers_leave() -> None:
    table = RouteTable()
    departures = Departures(table, lambda: 10)
    table.register(registration("a"), "x", now_ms=0)
    table.register(registration("b"), "y", now_ms=100)

    departures.expire(now_ms=120_001)
    await next_turn()

    assert list(table.brokers()) == ["b"]


async def test_who_registers_again_in_the_same_turn_stays() -> None:
    table = RouteTable()
    departures = Departures(table, lambda: 10)
    table.register(registration("a"), "old", 0)

    departures.add([leaving("a")], "connection_closed")
    departures.settle()
    table.register(registration("a"), "new", 0)
    await next_turn()

    assert list(table.brokers()) == ["a"]
