"""The first message at or after a time, found with few questions."""

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberq.client.core.time_search import GAPS_MAX, TimeSearch


class Queue:
    """Store times by offset; messages without one cannot be read."""

    def __init__(self, times_ms: dict[int, int], end: int | None = None) -> None:
        self.times_ms = times_ms
        self.min_offset = min(times_ms, default=0)
        self.max_offset = max(times_ms, default=-1) + 1 if end is None else end
        self.asked: list[int] = []

    def search(self, time_ms: int, guess: int) -> int:
        search = TimeSearch(time_ms, self.min_offset, self.max_offset, guess)
        while (offset := search.next_offset) is not None:
            self.answer(search, offset)
        return search.found

    def answer(self, search: TimeSearch, offset: int) -> None:
        self.asked.append(offset)
        if offset in self.times_ms:
            search.message(offset, self.times_ms[offset])
        else:
            search.nothing(offset + 1, self.min_offset, self.max_offset)


def queue_of(*times_ms: int) -> Queue:
    return Queue(dict(enumerate(times_ms)))


@given(
    times_ms=st.lists(st.integers(0, 30), max_size=60).map(sorted),
    time_ms=st.integers(-1, 31),
    guess=st.integers(-5, 70),
)
def test_whatever_the_guess_the_first_message_at_or_after_the_time_is_found(
    times_ms: list[int], time_ms: int, guess: int
) -> None:
    queue = queue_of(*times_ms)

    assert queue.search(time_ms, guess) == bisect_left(times_ms, time_ms)
    assert len(queue.asked) == len(set(queue.asked))


@given(data=st.data())
def test_gaps_are_walked_over(data: st.DataObject) -> None:
    times_ms = sorted(data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=30)))
    there = data.draw(st.sets(st.integers(0, len(times_ms) - 1), min_size=1))
    time_ms, guess = data.draw(st.integers(-1, 10)), data.draw(st.integers(0, 30))
    queue = Queue({offset: times_ms[offset] for offset in sorted(there)}, len(times_ms))

    found = queue.search(time_ms, guess)

    later = [offset for offset in sorted(there) if times_ms[offset] >= time_ms]
    readable = [offset for offset in sorted(there) if offset >= found]
    assert readable[:1] == later[:1]


@pytest.mark.parametrize(
    ("time_ms", "guess", "found", "asked"),
    [
        (1000, 1, 0, [1, 0]),  # any of those of the same time
        (1500, 2, 3, [2, 3]),  # the nearer neighbour
        (9999, 3, 4, [3]),  # the last one
        (2000, 3, 3, [3, 2]),  # as later brokers answer: right
        (2001, 4, 4, [3]),
        (0, 0, 0, [0]),
    ],
)
def test_a_guess_that_is_nearly_right_costs_a_message_or_two(
    time_ms: int, guess: int, found: int, asked: list[int]
) -> None:
    queue = queue_of(1000, 1000, 1000, 2000)

    assert queue.search(time_ms, guess) == found
    assert queue.asked == asked


@pytest.mark.parametrize("guess", [0, 999_999, 500_000])
def test_a_bad_guess_costs_twice_the_logarithm(guess: int) -> None:
    queue = queue_of(*range(1_000_000))

    assert queue.search(123_456, guess) == 123_456
    assert len(queue.asked) <= 40


def test_messages_that_expire_meanwhile_are_not_found() -> None:
    queue = queue_of(*range(100))
    search = TimeSearch(10, 0, 100, 40)

    while (offset := search.next_offset) is not None:
        if len(queue.asked) == 1:
            queue.times_ms = {offset: offset for offset in range(50, 100)}
            queue.min_offset = 50
        queue.answer(search, offset)

    assert search.found == 50


def test_a_queue_that_is_made_anew_ends_where_it_ends() -> None:
    search = TimeSearch(5, 0, 100, 50)
    search.nothing(50, 0, 3)
    offset = search.next_offset
    assert offset == 2
    search.message(offset, 4)
    assert search.found == 3

    other = TimeSearch(5, 60, 100, 80)
    other.nothing(80, 0, 0)
    assert other.next_offset is None


def test_what_lies_in_more_gaps_than_the_limit_counts_as_older() -> None:
    count = 1 << 20
    search, asked = TimeSearch(5, 0, count, 0), 0

    while (offset := search.next_offset) is not None:
        asked += 1
        if offset < count - 10:
            search.nothing(offset + 1, 0, count)
        else:
            search.message(offset, 7)

    assert search.found == count - 10
    assert GAPS_MAX < asked < 3 * GAPS_MAX
