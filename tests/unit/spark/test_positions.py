"""Where queries begin and end."""

import pytest

from emberq.client.core.scanned import QueueHead
from emberq.errors import ConfigError, OffsetOutOfRange
from emberq.model.queue import MessageQueue
from emberq.spark.options import Position
from emberq.spark.positions import (
    LISTED_MAX,
    begin_offsets,
    crossed_ends,
    end_offsets,
    listed,
    start_offsets,
    times_of,
    unknown_names,
    with_pins,
)

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


def test_a_group_stands_where_it_stands_also_outside_of_a_queue() -> None:
    """So that who begins there can tell what is gone."""
    heads = {A: QueueHead(10, 100, 5), B: QueueHead(0, 20, 25)}

    assert start_offsets(Position(word="group"), heads, {}) == {A: 5, B: 25}


@pytest.mark.parametrize(
    ("start", "end", "is_crossed"),
    [
        ({A: 8}, {A: 7}, True),
        ({A: 8}, {A: 8}, False),
        ({A: 8}, {B: 7}, False),
        ({A: -1}, {A: 7}, False),  # the end, whatever that is
        ({A: 8}, {A: -2}, False),
        (None, {A: 7}, False),
        ({A: 8}, None, False),
    ],
)
def test_offsets_that_end_before_they_begin_are_a_mistake(
    start: dict[MessageQueue, int] | None, end: dict[MessageQueue, int] | None, *, is_crossed: bool
) -> None:
    told = crossed_ends(Position(offsets=start), Position(offsets=end))

    text = "endingOffsets has 7 for t k/0, before 8 of startingOffsets"
    assert told == (text if is_crossed else None)


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


# Queues that are found when a query is under way


@pytest.mark.parametrize("word", ["earliest", "latest"])
def test_a_queue_that_is_found_later_is_read_from_its_first_message(word: str) -> None:
    assert begin_offsets(Position(word=word), HEADS, {}) == {A: 10, B: 0}


def test_unless_its_group_a_time_or_its_name_say_where_it_begins() -> None:
    assert begin_offsets(None, HEADS, {}) == {A: 50, B: 0}
    assert begin_offsets(Position(word="group"), HEADS, {}) == {A: 50, B: 0}
    assert begin_offsets(Position(time_ms=5), HEADS, {A: 30, B: 20}) == {A: 30, B: 20}
    assert begin_offsets(Position(offsets={A: 30, B: -1}), HEADS, {}) == {A: 30, B: 0}


def test_what_a_group_has_read_of_a_topic_before_it_was_made_anew_does_not_count() -> None:
    assert begin_offsets(None, {A: QueueHead(0, 550, 900)}, {}) == {A: 0}


def test_messages_that_have_expired_are_no_reason_to_begin_behind_them() -> None:
    """Who reads them tells that they are gone."""
    assert begin_offsets(None, {A: QueueHead(10, 100, 5)}, {}) == {A: 5}


# Starts that were written down


def pinned(start: int, high: int = 2_000) -> dict[MessageQueue, QueueHead]:
    return {A: QueueHead(0, high, None, start)}


def test_a_first_batch_begins_again_where_it_began() -> None:
    for is_asked_for in (True, False):
        assert with_pins({A: 2_000}, pinned(1_000), is_asked_for=is_asked_for) == {A: 1_000}


def test_a_start_that_is_asked_for_is_not_put_off_by_what_another_query_left() -> None:
    assert with_pins({A: 0}, pinned(1_000), is_asked_for=True) == {A: 0}
    assert with_pins({A: 0}, pinned(1_000), is_asked_for=False) == {A: 1_000}


def test_a_start_behind_the_end_is_of_another_life_of_the_topic() -> None:
    assert with_pins({A: 550}, pinned(1_000, 550), is_asked_for=False) == {A: 550}


def test_queues_without_such_a_start_begin_where_they_would() -> None:
    assert with_pins({A: 0, B: 7}, {**HEADS, **pinned(5)}, is_asked_for=False) == {A: 5, B: 7}


# Names


def test_names_that_are_there_are_no_trouble() -> None:
    for position in (
        *(Position(word="earliest"), Position(time_ms=5), Position(offsets={A: 5})),
        Position(times_ms={"t": 5, "t k/1": 7}),
    ):
        assert unknown_names("startingOffsets", position, HEADS) is None


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (
            Position(offsets={A: 5, MessageQueue("l", 0, "t"): 0, MessageQueue("k", 9, "t"): 0}),
            "startingOffsets: there is no t k/9, t l/0; there is t k/0,1",
        ),
        (
            Position(times_ms={"t k/0": 5, "u": 5, "t k/9": 5}),
            "startingOffsetsByTimestamp: there is no t k/9, u; there is t k/0,1",
        ),
    ],
)
def test_names_that_are_not_there_are_told_with_those_that_are(
    position: Position, text: str
) -> None:
    assert unknown_names("startingOffsets", position, HEADS) == text


def test_where_nothing_is_there_that_is_told_too() -> None:
    told = unknown_names("endingOffsets", Position(offsets={A: 5}), {})

    assert told == "endingOffsets: there is no t k/0; there is nothing"


def test_a_list_of_queues_has_an_end() -> None:
    queues = [MessageQueue("k", number, f"t{number}") for number in range(LISTED_MAX + 5)]

    assert listed(queues).count("/") == LISTED_MAX
    assert listed(queues).endswith(", and 5 more")
