"""Walking over the records of the log, fast: the reader of recovery, rebuilding and replication.

What is no record ends the walk, unless it lies where the log is known to have been whole: then it
is damage, and the walk goes on behind it (docs/decisions/0007-damage-in-the-log.md).
"""

from collections.abc import Generator, Iterator
from enum import Enum, auto
from struct import Struct as Layout
from typing import Any
from zlib import crc32

from msgspec import Struct

from emberq.record.layout import (
    BLANK_SIZE_MIN,
    IPV4_HOST_SIZE,
    IPV6_HOST_SIZE,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    SIZE_AND_MAGIC,
)
from emberq.record.system_flag import BORN_HOST_IPV6, HOSTS_IPV6_MASK, STORE_HOST_IPV6
from emberq.store.commit_log import CommitLog

# Size, magic, CRC, queue id, (flag), queue offset, log offset, system flag, (born time and host),
# store time, (store host, reconsume times, prepared offset), body length.
_HEADS = {
    (born, store): Layout(f">iIIi4xqqi{8 + born}xq{store + 12}xi")
    for born in (IPV4_HOST_SIZE, IPV6_HOST_SIZE)
    for store in (IPV4_HOST_SIZE, IPV6_HOST_SIZE)
}
_HEAD = _HEADS[IPV4_HOST_SIZE, IPV4_HOST_SIZE]
_SHORT = Layout(">H")
_CRC_MASK = 0x7FFFFFFF
_MAGICS = (MAGIC_V1, MAGIC_V2)
_MAGIC_PREFIX = MAGIC_V1.to_bytes(4, "big")[:3]
_SEARCH_CHUNK_BYTES = 1024 * 1024
RECORD_SIZE_MIN = 91


class ScanStop(Enum):
    """Why a walk ended."""

    END = auto()  # where it was told to, or where the segments end
    UNWRITTEN = auto()  # zeros: nothing was ever written here
    DAMAGED = auto()  # bytes that are no record


class ScannedRecord(Struct, frozen=True, gc=False):
    log_offset: int
    size: int
    topic: bytes
    queue_id: int
    queue_offset: int
    system_flag: int
    stored_at_ms: int
    # Where the properties lie in the segment's view.
    view: memoryview
    properties_at: int
    properties_end: int

    @property
    def properties(self) -> bytes:
        return bytes(self.view[self.properties_at : self.properties_end])


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
    stepped over and stands in `damages`.
    """

    def __init__(
        self,
        log: CommitLog,
        start: int,
        end: int | None = None,
        *,
        is_crc_checked: bool = True,
        whole_until: int = 0,
    ) -> None:
        self._log = log
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
            position, flaw = yield from self._records(segment.view, position, base, room)
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
        self, view: memoryview, position: int, base: int, room: int
    ) -> Generator[ScannedRecord, None, tuple[int, str | None]]:
        """Records of one segment up to `room`; returns where they end, and the flaw there.

        Written for speed: a store that was not closed waits for this loop.
        """
        is_crc_checked = self._is_crc_checked
        unpack_head, head_size = _HEAD.unpack_from, _HEAD.size
        last_head = room - head_size
        while position <= last_head:
            (
                size,
                magic,
                crc,
                queue_id,
                queue_offset,
                log_offset,
                system_flag,
                stored_at_ms,
                body_size,
            ) = unpack_head(view, position)
            end = position + size
            if log_offset != base + position or end > room or magic not in _MAGICS:
                break
            body_at = position + head_size
            if system_flag & HOSTS_IPV6_MASK:
                layout = _layout_of(system_flag)
                body_at = position + layout.size
                if body_at > room:
                    break
                *_, stored_at_ms, body_size = layout.unpack_from(view, position)
            body_end = body_at + body_size
            if body_size < 0 or body_end + 3 > end:
                return position, f"a body of {body_size} bytes does not fit"
            if is_crc_checked and body_size and crc32(view[body_at:body_end]) & _CRC_MASK != crc:
                return position, "the checksum of the body is wrong"
            if magic == MAGIC_V1:
                topic_at = body_end + 1
                topic_end = topic_at + view[body_end]
            else:
                topic_at = body_end + 2
                topic_end = topic_at + _SHORT.unpack_from(view, body_end)[0]
            if topic_end + 2 > end or topic_end + 2 + _SHORT.unpack_from(view, topic_end)[0] != end:
                return position, f"its lengths do not add up to {size}"
            yield ScannedRecord(
                log_offset,
                size,
                bytes(view[topic_at:topic_end]),
                queue_id,
                queue_offset,
                system_flag,
                stored_at_ms,
                view,
                topic_end + 2,
                end,
            )
            position = end
        return position, _flaw(view, position, base, room)

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
        if size >= RECORD_SIZE_MIN and self._is_good(view, following, base, limit):
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


def _layout_of(system_flag: int) -> Any:
    return _HEADS[
        IPV6_HOST_SIZE if system_flag & BORN_HOST_IPV6 else IPV4_HOST_SIZE,
        IPV6_HOST_SIZE if system_flag & STORE_HOST_IPV6 else IPV4_HOST_SIZE,
    ]


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
