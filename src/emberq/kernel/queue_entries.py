"""Which entries of a consume queue one read serves."""

from collections.abc import Callable
from struct import Struct as Layout

_ENTRY = Layout(">qiq")  # log offset, record size, tag code
FILLER_RECORD_SIZE = 0x7FFFFFFF  # of an entry that only fills the queue's first file

EntryFilter = Callable[[int], bool]
# Queue offset, log offset and size of a message.
Wanted = tuple[int, int, int]


def choose_entries(
    content: bytes,
    offset: int,
    count_max: int,
    size_max: int,
    log_min: int,
    log_end: int,
    segment_size: int,
    accepts: EntryFilter | None,
) -> tuple[list[Wanted], int, bool]:
    """The messages to serve, the offset to go on at, and whether deleted ones were passed.

    `content` holds whole entries from queue offset `offset` on. The first message is served
    whatever its size.
    """
    wanted: list[Wanted] = []
    size_left = size_max
    was_removed = False
    next_offset = offset
    last = -1
    for log_offset, size, tag_code in _ENTRY.iter_unpack(content):
        if log_offset < log_min or size == FILLER_RECORD_SIZE:
            was_removed = True
            next_offset += 1
            continue
        if log_offset == last:
            # A hole in the queue leads to the message behind it, which must not come twice.
            wanted[-1] = (next_offset, log_offset, size)
            next_offset += 1
            continue
        if wanted and (len(wanted) >= count_max or size > size_left):
            break
        next_offset += 1
        if accepts is not None and not accepts(tag_code):
            continue
        if (
            size <= 0
            or log_offset + size > log_end
            or log_offset % segment_size + size > (segment_size)
        ):
            continue  # a damaged entry
        wanted.append((next_offset - 1, log_offset, size))
        last = log_offset
        size_left -= size
    return wanted, next_offset, was_removed


def choose_ranges(
    content: bytes | bytearray,
    start: int,
    stop: int,
    count_max: int,
    size_max: int,
    log_min: int,
    log_end: int,
    segment_size: int,
) -> tuple[list[tuple[int, int]], int, int, int]:
    """The messages to serve where every one is wanted, from the entries between two positions:
    their log offsets and sizes, one for those that lie back to back; then how many messages and
    bytes they are, and how many entries that was."""
    wanted, passed, _ = choose_entries(
        bytes(content[start:stop]), 0, count_max, size_max, log_min, log_end, segment_size, None
    )
    ranges: list[tuple[int, int]] = []
    for _, log_offset, size in wanted:
        if ranges and sum(ranges[-1]) == log_offset:
            first, before = ranges[-1]
            ranges[-1] = (first, before + size)
        else:
            ranges.append((log_offset, size))
    return ranges, len(wanted), sum(size for _, size in ranges), passed
