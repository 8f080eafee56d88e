"""The order in which a broker stops, and what its clients see of it."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from emberq.broker.persistence import Persistence
from emberq.broker.registration import Registration
from emberq.broker.server import running_broker
from emberq.cli import standalone
from emberq.errors import StoreError
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, answer, new_request
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from emberq.store.message_store import MessageStore
from emberq.testing.first_message import pull_one, send
from emberq.testing.local_nameserver import connected
from tests.support.brokers import broker_config
from tests.support.stores import crash
from tests.support.waiting import DEADLINE_S, until

pytestmark = pytest.mark.integration

# A code that no broker answers, for a handler of the test's own.
SLOW = RequestCode.REGISTER_BROKER


async def test_a_stop_leaves_answers_delivers_saves_and_closes_in_that_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    may_answer = asyncio.Event()

    async def slow(command: Command, _: Connection) -> Command:
        events.append("asked")
        await may_answer.wait()
        events.append("answered")
        return answer(command)

    async def service() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            events.append("services stopped")

    unregister, save, close = Registration.close, Persistence.close, MessageStore.close

    async def unregistering(self: Registration) -> None:
        events.append("unregistered")
        await unregister(self)
        asyncio.get_running_loop().call_later(0.05, may_answer.set)

    async def saving(self: Persistence) -> None:
        events.append("tables saved")
        await save(self)

    def closing(self: MessageStore) -> None:
        events.append("store closed")
        close(self)

    monkeypatch.setattr(Registration, "close", unregistering)
    monkeypatch.setattr(Persistence, "close", saving)
    monkeypatch.setattr(MessageStore, "close", closing)
    add = "emberq.broker.server.add_conversations"
    monkeypatch.setattr(add, lambda broker: broker.services.append(service))

    async with running_broker(broker_config(tmp_path)) as broker:
        broker.registry.add(SLOW, slow)
        client = await connect(broker.addresses.ip, broker.addresses.port, Endpoint())
        asking = asyncio.ensure_future(client.call(new_request(SLOW), DEADLINE_S))
        await until(lambda: events == ["asked"])
    response = await asking

    assert response.code == 0
    assert events == [
        "asked",
        "unregistered",
        "answered",
        "services stopped",
        "tables saved",
        "store closed",
    ]


async def test_a_start_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise StoreError("no")

    with monkeypatch.context() as patch:
        patch.setattr("emberq.broker.server.add_conversations", fail)
        with pytest.raises(StoreError, match="no"):
            async with running_broker(broker_config(tmp_path)):
                pytest.fail("it is running")

    async with running_broker(broker_config(tmp_path)) as broker:
        assert broker.addresses.port
    assert not (tmp_path / "store" / "abort").exists()


async def test_a_topic_that_a_crash_took_from_the_table_is_back_with_its_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = broker_config(tmp_path)
    with monkeypatch.context() as patch:
        # A kill between the send and the write of the table: neither is written at the stop.
        patch.setattr(Persistence, "close", _nothing)
        patch.setattr("emberq.broker.persistence.Persistence._mark", lambda *_: None)
        patch.setattr("emberq.store.message_store.MessageStore.close", crash)
        async with (
            running_broker(config) as broker,
            connected(broker.addresses.ip, broker.addresses.port) as client,
        ):
            sent = await send(client, "orders", b"first")
    assert not (tmp_path / "store/config/topics.json").exists()

    async with (
        running_broker(config) as again,
        connected(again.addresses.ip, again.addresses.port) as client,
    ):
        record = await pull_one(client, sent)

    assert bytes(record.body) == b"first"


async def _nothing(_: object) -> None:
    """Instead of saving."""


@pytest.fixture
def long_recovery(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Opening a store takes for ever; set when it has begun, and when it has ended."""
    begun, ended = threading.Event(), threading.Event()

    def open_for_ever(store: MessageStore, progress: Callable[[int, int], None]) -> None:
        try:
            while True:
                progress(1, 2)
                begun.set()
        finally:
            ended.set()

    monkeypatch.setattr(MessageStore, "open", open_for_ever)
    return begun, ended


async def test_a_stop_does_not_wait_for_a_long_recovery(
    tmp_path: Path, long_recovery: tuple[threading.Event, threading.Event]
) -> None:
    begun, ended = long_recovery

    async def start() -> None:
        async with running_broker(broker_config(tmp_path)):
            raise AssertionError("it never starts")

    starting = asyncio.create_task(start())
    await until(begun.is_set)
    starting.cancel()

    await until(starting.done)
    await until(ended.is_set)
    assert starting.cancelled()


async def test_neither_does_a_stop_of_name_server_and_broker_in_one_process(
    tmp_path: Path,
    long_recovery: tuple[threading.Event, threading.Event],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    begun, ended = long_recovery
    stopped = asyncio.Event()
    monkeypatch.setattr(standalone, "stop_requested", lambda: stopped)
    serving = asyncio.create_task(standalone._serve(tmp_path, "127.0.0.1", 0, [0], "warning"))
    await until(begun.is_set)
    stopped.set()

    await until(serving.done)
    await until(ended.is_set)
    assert serving.exception() is None
    assert "before it was started" in capsys.readouterr().out
