"""`emberq.store.timers.timer_store`: waiting messages in files, and what a start makes of them."""

import errno
from pathlib import Path

import pytest

from emberq.errors import StoreDamaged
from emberq.record.properties import encode_properties
from emberq.store.message_store import MessageStore
from emberq.store.timers.check_file import TimerCheck, read_timer_check
from emberq.store.timers.slot_order import Waiting
from emberq.store.timers.timer_store import TimerStore
from emberq.store.timers.units import DELETES, ROLLS, UNIT, WAITS
from emberq.store.timers.wheel import Slot
from emberq.testing.faulty_disk import Fault, FaultyDisk
from tests.support.stores import HOST, opened

NOW_MS = 1_700_000_000_000
RECORD_SIZE = 100
FILE_SIZE = 10 * 52 + 16
WHEEL_SIZE = 4 * 4096
LOG_END = 1 << 40


def new_timers(disk: FaultyDisk, **changes: int) -> TimerStore:
    settings = {"precision_ms": 1000, "file_size": FILE_SIZE, "roll_window": 100, **changes}
    return TimerStore(disk, disk.root, wheel_size=WHEEL_SIZE, **settings)


def opened_timers(disk: FaultyDisk, now_ms: int = NOW_MS, **changes: int) -> TimerStore:
    timers = new_timers(disk, **changes)
    timers.open(LOG_END, now_ms, lambda log_offset: log_offset // RECORD_SIZE)
    return timers


def enqueue(timers: TimerStore, number: int, due_ms: int, **changes: bool) -> int:
    slot_ms = (due_ms - 1) // timers.precision_ms * timers.precision_ms
    placed_ms, _ = timers.enqueue(
        slot_ms,
        due_ms,
        NOW_MS + 5,
        number * RECORD_SIZE,
        RECORD_SIZE,
        7,
        **{"is_deletion": False, **changes},
    )
    timers.queue_offset = number + 1
    return placed_ms


def flush(timers: TimerStore) -> None:
    changes = timers.changes(NOW_MS)
    timers.write(changes)
    timers.written(changes)


def numbers(timers: TimerStore, slot_ms: int) -> list[int]:
    content = timers.load_slot(slot_ms, timers.wheel.slot(slot_ms).last, lambda _: None)
    return [waiting.log_offset // RECORD_SIZE for _, waiting in content.order]


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    return FaultyDisk(tmp_path)


def test_a_new_store_begins_now(disk: FaultyDisk) -> None:
    timers = opened_timers(disk, NOW_MS + 300)

    assert (timers.read_time_ms, timers.queue_offset, timers.waiting_count) == (NOW_MS, 0, 0)
    check = read_timer_check(disk, disk.root / "config" / "timercheck")
    assert check is not None
    assert check.read_time_ms == NOW_MS


def test_units_are_chained_and_read_in_the_order_of_their_times(disk: FaultyDisk) -> None:
    timers = opened_timers(disk)
    for number, due_ms in enumerate([NOW_MS + 900, NOW_MS + 100, NOW_MS + 900, NOW_MS + 1100]):
        enqueue(timers, number, due_ms)

    assert numbers(timers, NOW_MS) == [1, 0, 2]
    assert numbers(timers, NOW_MS + 1000) == [3]
    assert timers.waiting_count == 4


def test_units_are_found_in_memory_and_in_several_files(disk: FaultyDisk) -> None:
    timers = opened_timers(disk)
    for number in range(35):
        enqueue(timers, number, NOW_MS + 500)
        if number % 8 == 0:
            flush(timers)

    assert numbers(timers, NOW_MS) == list(range(35))
    again = opened_timers(disk)
    assert numbers(again, NOW_MS) == list(range(33))  # flushed up to there
    assert again.queue_offset == 33


def test_a_stop_in_the_midst_of_a_slot_leaves_only_the_rest(disk: FaultyDisk) -> None:
    timers = opened_timers(disk)
    for number in range(4):
        enqueue(timers, number, NOW_MS + 100 + number)
    content = timers.load_slot(NOW_MS, timers.wheel.slot(NOW_MS).last, lambda _: None)
    content.order.done(content.order.due(NOW_MS + 101, 9))

    timers.keep_only(NOW_MS, content.order, content.markers)
    flush(timers)

    again = opened_timers(disk)
    assert numbers(again, NOW_MS) == [2, 3]
    assert again.waiting_count == 2


def test_a_lost_wheel_is_built_again_from_the_log(disk: FaultyDisk) -> None:
    timers = opened_timers(disk)
    for number in range(25):
        enqueue(timers, number, NOW_MS + 1 + number * 200)
    flush(timers)
    expected = dict(timers.wheel.slots_from(0))

    disk.remove(disk.root / "timerwheel")

    assert dict(opened_timers(disk).wheel.slots_from(0)) == expected


def test_another_precision_builds_the_wheel_again(disk: FaultyDisk) -> None:
    timers = opened_timers(disk)
    enqueue(timers, 0, NOW_MS + 5_300)
    enqueue(timers, 1, NOW_MS + 5_900)
    flush(timers)

    again = opened_timers(disk, precision_ms=500)

    assert dict(again.wheel.slots_from(0)) == {NOW_MS + 5_000: Slot(0, 52, 2)}


def test_units_of_messages_that_the_log_lost_are_cut_off(disk: FaultyDisk) -> None:
    timers = opened_timers(disk)
    for number in range(6):
        enqueue(timers, number, NOW_MS + 500 + number % 2 * 1000)
    flush(timers)

    again = new_timers(disk)
    again.open(3 * RECORD_SIZE, NOW_MS, lambda _: None)

    assert (numbers(again, NOW_MS), numbers(again, NOW_MS + 1000)) == ([0, 2], [1])
    assert again.waiting_count == 3


def test_slots_of_a_long_time_off_are_all_overdue(disk: FaultyDisk) -> None:
    timers = opened_timers(disk)
    for number, slot in enumerate([3, 1, 2]):
        enqueue(timers, number, NOW_MS + slot * 1000 + 1)
    flush(timers)

    month_ms = 30 * 24 * 3600 * 1000
    again = opened_timers(disk, NOW_MS + month_ms)

    assert again.overdue_ms == [NOW_MS + 3000, NOW_MS + 2000, NOW_MS + 1000]
    assert again.read_time_ms == NOW_MS + 1000


@pytest.mark.parametrize(
    ("ahead_slots", "placed_slots"),
    [(99, 99), (100, 50), (132, 50), (133, 100), (500, 100)],
)
def test_what_is_beyond_the_window_is_put_nearer(
    disk: FaultyDisk, ahead_slots: int, placed_slots: int
) -> None:
    timers = opened_timers(disk)

    placed_ms = enqueue(timers, 0, NOW_MS + ahead_slots * 1000 + 1)

    assert placed_ms == NOW_MS + placed_slots * 1000
    last = timers.wheel.slot(placed_ms).last
    [(due_ms, waiting)] = timers.load_slot(placed_ms, last, lambda _: None).order
    assert bool(waiting.flags & ROLLS) is (ahead_slots >= 100)
    assert due_ms == placed_ms + 1


def test_files_of_another_size_are_refused(disk: FaultyDisk) -> None:
    timers = opened_timers(disk)
    enqueue(timers, 0, NOW_MS + 500)
    flush(timers)

    with pytest.raises(StoreDamaged, match="mappedFileSizeTimerLog"):
        opened_timers(disk, file_size=FILE_SIZE - 52)


def test_a_flush_that_fails_is_done_by_the_next_one(disk: FaultyDisk) -> None:
    timers = opened_timers(disk)
    enqueue(timers, 0, NOW_MS + 500)
    disk.fault = Fault(disk.fallible_count, errno.ENOSPC)
    changes = timers.changes(NOW_MS)
    with pytest.raises(OSError, match="No space"):
        timers.write(changes)
    timers.not_written(changes)

    disk.fault = None
    enqueue(timers, 1, NOW_MS + 600)
    flush(timers)

    assert numbers(opened_timers(disk), NOW_MS) == [0, 1]


def test_files_of_deleted_messages_go_but_never_the_last(disk: FaultyDisk) -> None:
    timers = opened_timers(disk)
    for number in range(25):  # ten per file
        enqueue(timers, number, NOW_MS + 500)
    flush(timers)

    assert timers.remove_before(10 * RECORD_SIZE) == 1
    assert timers.remove_before(LOG_END) == 1
    assert len(disk.list(disk.root / "timerlog")) == 1


def test_a_check_that_changes_nothing_keeps_its_version() -> None:
    check = TimerCheck(read_time_ms=5, log_position=52, queue_offset=3, master_queue_offset=3)

    assert check.next(5, 52, 3, NOW_MS) is check
    assert check.next(6, 52, 3, NOW_MS).version.counter == 1


def put_timed(store: MessageStore, **properties: str) -> tuple[int, int]:
    stored = encode_properties({"REAL_TOPIC": "Orders", "REAL_QID": "0", **properties})
    result = store.put("rmq_sys_wheel_timer", 0, b"x", stored, born_host=HOST)
    return result.log_offset, result.end_offset - result.log_offset


def test_units_of_official_brokers_are_due_when_their_message_says(tmp_path: Path) -> None:
    """They have no millisecond of their own, and markers only say where their message is."""
    timers = opened_timers(FaultyDisk(tmp_path / "timers"))
    with opened(tmp_path / "store") as store:
        late = put_timed(store, TIMER_DELIVER_MS=str(NOW_MS + 800))
        soon = put_timed(store, TIMER_DELIVER_MS=str(NOW_MS + 200))
        marker = put_timed(store, TIMER_DELIVER_MS=str(NOW_MS + 1), TIMER_DEL_UNIQKEY="K1")
        for log_offset, size in (late, soon):
            timers.enqueue(NOW_MS, 0, NOW_MS, log_offset, size, 7, is_deletion=False)
        timers.enqueue(NOW_MS, 0, NOW_MS, *marker, 7, is_deletion=True)

        last = timers.wheel.slot(NOW_MS).last
        content = timers.load_slot(NOW_MS, last, store.record_at_waiting)

    assert [(due_ms, waiting.log_offset) for due_ms, waiting in content.order] == [
        (NOW_MS + 200, soon[0]),
        (NOW_MS + 800, late[0]),
    ]
    assert (content.deleted, content.marked_topics) == ({"K1"}, ["Orders"])
    [(_, kept)] = content.markers
    assert kept == Waiting(*marker, WAITS | DELETES, NOW_MS, 7)


def test_a_damaged_chain_ends_without_harm(disk: FaultyDisk) -> None:
    timers = opened_timers(disk)
    for number in range(3):
        enqueue(timers, number, NOW_MS + 500)
    flush(timers)
    file = disk.root / "timerlog" / f"{0:020d}"
    disk.content_of(file)[UNIT.size : UNIT.size + 4] = b"\xff" * 4

    assert numbers(timers, NOW_MS) == [2]
