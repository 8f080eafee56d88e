"""`emberq.store.timers.census`: what waits, by topic, from the units of the log."""

from pathlib import Path

import pytest

from emberq.store.timers.census import TimerCensus
from emberq.store.timers.timer_store import TimerStore
from emberq.testing.faulty_disk import FaultyDisk
from tests.unit.store.timers.test_timer_store import (
    NOW_MS,
    RECORD_SIZE,
    flush,
    opened_timers,
)


def enqueue(timers: TimerStore, number: int, slot_ms: int, topic_hash: int, **how: bool) -> None:
    timers.enqueue(
        slot_ms,
        slot_ms + 1,
        NOW_MS,
        number * RECORD_SIZE,
        RECORD_SIZE,
        topic_hash,
        **{"is_deletion": False, **how},
    )


def counted(census: TimerCensus) -> dict[int, int]:
    while census.count_some():
        pass
    return {topic_hash: found.count for topic_hash, found in census.counts.items()}


@pytest.fixture
def timers(tmp_path: Path) -> TimerStore:
    return opened_timers(FaultyDisk(tmp_path))


def test_nothing_waits_in_a_new_store(timers: TimerStore) -> None:
    assert counted(timers.census()) == {}


def test_units_of_many_slots_and_files_are_counted_by_topic(timers: TimerStore) -> None:
    for number in range(95):  # ten to a file
        enqueue(timers, number, NOW_MS + number % 7 * 1000, number % 3)
    flush(timers)

    census = timers.census()

    assert counted(census) == {0: 32, 1: 32, 2: 31}
    assert census.counts[1].log_offset == RECORD_SIZE


def test_a_message_that_is_taken_back_counts_out(timers: TimerStore) -> None:
    enqueue(timers, 0, NOW_MS, 7)
    enqueue(timers, 1, NOW_MS, 7)
    enqueue(timers, 2, NOW_MS, 7, is_deletion=True)
    flush(timers)

    assert counted(timers.census()) == {7: 1}


def test_slots_that_are_delivered_do_not_count(timers: TimerStore) -> None:
    enqueue(timers, 0, NOW_MS, 7)
    enqueue(timers, 1, NOW_MS + 1000, 8)
    flush(timers)
    timers.read_time_ms = NOW_MS + 1000

    assert counted(timers.census()) == {8: 1}


def test_of_a_slot_that_was_left_in_part_the_rest_counts(timers: TimerStore) -> None:
    for number in range(25):
        enqueue(timers, number, NOW_MS, 7)
    content = timers.load_slot(NOW_MS, timers.wheel.slot(NOW_MS).last, lambda _: None)
    content.order.done(content.order.due(NOW_MS + 1, 20))
    timers.keep_only(NOW_MS, content.order, content.markers)
    flush(timers)

    assert counted(timers.census()) == {7: 5}


def test_what_comes_later_is_not_counted(timers: TimerStore) -> None:
    enqueue(timers, 0, NOW_MS, 7)
    flush(timers)
    census = timers.census()
    enqueue(timers, 1, NOW_MS, 7)
    flush(timers)

    assert counted(census) == {7: 1}
