"""`emberq.store.timers.wheel`: slots that come round."""

from hypothesis import given
from hypothesis import strategies as st

from emberq.store.disk import PAGE_SIZE_BYTES
from emberq.store.timers.wheel import EMPTY, SLOT, SLOT_COUNT, WHEEL_SIZE_BYTES, Slot, TimerWheel

NOW_MS = 1_700_000_000_000
ROUND_MS = SLOT_COUNT * 1000
SMALL_WHEEL_BYTES = 8 * PAGE_SIZE_BYTES


def new_wheel(precision_ms: int = 1000) -> TimerWheel:
    return TimerWheel(bytearray(WHEEL_SIZE_BYTES), precision_ms)


def test_the_file_has_the_official_size() -> None:
    assert (WHEEL_SIZE_BYTES, SLOT.size) == (38_707_200, 32)


def test_a_slot_counts_its_units_and_knows_first_and_last() -> None:
    wheel = new_wheel()

    wheel.add(NOW_MS, 0)
    wheel.add(NOW_MS, 52)
    wheel.add(NOW_MS, 104, -1)

    assert wheel.slot(NOW_MS) == Slot(0, 104, 1)
    assert wheel.slot(NOW_MS + 1000) == EMPTY


def test_the_slot_of_another_round_is_empty_and_gets_overwritten() -> None:
    wheel = new_wheel()
    wheel.add(NOW_MS, 52)

    assert wheel.slot(NOW_MS + ROUND_MS) == EMPTY

    wheel.add(NOW_MS + ROUND_MS, 104)

    assert wheel.slot(NOW_MS + ROUND_MS) == Slot(104, 104, 1)
    assert wheel.slot(NOW_MS) == EMPTY


def test_a_slot_stands_where_official_brokers_look_for_it() -> None:
    wheel = new_wheel()
    wheel.add(NOW_MS, 52)

    [(at, page)] = wheel.take_changes()

    index = NOW_MS // 1000 % SLOT_COUNT
    assert at <= index * 32 < at + PAGE_SIZE_BYTES
    assert SLOT.unpack_from(page, index * 32 - at) == (NOW_MS // 1000, 52, 52, 1, 0)


def test_a_replayed_unit_counts_once() -> None:
    wheel = new_wheel()
    wheel.add(NOW_MS, 0)
    wheel.add(NOW_MS, 52)

    for position in (0, 52, 104, 104):
        wheel.replay(NOW_MS, position)

    assert wheel.slot(NOW_MS) == Slot(0, 104, 3)


def test_a_replayed_unit_of_an_older_round_changes_nothing() -> None:
    wheel = new_wheel()
    wheel.add(NOW_MS + ROUND_MS, 104)

    wheel.replay(NOW_MS, 52)

    assert wheel.slot(NOW_MS + ROUND_MS) == Slot(104, 104, 1)


def test_all_slots_from_a_time_on_are_found_however_old() -> None:
    wheel = new_wheel(100)
    times = [NOW_MS - 300, NOW_MS, NOW_MS + 100, NOW_MS + 40_000_000]
    for time_ms in times:
        wheel.add(time_ms, 52)
    wheel.put(NOW_MS + 200, EMPTY)

    assert sorted(time_ms for time_ms, _ in wheel.slots_from(NOW_MS)) == times[1:]


def test_changes_are_taken_once_and_can_be_given_back() -> None:
    wheel = new_wheel()
    wheel.add(NOW_MS, 0)

    changes = wheel.take_changes()

    assert wheel.take_changes() == []
    wheel.take_back(changes)
    assert wheel.take_changes() == changes


def test_what_was_written_fills_another_wheel() -> None:
    wheel, other = new_wheel(), new_wheel()
    for number in range(300):
        wheel.add(NOW_MS + number * 1000, number * 52)

    for at, page in wheel.take_changes():
        other.fill(at, page)

    assert dict(other.slots_from(0)) == dict(wheel.slots_from(0))


def test_a_cleared_wheel_overwrites_its_file() -> None:
    wheel = new_wheel()
    wheel.add(NOW_MS, 0)
    [(at, _)] = wheel.take_changes()

    wheel.clear()

    assert wheel.take_changes() == [(at, bytes(PAGE_SIZE_BYTES))]
    assert not list(wheel.slots_from(0))


@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from([1, -1])), max_size=60),
    st.integers(0, 60),
)
def test_replaying_units_from_anywhere_gives_the_same_slots(
    units: list[tuple[int, int]], known: int
) -> None:
    """As after a crash: the file has some prefix of the units, the log has all of them."""
    whole = TimerWheel(bytearray(SMALL_WHEEL_BYTES), 1000)
    for position, (tick, count) in enumerate(units):
        whole.add(NOW_MS + tick * 1000, position * 52, count)
    expected = dict(whole.slots_from(0))
    whole.clear()
    for position, (tick, count) in enumerate(units[:known]):
        whole.add(NOW_MS + tick * 1000, position * 52, count)

    for position, (tick, count) in enumerate(units):
        whole.replay(NOW_MS + tick * 1000, position * 52, count)

    assert dict(whole.slots_from(0)) == expected
