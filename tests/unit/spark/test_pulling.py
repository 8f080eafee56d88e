"""What a task does about messages, queues and topics that are gone."""

from collections.abc import Iterator
from typing import Any

import pytest

from emberq.errors import BrokerError, DataLost
from emberq.model.queue import MessageQueue
from emberq.protocol.codes import ResponseCode
from emberq.record.decode import iter_records
from emberq.spark.options import parse_source
from emberq.spark.planning import QueueSlice
from emberq.spark.pulling import is_loss, pulled_in_turn
from tests.unit.spark.fake_brokers import FakeBrokers, linked

A, KEPT = MessageQueue("broker-a", 0, "t"), MessageQueue("broker-a", 0, "kept")
GONE, GONE_TOO = MessageQueue("broker-a", 0, "gone"), MessageQueue("broker-a", 1, "gone")


@pytest.fixture
def brokers() -> Iterator[FakeBrokers]:
    made = FakeBrokers()
    made.add(A, count=10)
    made.add(KEPT, count=3)
    with linked(made):
        yield made


def offsets_of(*slices: QueueSlice, **options: Any) -> list[list[int]]:
    chosen = parse_source({"subscribe": "t", "retries": "0", **options})
    return [
        [record.queue_offset for content in contents for record in iter_records(content)]
        for _, contents in pulled_in_turn(slices, chosen)
    ]


def test_a_pull_takes_no_longer_than_it_may(brokers: FakeBrokers) -> None:
    offsets_of(QueueSlice(A, 0, 8), **{"pull.timeoutMs": "1500"})

    assert brokers.timeouts_s == {1.5}


def test_what_is_gone_is_passed_over_where_that_is_allowed(brokers: FakeBrokers) -> None:
    brokers.queues_there[A].expire_to(4)

    assert offsets_of(QueueSlice(A, 2, 8), failOnDataLoss="false") == [[4, 5, 6, 7]]
    assert offsets_of(QueueSlice(A, 2, 4), failOnDataLoss="false") == [[]]


def test_what_is_gone_is_an_error_that_says_what_and_what_to_do(brokers: FakeBrokers) -> None:
    brokers.queues_there[A].expire_to(4)

    with pytest.raises(
        DataLost, match=r"messages 2 to 4 of t broker-a/0 are gone .*=false goes on without them"
    ):
        offsets_of(QueueSlice(A, 2, 8))


def test_a_topic_that_was_deleted_behind_the_plan_is_such_a_loss(brokers: FakeBrokers) -> None:
    slices = QueueSlice(GONE, 5, 9), QueueSlice(GONE_TOO, 5, 9), QueueSlice(KEPT, 0, 3)

    assert offsets_of(*slices, failOnDataLoss="false") == [[], [], [0, 1, 2]]
    with pytest.raises(DataLost, match=r"messages 5 to 9 of gone broker-a/0 are gone .*=false"):
        offsets_of(*slices)


def test_so_is_one_that_was_made_anew_and_ends_in_the_range(brokers: FakeBrokers) -> None:
    assert offsets_of(QueueSlice(A, 8, 15), failOnDataLoss="false") == [[8, 9]]
    with pytest.raises(DataLost, match="messages 10 to 15 of t broker-a/0 are gone"):
        offsets_of(QueueSlice(A, 8, 15))


def test_damage_stops_a_query_with_a_filter_too_if_it_is_in_the_range(
    brokers: FakeBrokers,
) -> None:
    brokers.damaged = {3, 9}

    with pytest.raises(DataLost, match=r"messages \[3\] of t broker-a/0 are damaged; .*=false"):
        offsets_of(QueueSlice(A, 2, 8), tags="red")

    assert offsets_of(QueueSlice(A, 2, 5), tags="red", failOnDataLoss="false") == [[2, 4]]
    assert offsets_of(QueueSlice(A, 4, 8), tags="red") == [[4, 5, 6, 7]]


def test_only_a_queue_or_topic_that_is_not_there_is_a_loss() -> None:
    def answered(code: ResponseCode) -> bool:
        return is_loss(BrokerError(code, None, "broker-a"))

    assert answered(ResponseCode.TOPIC_NOT_EXIST)
    assert answered(ResponseCode.INVALID_PARAMETER)
    assert not answered(ResponseCode.NO_PERMISSION)
    assert not is_loss(ValueError())
