"""Positions that a subscription would set in the bit map of a queue's extension.

EmberQ keeps no bit maps. The positions stand in consumerFilter.json all the same: an official
broker that finds others there ignores the whole file.
"""

# For 32 groups and an error rate of 20 %, the official defaults.
HASH_COUNT = 3
BIT_COUNT = 112

_MASK_64 = (1 << 64) - 1
_MASK_32 = (1 << 32) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def bloom_positions(group: str, topic: str) -> list[int]:
    low_half = _murmur3_low(f"{group}#{topic}".encode())
    first, second = low_half & _MASK_32, low_half >> 32
    return [_non_negative(first + number * second) % BIT_COUNT for number in (1, 2, 3)]


def _non_negative(number: int) -> int:
    """The number as a signed 32-bit one, its bits flipped if it is negative."""
    number &= _MASK_32
    return number ^ _MASK_32 if number >> 31 else number


def _murmur3_low(content: bytes) -> int:
    """The first 64 bits of MurmurHash3 x64 128, seed 0."""
    first = second = 0
    whole = len(content) - len(content) % 16
    for at in range(0, whole, 16):
        first ^= _mixed(content[at : at + 8], _C1, 31, _C2)
        first = (_rotated(first, 27) + second) * 5 + 0x52DCE729 & _MASK_64
        second ^= _mixed(content[at + 8 : at + 16], _C2, 33, _C1)
        second = (_rotated(second, 31) + first) * 5 + 0x38495AB5 & _MASK_64
    tail = content[whole:]
    second ^= _mixed(tail[8:], _C2, 33, _C1)
    first ^= _mixed(tail[:8], _C1, 31, _C2)
    first ^= len(content)
    second ^= len(content)
    first = first + second & _MASK_64
    second = second + first & _MASK_64
    return _finished(first) + _finished(second) & _MASK_64


def _mixed(block: bytes, before: int, shift: int, after: int) -> int:
    number = int.from_bytes(block, "little") * before & _MASK_64
    return _rotated(number, shift) * after & _MASK_64


def _rotated(number: int, shift: int) -> int:
    return (number << shift | number >> 64 - shift) & _MASK_64


def _finished(number: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        number = (number ^ number >> 33) * factor & _MASK_64
    return number ^ number >> 33
