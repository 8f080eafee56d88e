"""Numbers in the text of a property, read as Java reads them: official filters do."""

import math
import re

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1
# What a property may be long and still be a number: keeps parsing cheap.
DIGITS_MAX = 512

_INTEGER = re.compile(r"[+-]?\d+")
# Control characters and blanks around a float are cut off, and it may say which kind it is.
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_HEXADECIMAL = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
)
_BLANKS = "".join(map(chr, range(0x21)))
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf}


def parse_int(text: str) -> int:
    """Raises ValueError if it is no 32-bit number."""
    return _parse_integer(text, INT_MIN, INT_MAX)


def parse_long(text: str) -> int:
    """Raises ValueError if it is no 64-bit number."""
    return _parse_integer(text, LONG_MIN, LONG_MAX)


def _parse_integer(text: str, low: int, high: int) -> int:
    # Digits of other scripts count, unless they need two UTF-16 units.
    if len(text) > DIGITS_MAX or not _INTEGER.fullmatch(text) or max(text) > "\uffff":
        raise ValueError(f"not an integer: {text[:64]!r}")
    number = int(text)
    if not low <= number <= high:
        raise ValueError(f"{text} is out of range")
    return number


def parse_double(text: str) -> float:
    """Raises ValueError if it is no number."""
    text = text.strip(_BLANKS)
    if len(text) > DIGITS_MAX:
        raise ValueError(f"not a number: {text[:64]!r}")
    unsigned = text.lstrip("+-")
    if unsigned in _SPECIAL and len(text) - len(unsigned) <= 1:
        return -_SPECIAL[unsigned] if text[0] == "-" else _SPECIAL[unsigned]
    if text and text[-1] in "fFdD":
        text = text[:-1]  # says the kind; behind a hexadecimal exponent too
    if _DECIMAL.fullmatch(text):
        return float(text)
    if _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(text)
        except OverflowError:
            return -math.inf if text[0] == "-" else math.inf
    raise ValueError(f"not a number: {text[:64]!r}")


def compare_doubles(left: float, right: float) -> int:
    """Below 0, 0 or above 0, in Java's total order: -0.0 before 0.0, NaN behind everything."""
    if left < right:
        return -1
    if left > right:
        return 1
    return _rank(left) - _rank(right)


def _rank(number: float) -> int:
    if math.isnan(number):
        return 1
    return -1 if number == 0 and math.copysign(1.0, number) < 0 else 0
