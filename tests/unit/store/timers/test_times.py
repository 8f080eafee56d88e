"""`emberq.store.timers.times`: which slot, which millisecond."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberq.errors import RecordError
from emberq.store.timers.times import (
    PRECISIONS_MS,
    asked_time_ms,
    parse_number,
    slot_time_ms,
    stored_due_ms,
    stored_slot_ms,
    usable_precision_ms,
    wrapped,
)

NOW_MS = 1_700_000_000_123
HUGE = b"TIMER_OUT_MS\x01%d\x02" % (2**63 - 1)


@pytest.mark.parametrize(
    ("asked", "used"),
    [(1, 100), (100, 100), (199, 100), (499, 200), (999, 500), (1000, 1000), (5000, 1000)],
)
def test_an_odd_precision_counts_as_the_next_lower_one(asked: int, used: int) -> None:
    assert usable_precision_ms(asked) == used


@pytest.mark.parametrize(
    ("deliver_ms", "slot_ms"), [(10_001, 10_000), (10_999, 10_000), (11_000, 10_000)]
)
def test_a_slot_holds_what_is_due_after_it_up_to_the_next(deliver_ms: int, slot_ms: int) -> None:
    assert slot_time_ms(deliver_ms, 1000) == slot_ms


@given(st.integers(1, 2**50), st.sampled_from(PRECISIONS_MS))
def test_a_slot_is_the_official_one(deliver_ms: int, precision_ms: int) -> None:
    rest = deliver_ms % precision_ms
    official_ms = deliver_ms - (rest or precision_ms)

    assert slot_time_ms(deliver_ms, precision_ms) == official_ms


@pytest.mark.parametrize("text", ["", "+", "-", "1.5", "1e3", " 1", "٣", "9" * 30, str(2**63)])
def test_what_is_no_64_bit_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"number|64 bits"):
        parse_number(text)


@pytest.mark.parametrize("number", [0, -1, 7, 2**63 - 1, -(2**63)])
def test_numbers_are_read_with_and_without_a_sign(number: int) -> None:
    assert parse_number(str(number)) == number
    assert parse_number(f"{number:+d}".encode()) == number


@given(st.integers(-(2**70), 2**70))
def test_sums_wrap_as_64_bits_do(number: int) -> None:
    assert wrapped(number) == int.from_bytes(
        (number % 2**64).to_bytes(8, "big"), "big", signed=True
    )


def test_the_first_property_given_wins() -> None:
    assert asked_time_ms("2", "x", "x", NOW_MS) == NOW_MS + 2_000
    assert asked_time_ms(None, "2", "x", NOW_MS) == NOW_MS + 2
    assert asked_time_ms(None, None, "2", NOW_MS) == 2
    assert asked_time_ms(None, None, None, NOW_MS) is None


def test_a_waiting_message_names_its_slot() -> None:
    assert stored_slot_ms(b"a\x01b\x02TIMER_OUT_MS\x01123000\x02") == 123_000


@pytest.mark.parametrize(
    "stored", [b"", b"TIMER_OUT_MS\x01\x02", b"TIMER_OUT_MS\x01soon\x02", HUGE]
)
def test_one_without_a_slot_is_refused(stored: bytes) -> None:
    with pytest.raises(RecordError):
        stored_slot_ms(stored)


@pytest.mark.parametrize(
    ("stored", "due_ms"),
    [
        (b"TIMER_DELIVER_MS\x0110500\x02", 10_500),
        (b"TIMER_DELAY_MS\x01700\x02", 10_700),  # stored at 10,000
        (b"TIMER_DELAY_SEC\x011\x02", 11_000),
        (b"TIMER_DELIVER_MS\x015\x02", 10_001),  # another slot's time counts as the nearest
        (b"TIMER_DELIVER_MS\x0199999\x02", 11_000),
        (b"TIMER_DELAY_SEC\x0199999\x02", 11_000),  # it was put again while it waited
        (b"TIMER_DELIVER_MS\x01soon\x02", 11_000),
        (b"", 11_000),
    ],
)
def test_a_message_is_due_when_it_was_asked_for_but_within_its_slot(
    stored: bytes, due_ms: int
) -> None:
    assert stored_due_ms(stored, 10_000, 10_000, 1_000) == due_ms


def test_a_message_of_a_longer_slot_keeps_its_time() -> None:
    assert stored_due_ms(b"TIMER_DELIVER_MS\x0110900\x02", 10_000, 10_000, 100) == 10_900
    assert stored_due_ms(b"TIMER_DELIVER_MS\x0112000\x02", 10_000, 10_000, 100) == 10_100
