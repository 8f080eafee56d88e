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
    slot_count = len(slots)
    previous: list[int] = []
    add_previous = previous.append
    for key_hash in hashes:
        slot = key_hash % slot_count
        add_previous(slots[slot])
        slots[slot] = number
        number += 1
    fields: list[int] = [0] * (4 * count)
    fields[0::4] = hashes
    fields[1::4] = log_offsets
    fields[2::4] = seconds
    fields[3::4] = previous
    return _packer(count)(*fields), previous.count(0)


@lru_cache(maxsize=KEYS_AT_ONCE_MAX)
def _packer(count: int) -> Callable[..., bytes]:
    return Layout(">" + "iqii" * count).pack
