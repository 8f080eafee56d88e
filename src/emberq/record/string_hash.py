"""The string hash that queues, filters and the key index agree on: Java's, over UTF-16 units."""

from functools import lru_cache
from operator import mul
from struct import unpack

# 31^(n-1), ..., 31, 1: multiplying by these and summing in C beats a loop over the characters.
_POWERS_COUNT = 256
_POWERS = [pow(31, exponent, 1 << 32) for exponent in reversed(range(_POWERS_COUNT))]

TAG_CODES_CACHED_MAX = 4096
TAG_LENGTH_CACHED_MAX = 128  # keeps the cache small whatever producers send


def java_string_hash(text: str) -> int:
    """Return h = 31·h + unit over the UTF-16 units, wrapped to a signed 32-bit number."""
    if text.isascii():
        units: bytes | tuple[int, ...] = text.encode("ascii")
    else:
        encoded = text.encode("utf-16-be", "surrogatepass")
        units = unpack(f">{len(encoded) // 2}H", encoded)

    length = len(units)
    if length <= _POWERS_COUNT:
        return _signed(sum(map(mul, units, _POWERS[_POWERS_COUNT - length :])))
    unsigned = 0
    for start in range(0, length, _POWERS_COUNT):
        block = units[start : start + _POWERS_COUNT]
        unsigned *= pow(31, len(block), 1 << 32)
        unsigned += sum(map(mul, block, _POWERS[-len(block) :]))
    return _signed(unsigned)


def index_hash(key: str) -> int:
    """Return the hash of a `topic#key` in the key index: never negative.

    The smallest number has no positive twin and becomes 0; `polygenelubricants` hashes to it.
    """
    signed = java_string_hash(key)
    return 0 if signed == -(1 << 31) else abs(signed)


def tag_code(tag: str | None) -> int:
    """Return the number that stands for a message's tag in the consume queue; 0 without a tag."""
    if not tag:
        return 0
    if len(tag) > TAG_LENGTH_CACHED_MAX:
        return java_string_hash(tag)
    return _short_tag_code(tag)


@lru_cache(maxsize=TAG_CODES_CACHED_MAX)
def _short_tag_code(tag: str) -> int:
    return java_string_hash(tag)


def _signed(number: int) -> int:
    return (number + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000
