"""Walking over the records of the log, fast: the reader of recovery, rebuilding and replication.

What is no record ends the walk, unless it lies where the log is known to have been whole: then it
is damage, and the walk goes on behind it (docs/decisions/0007-damage-in-the-log.md).
"""

from collections.abc import Callable, Generator, Iterator
from enum import Enum, auto

from msgspec import Struct

from emberq.kernel import scan_records
from emberq.kernel.scan import ScannedRecord
from emberq.record.layout import (
    BLANK_SIZE_MIN,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PREFIX_IPV4,
    SIZE_AND_MAGIC,
)
from emberq.record.system_flag import BORN_HOST_IPV6, STORE_HOST_IPV6
from emberq.store.commit_log import CommitLog

_MAGICS = (MAGIC_V1, MAGIC_V2)
_MAGIC_PREFIX = MAGIC_V1.to_bytes(4, "big")[:3]
_SEARCH_CHUNK_BYTES = 1024 * 1024
RECORD_SIZE_MIN = 91

# Some callers want the first record only.
RECORDS_AT_ONCE_MIN = 1
RECORDS_AT_ONCE_MAX = 256


# Takes plain records of a segment in its own way: view, position, log offset of the segment's begin
# and end of the room in it; returns the position behind those that it took.
TakePlain = Callable[[memoryview, int, int, int], int]


class ScanStop(Enum):
    """Why a walk ended."""

    END = auto()  # where it was told to, or where the segments end
    UNWRITTEN = auto()  # zeros: nothing was ever written here
    DAMAGED = auto()  # bytes that are no record


class ScanEnd(Struct, frozen=True):
    offset: int  # behind the last good record
    stop: ScanStop
    detail: str = ""


class Damage(Struct, frozen=True):
    """Bytes of the log that are no record although they were one."""

    offset: int
    size: int
    detail: str


