"""`emberq.store.timers.units`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberq.store.timers.units import (
    BLANK,
    BLANK_MAGIC,
    UNIT,
    UNIT_SIZE,
    ending,
    is_unit,
    iter_units,
    unit_capacity,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def test_an_official_file_takes_this_many_units() -> None:
    assert unit_capacity(100 * 1024 * 1024) == 2_016_492


@given(st.tuples(st.just(52), INT64, st.integers(1, 15), INT64, INT32, INT64, INT32, INT32, INT64))
def test_units_keep_their_values(unit: tuple[int, ...]) -> None:
    content = UNIT.pack(*unit)

    assert len(content) == UNIT_SIZE
    assert is_unit(content, 0)
    assert list(iter_units(content + content)) == [unit, unit]


@pytest.mark.parametrize("rest", [16, 17, 67])
def test_the_rest_of_a_file_is_a_blank(rest: int) -> None:
    content = ending(rest)

    assert len(content) == rest
    assert BLANK.unpack_from(content) == (rest, 0, BLANK_MAGIC)
    assert not is_unit(content, 0)


@given(st.binary(max_size=200))
def test_any_bytes_end_units_without_an_error(content: bytes) -> None:
    for unit in iter_units(content):
        assert unit[0] == UNIT_SIZE
