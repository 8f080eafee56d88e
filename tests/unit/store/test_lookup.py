"""Finding messages by log offset and by time."""

from pathlib import Path

import pytest

from emberq.record.decode import decode_record
from emberq.store.lookup import Boundary
from emberq.store.message_store import MessageStore
from tests.support.stores import HOST_IPV6, START_MS, TOPIC, Clock, opened, put, segment_path

STEP_MS = 1_000


def put_by_time(store: MessageStore, clock: Clock, times: list[int]) -> None:
    """Messages stored at these seconds after the start."""
    for seconds in times:
        clock.now_ms = START_MS + seconds * STEP_MS
        put(store, b"at %d" % seconds)


# By log offset


def test_a_record_is_found_where_it_begins_and_nowhere_else(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store, b"first")
        second = put(store, b"second")

        found = store.record_at(second.log_offset)

        assert found is not None
        assert decode_record(found).body == b"second"
        assert store.record_at_waiting(second.log_offset) == found
        for offset in (-1, 1, second.log_offset - 1, second.end_offset, 10**9):
            assert store.record_at(offset) is None
            assert store.record_at_waiting(offset) is None


def test_records_found_by_offset_outlive_the_store(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        result = put(store, b"kept", born_host=HOST_IPV6, system_flag=0x10)
    with opened(tmp_path) as store:
        found = store.record_at_waiting(result.log_offset)

    assert found is not None
    assert decode_record(found).body == b"kept"


def test_a_damaged_record_is_not_found(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        result = put(store, b"body to be damaged")
        put(store, b"next")
    path = segment_path(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"body to be damaged", b"body to be damagED"))
    with opened(tmp_path) as store:
        assert store.record_at_waiting(result.log_offset) is None
        assert store.record_at_waiting(result.end_offset) is not None


def test_the_distance_of_a_message_to_the_end_of_the_log_is_told(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        first, second = put(store, b"first"), put(store, b"second")

        assert store.bytes_behind(TOPIC, 0, 0) == second.end_offset
        assert store.bytes_behind(TOPIC, 0, 1) == second.end_offset - first.end_offset
        assert store.bytes_behind(TOPIC, 0, -5) == second.end_offset
        assert store.bytes_behind(TOPIC, 0, 2) == 0
        assert store.bytes_behind("Unknown", 0, 0) == 0


# Ends of queues


def test_an_unknown_queue_begins_and_ends_at_0(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert store.min_offset("Unknown", 0) == store.max_offset("Unknown", 0) == 0
        assert store.offset_by_time("Unknown", 0, START_MS) == 0
        assert store.earliest_time_ms("Unknown", 0) == -1
        assert store.stored_at_ms("Unknown", 0, 0) == -1
        assert not store.is_in_memory("Unknown", 0, 0)
        assert len(store.queues) == 0


def test_the_ends_of_a_queue_are_what_consumers_can_read(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store)
        put(store)

        assert (store.min_offset(TOPIC, 0), store.max_offset(TOPIC, 0)) == (0, 2)


def test_a_message_just_put_is_in_memory_and_one_that_is_not_there_is_not(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store)

        assert store.is_in_memory(TOPIC, 0, 0)
        assert not store.is_in_memory(TOPIC, 0, 1)
        assert not store.is_in_memory(TOPIC, 0, -1)


# By time


@pytest.mark.parametrize(
    ("seconds", "lower", "upper"),
    [
        (0, 0, 0),  # before the first: upper is the minimum
        (10, 0, 0),
        (15, 1, 0),
        (20, 1, 3),  # three have this time
        (25, 4, 3),
        (30, 4, 4),
        (99, 5, 4),
    ],
)
def test_a_time_means_the_first_at_or_after_it_or_the_last_at_or_before_it(
    seconds: int, lower: int, upper: int, tmp_path: Path
) -> None:
    clock = Clock()
    with opened(tmp_path, clock=clock) as store:
        put_by_time(store, clock, [10, 20, 20, 20, 30])
        time_ms = START_MS + seconds * STEP_MS

        assert store.offset_by_time(TOPIC, 0, time_ms) == lower
        assert store.offset_by_time(TOPIC, 0, time_ms, Boundary.UPPER) == upper


def test_store_times_are_found_by_queue_offset(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path, clock=clock) as store:
        put_by_time(store, clock, [10, 20])

        assert store.earliest_time_ms(TOPIC, 0) == START_MS + 10 * STEP_MS
        assert store.stored_at_ms(TOPIC, 0, 1) == START_MS + 20 * STEP_MS
        assert store.stored_at_ms(TOPIC, 0, 2) == store.stored_at_ms(TOPIC, 0, -1) == -1
        assert store.log_begins_at_ms() == START_MS + 10 * STEP_MS


def test_an_empty_log_begins_at_no_time(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert store.log_begins_at_ms() == -1