class LogScan:
    """Iterate over it; afterwards `end` says how far the log is good and why not farther.

    `whole_until`: below this offset the log was written and synced. What is no record there was
    stepped over and stands in `damages`. `take_plain`: what it takes is not iterated over.
    """

    def __init__(
        self,
        log: CommitLog,
        start: int,
        end: int | None = None,
        *,
        is_crc_checked: bool = True,
        whole_until: int = 0,
        take_plain: TakePlain | None = None,
    ) -> None:
        self._log = log
        self._take_plain = take_plain
        self._start = start
        self._limit = log.end if end is None else end
        self._whole_until = min(whole_until, self._limit)
        self._is_crc_checked = is_crc_checked
        self.end = ScanEnd(start, ScanStop.END)
        self.damages: list[Damage] = []

    def __iter__(self) -> Iterator[ScannedRecord]:
        offset = self._start
        while offset < self._limit:
            found = self._log.segment_at(offset)
            if found is None:
                return
            segment, position = found
            base = offset - position
            room = min(segment.size, self._limit - base)
            position, flaw = yield from self._records(
                segment.view, position, base, room, self._take_plain
            )
            offset = base + position
            if flaw is None:
                # A blank that ends the last segment does not count: it is written again.
                self.end = ScanEnd(offset, ScanStop.END)
                offset = base + segment.size
                if offset <= self._whole_until:
                    self.end = ScanEnd(offset, ScanStop.END)
            elif offset < self._whole_until:
                offset = self._behind_damage(segment.view, position, base, flaw)
                self.end = ScanEnd(offset, ScanStop.END)
            else:
                is_void = not any(segment.view[position : position + BLANK_SIZE_MIN])
                stop = ScanStop.UNWRITTEN if is_void else ScanStop.DAMAGED
                self.end = ScanEnd(offset, stop, flaw)
                return

    def _records(
        self,
        view: memoryview,
        position: int,
        base: int,
        room: int,
        take_plain: TakePlain | None = None,
    ) -> Generator[ScannedRecord, None, tuple[int, str | None]]:
        """Records of one segment up to `room`; returns where they end, and the flaw there."""
        count_max = RECORDS_AT_ONCE_MIN
        while True:
            if take_plain is not None:
                behind = take_plain(view, position, base, room)
                if behind > position:  # others are rare: look again after the next
                    position, count_max = behind, RECORDS_AT_ONCE_MIN
            records, position, is_over, flaw = scan_records(
                view, position, base, room, self._is_crc_checked, count_max
            )
            yield from records
            if is_over:
                return position, _flaw(view, position, base, room) if flaw is None else flaw
            count_max = (
                RECORDS_AT_ONCE_MAX
                if take_plain is None
                else min(2 * count_max, RECORDS_AT_ONCE_MAX)
            )

    def _behind_damage(self, view: memoryview, position: int, base: int, flaw: str) -> int:
        """Where the walk goes on: at the next record, or where the log was whole until."""
        end = min(base + len(view), self._whole_until)
        following = self._next_record(view, position, base, end - base)
        if following is not None:
            end = base + following
        self.damages.append(Damage(base + position, end - base - position, flaw))
        return end

    def _next_record(self, view: memoryview, position: int, base: int, limit: int) -> int | None:
        """Position of the next intact record or blank; its size, if it is right, leads there."""
        size, _ = SIZE_AND_MAGIC.unpack_from(view, position)
        following = position + int(size)
        if _is_size_right(view, position, size) and self._is_good(view, following, base, limit):
            return following
        at = position + 1
        while at < limit:
            chunk = bytes(view[at : at + _SEARCH_CHUNK_BYTES])
            found = chunk.find(_MAGIC_PREFIX)
            while found >= 0:
                candidate = at + found - 4
                if candidate > position and self._is_good(view, candidate, base, limit):
                    return candidate
                found = chunk.find(_MAGIC_PREFIX, found + 1)
            at += _SEARCH_CHUNK_BYTES - len(_MAGIC_PREFIX)
        return None

    def _is_good(self, view: memoryview, position: int, base: int, limit: int) -> bool:
        """Whether an intact record lies here, or the blank that ends the segment."""
        if position + BLANK_SIZE_MIN > limit:
            return False
        if _is_blank(view, position):
            return True
        return next(self._records(view, position, base, limit), None) is not None


def _is_size_right(view: memoryview, position: int, size: int) -> bool:
    """Whether the lengths within a damaged record add up to its size.

    Else a wrong size could lead to an intact record, over others that are intact too.
    """
    end = position + size
    if size < RECORD_SIZE_MIN or end > len(view):
        return False
    content = view[position:end]
    magic, flag = int.from_bytes(content[4:8], "big"), int.from_bytes(content[36:40], "big")
    hosts = sum(12 for bit in (BORN_HOST_IPV6, STORE_HOST_IPV6) if flag & bit)
    body_at = PREFIX_IPV4.size + hosts
    topic_at = body_at + int.from_bytes(content[body_at - 4 : body_at], "big")
    length_size = 1 if magic == MAGIC_V1 else 2
    topic_size = int.from_bytes(content[topic_at : topic_at + length_size], "big")
    properties_at = topic_at + length_size + topic_size
    properties_size = int.from_bytes(content[properties_at : properties_at + 2], "big")
    return properties_at + 2 + properties_size == size


def _flaw(view: memoryview, position: int, base: int, room: int) -> str | None:
    """What is wrong with the head at a position; None if the segment rightly ends there."""
    if position + BLANK_SIZE_MIN > room or _is_blank(view, position):
        return None
    size, magic = SIZE_AND_MAGIC.unpack_from(view, position)
    if magic not in _MAGICS:
        return f"no record begins with {magic:#010x}"
    if size < RECORD_SIZE_MIN or position + size > room:
        return f"a record of {size} bytes does not fit"
    return f"the record does not name {base + position} as its offset"


def _is_blank(view: memoryview, position: int) -> bool:
    size, magic = SIZE_AND_MAGIC.unpack_from(view, position)
    return bool(magic == MAGIC_BLANK and size == len(view) - position)
