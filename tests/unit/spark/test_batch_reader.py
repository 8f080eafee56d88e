"""Where a batch begins and ends, and what is told of it."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from emberq.errors import ConfigError, DataLost
from emberq.model.queue import MessageQueue
from emberq.spark.batch_reader import BatchReader, slices_of
from emberq.spark.columns import chosen_columns
from emberq.spark.options import parse_source
from emberq.spark.planning import QueueSlice
from tests.unit.spark.fake_brokers import FakeBrokers, linked

A = MessageQueue("a", 0, "t")
GROUP = {"consumerGroup": "g", "startingOffsets": "group"}
LENIENT = {"failOnDataLoss": "false"}


@pytest.fixture
def brokers() -> Iterator[FakeBrokers]:
    made = FakeBrokers()
    with linked(made):
        yield made


def planned(**options: Any) -> list[QueueSlice]:
    chosen = parse_source({"subscribe": "t", "retries": "0", **options})
    reader = BatchReader(chosen, chosen_columns(chosen))
    return [each for partition in reader.partitions() for each in slices_of(partition)]


def offsets(offset: int) -> str:
    return json.dumps({"t": {"a": {"0": offset}}})


def test_messages_that_expired_behind_a_group_are_a_loss(
    brokers: FakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.add(A, count=100).expire_to(30)
    brokers.committed[A] = 10

    with pytest.raises(DataLost, match="messages 10 to 30 of t a/0 are gone; failOnDataLoss=false"):
        planned(**GROUP)
    with caplog.at_level(logging.WARNING):
        assert planned(**GROUP, **LENIENT) == [QueueSlice(A, 30, 100)]

    assert caplog.messages == ["messages_gone messages 10 to 30 of t a/0 are gone"]


@pytest.mark.parametrize("more", [{}, LENIENT])
def test_a_group_behind_the_end_begins_there_and_is_told(
    brokers: FakeBrokers, caplog: pytest.LogCaptureFixture, more: dict[str, str]
) -> None:
    brokers.add(A, count=100)
    brokers.committed[A] = 900

    with caplog.at_level(logging.WARNING):
        assert planned(**GROUP, **more) == []

    assert caplog.messages == [
        "start_behind_end t a/0 ends at 100, before 900 where the group is: it is read from its end"
    ]


def test_an_end_before_its_start_is_an_error_if_both_are_written_down(
    brokers: FakeBrokers,
) -> None:
    brokers.add(A, count=100)

    with pytest.raises(ConfigError, match="endingOffsets has 7 for t a/0, before 8"):
        planned(startingOffsets=offsets(8), endingOffsets=offsets(7))
    assert planned(startingOffsets=offsets(8), endingOffsets=offsets(8)) == []


def test_an_end_by_time_before_its_start_is_an_empty_range(brokers: FakeBrokers) -> None:
    brokers.add(A, count=100)

    assert planned(startingOffsets=offsets(8), endingTimestamp="7") == []
