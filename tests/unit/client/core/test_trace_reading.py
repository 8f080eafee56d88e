"""Trace records of all clients are read."""

import pytest

from emberq.client.core.trace_reading import (
    TIME_MAX_MS,
    ConsumeBegan,
    ConsumeEnded,
    Published,
    Recalled,
    TransactionEnded,
    read_trace,
)
from emberq.client.core.trace_records import Consumed, Ended, Sent

HOST = "192.0.2.1:4000"


def record(*fields: object) -> str:
    return "\x01".join(map(str, fields)) + "\x02"


PUB = (*("Pub", 1_700_000_000_123, "R", "g", "T", "ID1", "tag", "k1 k2", "10.0.0.1:10911"), 5, 7, 1)


def test_what_our_client_writes_is_read() -> None:
    sent = Sent(
        at_ms=1,
        region="R",
        group="g",
        topic="T",
        message_id="A,B",
        tags=None,
        keys="k",
        broker_address="b:1",
        body_size=2,
        cost_ms=3,
        message_type=0,
        offset_message_id="O",
    )
    consumed = Consumed(
        started_at_ms=10,
        ended_at_ms=15,
        region="R",
        group="c",
        request_id="Q",
        message_id="A",
        retry_times=2,
        keys=None,
        cost_ms=5,
        code=4,
    )
    ended = Ended(
        at_ms=4,
        region="R",
        group="g",
        topic="T",
        message_id="A",
        tags="t",
        keys="k",
        broker_address="b:1",
        transaction_id="A",
        outcome=True,
        is_from_check=True,
    )

    pub, end, began, done = read_trace(sent.text() + ended.text() + consumed.text(), HOST)

    assert isinstance(pub, Published)
    assert (pub.message_ids, pub.tags, pub.message_type) == (["A", "B"], None, "normal")
    assert (pub.is_success, pub.offset_message_id, pub.client_host) == (True, "O", HOST)
    assert isinstance(end, TransactionEnded)
    assert (end.state, end.is_from_check, end.transaction_id) == ("COMMIT_MESSAGE", True, "A")
    assert isinstance(began, ConsumeBegan)
    assert (began.at_ms, began.retry_times, began.request_id) == (10, 2, "Q")
    assert isinstance(done, ConsumeEnded)
    assert (done.at_ms, done.group, done.cost_ms, done.result) == (15, "c", 5, "failed")
    assert done.is_success is False


@pytest.mark.parametrize(
    ("rest", "offset_id", "host"),
    [
        (("true",), None, HOST),
        (("OFF", "true"), "OFF", HOST),
        (("OFF", "true", "10.9.9.9"), "OFF", "10.9.9.9"),
    ],
)
def test_sends_of_all_ages_are_read(rest: tuple[str, ...], offset_id: str, host: str) -> None:
    [pub] = read_trace(record(*PUB, *rest), HOST)

    assert isinstance(pub, Published)
    assert (pub.offset_message_id, pub.is_success, pub.client_host) == (offset_id, True, host)
    assert (pub.keys, pub.message_type, pub.cost_ms) == (["k1", "k2"], "half", 7)


@pytest.mark.parametrize(
    ("rest", "result", "group"),
    [((), None, None), (("3",), "returned null", None), (("0", "99", "g"), "success", "g")],
)
def test_ends_of_consuming_of_all_ages_are_read(
    rest: tuple[str, ...], result: str, group: str
) -> None:
    [done] = read_trace(record("SubAfter", "Q", "ID1", 4, "true", "k1", *rest))

    assert isinstance(done, ConsumeEnded)
    assert (done.result, done.group, done.is_success) == (result, group, True)


def test_recalls_are_read() -> None:
    [recalled] = read_trace(record("Recall", 1, "R", "g", "T", "ID1", "false"))

    assert isinstance(recalled, Recalled)
    assert recalled.is_success is False


def test_what_cannot_be_read_is_left_out() -> None:
    text = record("Pub", "yesterday") + record("New", 1) + "junk" + "\x02" + record(*PUB, "true")

    [pub] = read_trace(text)

    assert isinstance(pub, Published)


@pytest.mark.parametrize(
    ("place", "number"),
    [(1, 10**20), (1, -1), (1, TIME_MAX_MS + 1), (9, 10**20), (9, 2**31), (10, -(2**31) - 1)],
)
def test_a_record_with_a_number_that_no_client_means_is_left_out(place: int, number: int) -> None:
    fields = list(PUB)
    fields[place] = number

    (kept,) = read_trace(record(*fields) + record(*PUB))

    assert isinstance(kept, Published)
    assert kept.at_ms == PUB[1]
