"""Numbers as Java reads them."""

import math

import pytest

from emberq.broker.filters.java_numbers import (
    DIGITS_MAX,
    compare_doubles,
    parse_double,
    parse_int,
    parse_long,
)


@pytest.mark.parametrize(("text", "number"), [("5", 5), ("+7", 7), ("-0", 0), ("007", 7), ("٥", 5)])
def test_integers(text: str, number: int) -> None:
    assert parse_int(text) == parse_long(text) == number


@pytest.mark.parametrize("text", ["", " 5", "5 ", "1_0", "5.0", "0x1", "+-1", "𝟓", "5l"])
def test_what_is_no_integer(text: str) -> None:
    with pytest.raises(ValueError, match="not an integer"):
        parse_long(text)


def test_integers_have_a_range() -> None:
    assert parse_int("-2147483648") == -(1 << 31)
    assert parse_long("9223372036854775807") == (1 << 63) - 1
    with pytest.raises(ValueError, match="range"):
        parse_int("2147483648")
    with pytest.raises(ValueError, match="range"):
        parse_long("9223372036854775808")
    with pytest.raises(ValueError, match="not an integer"):
        parse_long("1" * (DIGITS_MAX + 1))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (" 5 ", 5.0),
        ("5.", 5.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1d", 1.0),
        ("1.5F", 1.5),
        ("0x1p3", 8.0),
        ("-0x1.8p1d", -3.0),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ("1e400", math.inf),
        ("0x1p2000", math.inf),
        ("-0x1p2000", -math.inf),
    ],
)
def test_doubles(text: str, number: float) -> None:
    assert parse_double(text) == number


@pytest.mark.parametrize("text", ["", "e5", "inf", "nan", "1_0", "٥", "--1", "+-Infinity", "0x1"])
def test_what_is_no_double(text: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        parse_double(text)


def test_doubles_are_in_a_total_order() -> None:
    ascending = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, parse_double("NaN")]

    for index, left in enumerate(ascending):
        for other, right in enumerate(ascending):
            order = compare_doubles(left, right)
            assert (order > 0) - (order < 0) == (index > other) - (index < other)
