"""A unit of the timer log: one waiting message, chained to the one before it in its slot.

The layout is docs/formats/timer-files.md.
"""

from collections.abc import Iterator
from struct import Struct as Layout

from emberq.record.layout import BytesLike

# Size, position of the unit before it in its slot, flags, when it was written, delivery slot as
# distance from that, log offset and size of the message, hash of its topic, and a number that
# official brokers leave 0: EmberQ keeps the millisecond there at which the message is due.
UNIT = Layout(">iqiqiqiiq")
UNIT_SIZE = 52
assert UNIT.size == UNIT_SIZE

# Ends a file that has no room for another unit: length of the rest, 0, magic.
BLANK = Layout(">iqI")
BLANK_MAGIC = 0xCBD43194

NO_POSITION = -1

# Flags.
WAITS = 1
ROLLS = 2  # its time is beyond the wheel: it is put again when the slot comes
DELETES = 4  # takes another message of the slot back
_FLAGS_MAX = 0xF


def unit_capacity(file_size: int) -> int:
    """How many units a file takes before its blank."""
    return (file_size - BLANK.size) // UNIT_SIZE


def ending(rest: int) -> bytes:
    """What stands in the rest of a full file."""
    return BLANK.pack(rest, 0, BLANK_MAGIC).ljust(rest, b"\0")


def is_unit(content: BytesLike, position: int) -> bool:
    """Whether a unit stands at a position, by the official rule."""
    size, _, flags = BLANK.unpack_from(content, position)
    return bool(size == UNIT_SIZE and 0 < flags <= _FLAGS_MAX)


def iter_units(content: BytesLike) -> Iterator[tuple[int, ...]]:
    """Units from the start of some bytes on, up to the first thing that is none."""
    whole = len(content) - len(content) % UNIT_SIZE
    for unit in UNIT.iter_unpack(content[:whole]):
        if unit[0] != UNIT_SIZE or not 0 < unit[2] <= _FLAGS_MAX:
            return
        yield unit
