"""Where queries begin and end."""

import pytest

from emberq.client.core.scanned import QueueHead
from emberq.errors import ConfigError, OffsetOutOfRange
from emberq.model.queue import MessageQueue
from emberq.spark.options import Position
from emberq.spark.positions import end_offsets, start_offsets, times_of

A, B = MessageQueue("k", 0, "t"), MessageQueue("k", 1, "t")
HEADS = {A: QueueHead(10, 100, 50), B: QueueHead(0, 20)}


def test_words_mean_both_ends_and_the_group() -> None:
    assert start_offsets(Position(word="earliest"), HEADS, {}) == {A: 10, B: 0}
    assert start_offsets(Position(word="latest"), HEADS, {}) == {A: 100, B: 20}
    assert start_offsets(Position(word="group"), HEADS, {}) == {A: 50, B: 0}
    assert end_offsets(Position(word="latest"), HEADS, {}) == {A: 100, B: 20}


def test_a_group_without_offsets_is_no_start() -> None:
    with pytest.raises(ConfigError, match="give earliest or latest once"):
        start_offsets(Position(word="group"), {B: HEADS[B]}, {})


def test_offsets_name_queues_and_ends() -> None:
    position = Position(offsets={A: -1, B: 7})

    assert start_offsets(position, HEADS, {}) == {A: 100, B: 7}
    assert start_offsets(Position(offsets={A: 30}), HEADS, {}) == {A: 30, B: 0}
    assert end_offsets(Position(offsets={A: 30, B: -2}), HEADS, {}) == {A: 30, B: 0}


@pytest.mark.parametrize("resolve", [start_offsets, end_offsets])
def test_offsets_that_are_not_there_yet_are_an_error(resolve: object) -> None:
    assert callable(resolve)
    with pytest.raises(OffsetOutOfRange, match="t k/1 has no offset 21"):
        resolve(Position(offsets={B: 21}), HEADS, {})


def test_times_are_asked_for_by_queue_and_by_topic() -> None:
    assert times_of(Position(time_ms=5), HEADS) == {A: 5, B: 5}
    assert times_of(Position(times_ms={"t": 5, "t k/1": 7}), HEADS) == {A: 5, B: 7}
    assert times_of(Position(word="latest"), HEADS) == {}
    assert start_offsets(Position(time_ms=5), HEADS, {A: 3, B: 9}) == {A: 10, B: 9}
    assert end_offsets(Position(time_ms=5), HEADS, {A: 60, B: 99}) == {A: 60, B: 20}


def test_only_some_starts_are_found_again() -> None:
    assert Position(word="earliest").is_repeatable
    assert Position(time_ms=5).is_repeatable
    assert Position(offsets={A: 5}).is_repeatable
    assert not Position(word="latest").is_repeatable
    assert not Position(offsets={A: -1}).is_repeatable
