"""Storing messages unless they are stored: what counts as stored, on a real store."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from emberq.broker.cold_reads import ColdReads
from emberq.broker.handlers import send_once
from emberq.broker.handlers.send_once import SendOnceHandler
from emberq.errors import RequestRejected
from emberq.protocol.codes import EmberqCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.frame import parse_frame
from emberq.record.batch import encode_batch_element
from emberq.remoting.registry import Answer
from emberq.store.results import PutStatus
from tests.support.stores import SYNC, bodies_of
from tests.support.waiting import until
from tests.unit.broker.sending import Peer, Sending, send_request, sending

TOPIC = "Orders"
DEADLINE_S = 10.0


class OncePeer(Peer):
    """A connection whose requests are answered later."""

    is_closed = False

    def answer_with(self, request: Command, make: Callable[[], Answer]) -> None:
        try:
            result = make()
        except RequestRejected as error:
            result = answer(request, error.code, error.remark)
        assert not isinstance(result, list), "these have no answers in parts"
        if result is not None:
            self.answered.append(parse_frame(result) if isinstance(result, bytes) else result)


class Once:
    """A broker's way of send-once requests."""

    def __init__(self, broker: Sending, reads: ColdReads) -> None:
        self.broker = broker
        self.store = broker.store
        self._handler = SendOnceHandler(
            store=broker.store, send=broker.handler.send, cold_reads=reads
        )

    async def send(self, *ids: str, topic: str = TOPIC, queue_id: int = 0) -> Command:
        """The answer to messages whose bodies are their ids."""
        return await self.answer_to(self.begin(*ids, topic=topic, queue_id=queue_id))

    def begin(self, *ids: str, topic: str = TOPIC, queue_id: int = 0) -> OncePeer:
        """Send them, and wait for nothing."""
        peer = OncePeer()
        body = b"".join(
            encode_batch_element(each.encode(), f"UNIQ_KEY\x01{each}\x02WAIT\x01true\x02".encode())
            for each in ids
        )
        request = send_request(topic, body, code=EmberqCode.SEND_ONCE, queue_id=queue_id)  # type: ignore[arg-type] # a code of our own

        connection: Any = peer
        assert self._handler.send_once(request, connection) is None
        return peer

    async def answer_to(self, peer: OncePeer) -> Command:
        def is_answered() -> bool:
            self.store.poll()
            return bool(peer.answered)

        await until(is_answered)
        return peer.answered[0]


@contextmanager
def sending_once(root: Path, **store_changes: Any) -> Iterator[Once]:
    reads = ColdReads(1)
    with sending(root, **store_changes) as broker:
        yield Once(broker, reads)
        reads.close()


@pytest.fixture
def once(tmp_path: Path) -> Iterator[Once]:
    with sending_once(tmp_path) as running:
        yield running


async def test_what_the_topic_has_is_left_out_whatever_queue_it_is_in(once: Once) -> None:
    await once.send("A", "B")

    found = await once.send("B", "C", queue_id=1)

    assert found.code == ResponseCode.SUCCESS
    assert bodies_of(once.store) == [b"A", b"B"]
    assert bodies_of(once.store, queue_id=1) == [b"C"]


async def test_messages_of_a_topic_that_was_deleted_are_not_there(once: Once) -> None:
    await once.send("A", "B")
    once.store.delete_topics([TOPIC])

    await once.send("A", "B", "C")

    assert bodies_of(once.store) == [b"A", b"B", b"C"]


async def test_another_message_in_the_place_of_a_deleted_one_does_not_stand_for_it(
    once: Once,
) -> None:
    await once.send("A", "B")
    once.store.delete_topics([TOPIC])
    await once.send("C", "D")

    await once.send("A")
    await once.send("A")

    assert bodies_of(once.store) == [b"C", b"D", b"A"]


async def test_what_is_in_one_queue_counts_though_another_one_is_new(once: Once) -> None:
    for queue_id in (0, 1):
        await once.send(f"A{queue_id}", queue_id=queue_id)
    queue = once.store.queues.get(TOPIC, 0)
    assert queue is not None
    once.store.queues.remove(queue)

    await once.send("A0", "A1")

    assert bodies_of(once.store) == [b"A0"]
    assert bodies_of(once.store, queue_id=1) == [b"A1"]


async def test_what_is_there_counts_after_a_restart(tmp_path: Path) -> None:
    with sending_once(tmp_path) as before:
        await before.send("A")

    with sending_once(tmp_path) as again:
        await again.send("A")

        assert bodies_of(again.store) == [b"A"]


# Requests that wait for their turn


@contextmanager
def held_up(once: Once, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """While this lasts no message is found, nor missed."""
    may_go_on = Event()
    find = once.store.find_by_key

    def held(*asked: Any) -> Any:
        assert may_go_on.wait(DEADLINE_S)
        return find(*asked)

    monkeypatch.setattr(once.store, "find_by_key", held)
    try:
        yield
    finally:
        may_go_on.set()


@pytest.mark.parametrize("is_closed", [False, True])
async def test_what_its_sender_has_given_up_is_neither_looked_up_nor_stored(
    once: Once, monkeypatch: pytest.MonkeyPatch, is_closed: bool
) -> None:
    with held_up(once, monkeypatch):
        first, late = once.begin("A"), once.begin("B")
        late.is_closed = is_closed
        if not is_closed:
            monkeypatch.setattr(send_once, "TURN_WAIT_MAX_S", 0.0)
    found = await once.answer_to(late)
    monkeypatch.setattr(send_once, "TURN_WAIT_MAX_S", 10.0)

    assert (await once.answer_to(first)).code == ResponseCode.SUCCESS
    assert found.code == ResponseCode.SYSTEM_BUSY
    assert late.requests_in_flight == 0
    assert (await once.send("C")).code == ResponseCode.SUCCESS
    assert bodies_of(once.store) == [b"A", b"C"]


async def test_what_waits_has_a_limit_in_bytes_and_one_request_is_always_taken(
    once: Once, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_once, "WAITING_MAX_BYTES", 1)
    with held_up(once, monkeypatch):
        first, second = once.begin("A"), once.begin("B")
        with pytest.raises(RequestRejected, match="too many sends wait"):
            once.begin("C")

    for peer in (first, second):
        assert (await once.answer_to(peer)).code == ResponseCode.SUCCESS
    assert (await once.send("C")).code == ResponseCode.SUCCESS


async def test_who_repeats_messages_that_are_not_on_the_disk_in_time_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sending_once(tmp_path, **SYNC) as once:
        await once.send("A")

        def late(_: int, done: Callable[[PutStatus], None]) -> None:
            done(PutStatus.FLUSH_DISK_TIMEOUT)

        monkeypatch.setattr(once.store, "when_durable", late)
        found = await once.send("A")

        assert found.code == ResponseCode.FLUSH_DISK_TIMEOUT
        assert bodies_of(once.store) == [b"A"]
