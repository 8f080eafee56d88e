"""Hashes of many index keys at once: the same numbers as `record.string_hash.index_hash`.

Java's string hash is a polynomial in 31 over the characters. A block of ASCII keys, each padded
on the left with zeros to one width, is one big integer; neighbouring lanes of it are combined
(8 → 16 → 32 → … bits; the lanes grow faster than the numbers in them), so that a handful of
big-integer operations hashes the whole block. Zeros on the left do not change a hash.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct as Layout

from emberq.record.string_hash import index_hash, java_string_hash

KEYS_AT_ONCE_MAX = 128
KEY_LENGTH_MAX = 64  # longer keys, and keys that are not ASCII, are hashed one at a time
STARTS_CACHED_MAX = 16_384  # pairs of topic and key length
SHARED_STARTS_CACHED_MAX = 1024  # beginnings that the keys of a batch share

TAG_MARK = "T#"  # brokers since 5.5 also index the tag, as the key `T#` and the tag
TAG_HASHES_CACHED_MAX = 4096
TAG_LENGTH_CACHED_MAX = 128

_BELOW_WHICH_ONE_AT_A_TIME_IS_FASTER = 3
_COUNT_STEP = 8  # plans are made for multiples of this many keys, to have few of them
_WIDTHS = (4, 8, 16, 32, 64)
_WIDTH_OF_LENGTH = [next(w for w in _WIDTHS if w >= n) for n in range(KEY_LENGTH_MAX + 1)]

_UNSIGNED = 0xFFFF_FFFF
_NEGATIVE_MIN = 0x8000_0000
_POSITIVE = 0x7FFF_FFFF
_POWERS = [pow(31, exponent, 1 << 32) for exponent in range(KEY_LENGTH_MAX + 1)]


class _Starts(dict[tuple[str, int], int]):
    """What the topic contributes to the hash of a key of some length: hash(topic#)·31^length."""

    def __missing__(self, topic_and_length: tuple[str, int]) -> int:
        if len(self) >= STARTS_CACHED_MAX:
            self.clear()
        topic, length = topic_and_length
        self[topic_and_length] = start = java_string_hash(f"{topic}#") * _POWERS[length] & _UNSIGNED
        return start


_starts = _Starts()
_start_of = _starts.__getitem__


def index_hashes(topics: Sequence[str], keys: Sequence[str]) -> list[int]:
    """Return `index_hash(f"{topic}#{key}")` of each pair; at most KEYS_AT_ONCE_MAX of them."""
    assert len(topics) == len(keys) <= KEYS_AT_ONCE_MAX
    if len(keys) < _BELOW_WHICH_ONE_AT_A_TIME_IS_FASTER:
        return [index_hash(f"{topic}#{key}") for topic, key in zip(topics, keys, strict=True)]
    lengths = list(map(len, keys))
    longest = max(lengths)
    is_one_length = min(lengths) == longest
    if is_one_length and topics.count(topics[0]) == len(topics):
        alike = _alike_index_hashes(topics[0], keys)
        if alike is not None:
            return alike
    if longest > KEY_LENGTH_MAX:
        return _with_odd_keys(topics, keys)
    width = _WIDTH_OF_LENGTH[longest]
    if is_one_length:
        padding = "\0" * (width - longest)
        block = padding.join(keys)
    else:
        block = "".join([key.rjust(width, "\0") for key in keys])
    if not block.isascii():
        return _with_odd_keys(topics, keys)
    hashes = _hash_block(block.encode("ascii"), width, len(keys))
    starts = map(_start_of, zip(topics, lengths, strict=True))
    # Java's abs comes last; its one negative result is replaced by 0, as the index does.
    return [
        number if (number := start + hashed & _UNSIGNED) < _NEGATIVE_MIN else -number & _POSITIVE
        for start, hashed in zip(starts, hashes, strict=True)
    ]


def _alike_index_hashes(topic: str, keys: Sequence[str]) -> list[int] | None:
    """Those of keys of one length, if they have something in common to gain from."""
    first, last = min(keys), max(keys)
    if not (first.isascii() and last.isascii()):
        return None
    width = differing_width(first.encode(), last.encode())
    at = len(first) - width
    if at < 1 or not width:
        return None
    shared = first[:at]
    try:
        ends = "".join([key[at:] for key in keys]).encode("ascii")
    except UnicodeEncodeError:
        return None
    return _hashes_behind(topic, shared.encode(), ends, width)


def differing_width(first: bytes, last: bytes) -> int:
    """How many bytes at the end of keys to hash one by one, if all begin as these two do: at most
    0 if there are too many. Both have one length."""
    differing = int.from_bytes(first, "big") ^ int.from_bytes(last, "big")
    size = (differing.bit_length() + 7) // 8
    return _WIDTH_OF_LENGTH[size] if size <= KEY_LENGTH_MAX else 0


def index_hashes_behind(topic: str, shared: bytes, ends: list[bytes]) -> list[int] | None:
    """The same for keys of one topic that begin alike and end in so many bytes each, one of the
    widths. Keys of one client do, and what they share is hashed once.

    None if they are not plain, too many, or hold what ends a property.
    """
    block, width = b"".join(ends), len(ends[0])
    if (
        len(ends) > KEYS_AT_ONCE_MAX
        or not block.isascii()
        or not shared.isascii()
        or b"\x02" in block
        or b"\x02" in shared
    ):
        return None
    return _hashes_behind(topic, shared, block, width)


def _hashes_behind(topic: str, shared: bytes, block: bytes, width: int) -> list[int]:
    start = _shared_start(topic, shared, width)
    return [
        number if (number := start + hashed & _UNSIGNED) < _NEGATIVE_MIN else -number & _POSITIVE
        for hashed in _hash_block(block, width, len(block) // width)
    ]


@lru_cache(maxsize=SHARED_STARTS_CACHED_MAX)
def _shared_start(topic: str, shared: bytes, rest_length: int) -> int:
    return java_string_hash(f"{topic}#{shared.decode('ascii')}") * _POWERS[rest_length] & _UNSIGNED


def hash_into(
    hashes: list[int], places: Sequence[int], topics: Sequence[str], keys: Sequence[str]
) -> None:
    """Put the hash of each topic and key, of which there may be any number, into its place."""
    for at in range(0, len(keys), KEYS_AT_ONCE_MAX):
        behind = at + KEYS_AT_ONCE_MAX
        found = index_hashes(topics[at:behind], keys[at:behind])
        for place, key_hash in zip(places[at:behind], found, strict=True):
            hashes[place] = key_hash


def tag_index_hash(topic: str, tag: str) -> int:
    """The hash under which a tag is indexed. Tags repeat, so it is computed once."""
    if len(tag) > TAG_LENGTH_CACHED_MAX:
        return index_hash(f"{topic}#{TAG_MARK}{tag}")
    return _short_tag_index_hash(topic, tag)


@lru_cache(maxsize=TAG_HASHES_CACHED_MAX)
def _short_tag_index_hash(topic: str, tag: str) -> int:
    return index_hash(f"{topic}#{TAG_MARK}{tag}")


def _with_odd_keys(topics: Sequence[str], keys: Sequence[str]) -> list[int]:
    is_plain = [len(key) <= KEY_LENGTH_MAX and key.isascii() for key in keys]
    hashes = index_hashes(
        topics, [key if plain else "" for key, plain in zip(keys, is_plain, strict=True)]
    )
    for index, plain in enumerate(is_plain):
        if not plain:
            hashes[index] = index_hash(f"{topics[index]}#{keys[index]}")
    return hashes


def _hash_block(block: bytes, width: int, count: int) -> tuple[int, ...]:
    """Hashes of `count` keys; the first may lack its padding."""
    lane_count = -(-count // _COUNT_STEP) * _COUNT_STEP
    steps, unpack = _plan(width, lane_count)
    number = int.from_bytes(block, "big")
    for shift, mask, factor in steps:
        number = (number & mask) + (number >> shift & mask) * factor
    return unpack(number.to_bytes(width * lane_count, "big"))[lane_count - count :]


_Step = tuple[int, int, int]


@lru_cache(maxsize=len(_WIDTHS) * KEYS_AT_ONCE_MAX // _COUNT_STEP)
def _plan(width: int, lane_count: int) -> tuple[list[_Step], Callable[[bytes], tuple[int, ...]]]:
    """Shift, mask of the lower halves and factor for each doubling of the lanes."""
    steps = []
    half = 1
    while half < width:
        lanes = width * lane_count // (2 * half)
        mask = int.from_bytes((bytes(half) + b"\xff" * half) * lanes, "big")
        steps.append((8 * half, mask, pow(31, half, 1 << 32)))
        half *= 2
    return steps, Layout(">" + f"{width - 4}xI" * lane_count).unpack
