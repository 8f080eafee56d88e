"""New entries of an index file, each linked to the one before it in its slot."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct as Layout

from emberq.kernel.key_hashes import KEYS_AT_ONCE_MAX


def chain_entries(
    slots: memoryview,
    number: int,
    hashes: Sequence[int],
    log_offsets: Sequence[int],
    seconds: Sequence[int],
) -> tuple[bytes, int]:
    """Give the entries numbers from `number` on and enter them into the slots.

    Returns their bytes, and how many slots were empty. At most KEYS_AT_ONCE_MAX at a time.
    """
    count = len(hashes)
    previous = _entered(slots, number, hashes)
    fields: list[int] = [0] * (4 * count)
    fields[0::4] = hashes
    fields[1::4] = log_offsets
    fields[2::4] = seconds
    fields[3::4] = previous
    return _packer(count)(*fields), previous.count(0)


def _entered(slots: memoryview, number: int, hashes: Sequence[int]) -> list[int]:
    """Enter numbers into the slots of the hashes; returns what the slots held before each."""
    slot_count = len(slots)
    tags = hashes[1::2]
    if tags and 2 * len(tags) == 2 * tags.count(tags[0]) == len(hashes):
        # Messages with a unique key and the same tag: the entries of the tag lead to one another.
        own = [key_hash % slot_count for key_hash in hashes[0::2]]
        tag = tags[0] % slot_count
        if len({tag, *own}) == len(own) + 1:
            behind = number + len(hashes)
            previous = [slots[tag], *range(number - 1, behind - 2)]
            previous[1] = slots[tag]
            previous[0::2] = [slots[slot] for slot in own]
            for slot in own:
                slots[slot] = number
                number += 2
            slots[tag] = behind - 1
            return previous
    previous = []
    add_previous = previous.append
    for key_hash in hashes:
        slot = key_hash % slot_count
        add_previous(slots[slot])
        slots[slot] = number
        number += 1
    return previous


@lru_cache(maxsize=KEYS_AT_ONCE_MAX)
def _packer(count: int) -> Callable[..., bytes]:
    return Layout(">" + "iqii" * count).pack
