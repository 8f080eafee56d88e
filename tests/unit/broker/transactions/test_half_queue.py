"""Half messages go in, are ended, and are known after a restart."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from emberq.broker.transactions.half_ledger import HalfState
from emberq.broker.transactions.half_messages import asked_about, parked
from emberq.model.system_topics import (
    HALF_OPERATION_TOPIC,
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    TRANSACTION_GROUP,
)
from emberq.record.properties import decode_properties
from emberq.store.admission import Obstacle
from emberq.store.results import PutStatus
from tests.support.stores import HOST, bodies_of, read_all
from tests.unit.broker.sending import Sending, sending
from tests.unit.broker.transactions.halves import end, send_half

GROUP = TRANSACTION_GROUP


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Sending]:
    with sending(tmp_path) as running:
        await running.halves.load()
        yield running


def operations(broker: Sending) -> list[bytes]:
    return bodies_of(broker.store, HALF_OPERATION_TOPIC, 0)


def flush(broker: Sending) -> None:
    """Write down all that is settled, as a running broker does in its time."""
    for _ in range(2):
        broker.halves.settle()
        durable: list[PutStatus] = []
        broker.store.when_durable(broker.store.log.end, durable.append)
        while not durable:
            broker.store.poll()
        broker.halves.settle()


def offsets(broker: Sending) -> tuple[int, int]:
    query = broker.offsets.query
    return query(GROUP, HALF_TOPIC, 0), query(GROUP, HALF_OPERATION_TOPIC, 0)


def test_a_half_message_waits_out_of_sight(broker: Sending) -> None:
    half = send_half(broker, KEYS="k", UNIQ_KEY="U1")

    properties = decode_properties(half.properties)
    assert (half.topic, half.queue_id, half.queue_offset) == (HALF_TOPIC, 0, 0)
    assert half.system_flag == 0
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("Orders", "2")
    assert properties["__transactionId__"] == "U1"
    assert bodies_of(broker.store, "Orders", 2) == []
    assert broker.counts.count("Orders") == 1


def test_a_commit_delivers_the_message_and_marks_its_half(broker: Sending) -> None:
    half = send_half(broker, b"paid", TAGS="t")

    assert end(broker.halves, half) is PutStatus.PUT_OK

    [record] = read_all(broker.store, "Orders", 2)
    properties = decode_properties(record.properties)
    assert (record.body, record.system_flag, record.prepared_offset) == (
        b"paid",
        8,
        half.log_offset,
    )
    assert properties["TRAN_MSG"] == "true"
    assert not {"REAL_TOPIC", "REAL_QID"} & properties.keys()
    [operation] = read_all(broker.store, HALF_OPERATION_TOPIC, 0)
    assert (operation.body, operation.born_host) == (b"0,", HOST)
    assert operation.properties == b"WAIT\x01true\x02TAGS\x01d\x02"
    assert broker.counts.count("Orders") == 0


def test_a_rollback_only_marks_it(broker: Sending) -> None:
    end(broker.halves, send_half(broker), is_commit=False)

    assert bodies_of(broker.store, "Orders", 2) == []
    assert operations(broker) == [b"0,"]


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_first_end_counts(broker: Sending, is_commit: bool) -> None:
    half = send_half(broker)

    end(broker.halves, half, is_commit=is_commit)
    flush(broker)  # its place in the queue is passed
    for again in (True, False):
        assert end(broker.halves, half, is_commit=again) is PutStatus.PUT_OK

    assert len(bodies_of(broker.store, "Orders", 2)) == is_commit
    assert operations(broker) == [b"0,"]


def test_an_end_counts_for_the_copy_that_was_made_meanwhile(broker: Sending) -> None:
    half = send_half(broker)
    copied = broker.halves.copy(half, asked_about(half, decode_properties(half.properties)))
    [_, copy] = read_all(broker.store, HALF_TOPIC, 0)

    end(broker.halves, half)
    end(broker.halves, copy)

    assert copied.queue_offset == copy.queue_offset == 1
    assert len(bodies_of(broker.store, "Orders", 2)) == 1
    assert operations(broker) == [b"1,"]


def test_a_delay_counts_when_the_message_is_committed(broker: Sending) -> None:
    half = send_half(broker, DELAY="2")

    assert half.topic == HALF_TOPIC
    end(broker.halves, half)

    [record] = read_all(broker.store, SCHEDULE_TOPIC, 1)
    assert decode_properties(record.properties)["REAL_TOPIC"] == "Orders"


def test_a_message_that_was_given_up_may_still_be_committed(broker: Sending) -> None:
    half = send_half(broker)
    broker.halves.park(half, parked(half, decode_properties(half.properties)))

    end(broker.halves, half)
    end(broker.halves, half)

    assert len(bodies_of(broker.store, "Orders", 2)) == 1
    assert broker.counts.count("Orders") == 0


def test_a_store_that_takes_nothing_leaves_the_message_open(broker: Sending) -> None:
    half = send_half(broker)
    broker.store.admission.hinder(Obstacle.DISK_FULL, "full")

    assert not end(broker.halves, half).is_stored
    assert broker.halves.ledger.state(0) is HalfState.OPEN

    broker.store.admission.clear(Obstacle.DISK_FULL)
    assert end(broker.halves, half) is PutStatus.PUT_OK
    assert len(bodies_of(broker.store, "Orders", 2)) == 1


def test_marks_that_the_store_does_not_take_are_written_later(broker: Sending) -> None:
    half = send_half(broker)
    broker.store.admission.hinder(Obstacle.DISK_FULL, "full")
    end(broker.halves, half, is_commit=False)
    flush_offsets = offsets(broker)
    broker.halves.settle()
    assert offsets(broker) == flush_offsets

    broker.store.admission.clear(Obstacle.DISK_FULL)
    flush(broker)

    assert operations(broker) == [b"0,"]
    assert offsets(broker) == (1, 1)


def test_offsets_are_written_down_only_when_the_log_is_durable(broker: Sending) -> None:
    halves = [send_half(broker) for _ in range(3)]
    for half in (halves[0], halves[2]):
        end(broker.halves, half)

    broker.halves.settle()
    assert offsets(broker) == (-1, -1)
    flush(broker)

    assert offsets(broker) == (1, 1)  # the second is open, and the second mark still needed
    end(broker.halves, halves[1], is_commit=False)
    flush(broker)
    assert offsets(broker) == (3, 3)


async def test_a_restart_knows_what_was_ended(broker: Sending) -> None:
    halves = [send_half(broker, b"m%d" % number) for number in range(6)]
    end(broker.halves, halves[0])
    flush(broker)
    for number in (2, 3, 5):
        end(broker.halves, halves[number], is_commit=number == 3)

    again = broker.new_half_queue()
    await again.load()

    states = [again.ledger.state(offset) for offset in range(6)]
    assert again.ledger.base == 1
    assert states[1:] == [
        HalfState.OPEN,
        HalfState.ENDED,
        HalfState.ENDED,
        HalfState.OPEN,
        HalfState.ENDED,
    ]
    assert (
        again.end(halves[2], decode_properties(halves[2].properties), is_commit=True)
        is PutStatus.PUT_OK
    )
    assert bodies_of(broker.store, "Orders", 2) == [b"m0", b"m3"]  # the rollback stands


async def test_marks_of_both_lines_are_read(broker: Sending) -> None:
    for _ in range(4):
        send_half(broker)
    for body, tags in ((b"0", "d"), (b"2,3,", "d"), (b"1,", "x"), (b"99,", "d")):
        broker.store.put(
            HALF_OPERATION_TOPIC, 0, body, b"TAGS\x01" + tags.encode(), born_host=HOST, tags=tags
        )

    again = broker.new_half_queue()
    await again.load()

    states = [again.ledger.state(offset) for offset in range(4)]
    assert states == [HalfState.ENDED, HalfState.OPEN, HalfState.ENDED, HalfState.ENDED]
    assert again.ledger.end == 4


async def test_a_service_that_begins_anew_reads_nothing_twice(broker: Sending) -> None:
    end(broker.halves, send_half(broker))
    flush(broker)

    await broker.halves.load()
    flush(broker)

    assert offsets(broker) == (1, 1)


async def test_many_marks_are_read_in_pieces(broker: Sending) -> None:
    for number in range(1_500):
        end(broker.halves, send_half(broker), is_commit=number % 2 == 0)

    again = broker.new_half_queue()
    await again.load()

    assert again.ledger.advance() == 1_500
    again.settle()
    assert again.is_settled is False
