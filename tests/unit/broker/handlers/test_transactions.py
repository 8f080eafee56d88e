"""Ends of transactions, and half messages that are asked about again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emberq.broker.cold_reads import ColdReads
from emberq.broker.handlers.transactions import TransactionHandlers
from emberq.broker.transactions.half_messages import parked
from emberq.errors import ProtocolError
from emberq.model.system_topics import HALF_TOPIC
from emberq.protocol.command import Command, new_request
from emberq.record.message_id import make_offset_id
from emberq.record.properties import decode_properties
from emberq.record.record import Record
from emberq.store.admission import Obstacle
from tests.support.stores import HOST, bodies_of, read_all
from tests.unit.broker.peers import Peer, ask
from tests.unit.broker.sending import Sending, sending
from tests.unit.broker.transactions.halves import send_half

END, RESUME = 37, 323
COMMIT, ROLLBACK = 8, 12


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Sending]:
    cold_reads = ColdReads()
    with sending(tmp_path) as running:
        TransactionHandlers(
            settings=running.settings,
            store=running.store,
            halves=running.halves,
            cold_reads=cold_reads,
            now_ms=running.clock,
        ).add_to(running.registry)
        yield running
    cold_reads.close()


def end_request(half: Record, kind: int = COMMIT, **changes: Any) -> Command:
    fields = {
        "producerGroup": "PG",
        "tranStateTableOffset": str(half.queue_offset),
        "commitLogOffset": str(half.log_offset),
        "commitOrRollback": str(kind),
        "msgId": "U1",
        **changes,
    }
    return new_request(END, {name: text for name, text in fields.items() if text is not None})


def test_ends_are_answered_as_official_brokers_do(broker: Sending) -> None:
    first, second = send_half(broker, b"one"), send_half(broker, b"two")

    committed = broker.serve(end_request(first))
    rolled_back = broker.serve(end_request(second, ROLLBACK))

    assert committed is not None
    assert rolled_back is not None
    assert (committed.code, committed.remark) == (0, None)
    assert (rolled_back.code, rolled_back.remark) == (0, "not set any response code")
    assert bodies_of(broker.store, "Orders", 2) == [b"one"]


def test_who_does_not_know_is_not_answered(broker: Sending) -> None:
    assert broker.serve(end_request(send_half(broker), 0)) is None
    assert bodies_of(broker.store, "Orders", 2) == []


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"producerGroup": "other"}, "The producer group wrong"),
        ({"producerGroup": None}, "The producer group wrong"),
        ({"tranStateTableOffset": "7"}, "The transaction state table offset wrong"),
        ({"tranStateTableOffset": None}, "The transaction state table offset wrong"),
        ({"commitLogOffset": "999999"}, "Find prepared transaction message failed"),
        ({"commitLogOffset": "-1"}, "Find prepared transaction message failed"),
    ],
)
def test_an_end_of_something_else_is_refused(broker: Sending, changes: Any, remark: str) -> None:
    half = send_half(broker)

    response = broker.serve(end_request(half, **changes))

    assert response is not None
    assert (response.code, response.remark) == (1, remark)
    assert bodies_of(broker.store, "Orders", 2) == []


@pytest.mark.parametrize(
    "changes",
    [{"commitOrRollback": "4"}, {"commitOrRollback": "x"}, {"commitLogOffset": "x"}],
)
def test_an_end_that_means_nothing_is_an_error(broker: Sending, changes: Any) -> None:
    with pytest.raises(ProtocolError):
        broker.serve(end_request(send_half(broker), **changes))


def test_a_plain_message_cannot_be_committed(broker: Sending) -> None:
    plain = broker.record_of(broker.send(properties={"PGROUP": "PG"}))

    response = broker.serve(end_request(plain))

    assert response is not None
    assert response.code == 1
    assert len(read_all(broker.store, "Orders", 0)) == 1


def test_after_its_own_time_only_an_answer_ends_it(broker: Sending) -> None:
    half = send_half(broker, CHECK_IMMUNITY_TIME_IN_SECONDS="10")
    broker.clock.now_ms += 10_001

    late = broker.serve(end_request(half))
    answered = broker.serve(end_request(half, fromTransactionCheck="true"))

    assert late is not None
    assert answered is not None
    assert (late.code, answered.code) == (604, 0)


def test_a_store_that_takes_nothing_says_so(broker: Sending) -> None:
    half = send_half(broker)
    broker.store.admission.hinder(Obstacle.DISK_FULL, "full")

    response = broker.serve(end_request(half))

    assert response is not None
    assert (response.code, response.remark) == (14, "Service not available now.")


async def test_a_message_that_was_given_up_is_asked_about_again(broker: Sending) -> None:
    half = send_half(broker)
    kept = broker.halves.park(half, parked(half, decode_properties(half.properties)))

    message_id = make_offset_id(HOST, kept.log_offset)
    response = await ask(broker.registry, Peer(), RESUME, {"msgId": message_id})

    assert (response.code, response.remark) == (0, None)
    resumed = read_all(broker.store, HALF_TOPIC, 0)[-1]
    assert decode_properties(resumed.properties)["TRANSACTION_CHECK_TIMES"] == "0"
    assert broker.counts.count("Orders") == 1
    assert broker.halves.ledger.advance() == resumed.queue_offset == 1


async def test_an_open_message_is_not_open_twice_after_it(broker: Sending) -> None:
    half = send_half(broker)

    await ask(broker.registry, Peer(), RESUME, {"msgId": make_offset_id(HOST, half.log_offset)})

    assert broker.halves.ledger.advance() == 1
    assert broker.counts.count("Orders") == 1


async def test_only_half_messages_are_asked_about_again(broker: Sending) -> None:
    plain = broker.record_of(broker.send())
    for message_id in (make_offset_id(HOST, plain.log_offset), "nonsense", None):
        fields = {} if message_id is None else {"msgId": message_id}
        response = await ask(broker.registry, Peer(), RESUME, fields)
        assert response.code == 1
        assert response.remark is not None
        assert response.remark.startswith("Exception was thrown when putting message back")
