"""Walking over the records of the log, fast: the reader of recovery, rebuilding and tools."""

from collections.abc import Iterator
from enum import Enum, auto
from struct import Struct as Layout
from struct import error as LayoutError
from typing import NamedTuple
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

# Size, magic, CRC, queue id, (flag), queue offset, log offset, system flag.
_HEAD = Layout(">iIIi4xqqi")
_LONG = Layout(">q")
_INT = Layout(">i")
_SHORT = Layout(">H")
_BORN_HOST_AT = 48
# Behind the store host: reconsume times and prepared offset, then the body's length.
_AFTER_STORE_HOST = 12
_CRC_MASK = 0x7FFFFFFF
_MAGICS = (MAGIC_V1, MAGIC_V2)
RECORD_SIZE_MIN = 91


class ScanStop(Enum):
    """Why a walk ended."""

    END = auto()  # where it was told to
    UNWRITTEN = auto()  # zeros: nothing was ever written here
    DAMAGED = auto()  # bytes that are no record


class ScannedRecord(NamedTuple):
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
    properties_size: int

    @property
    def properties(self) -> bytes:
        return bytes(self.view[self.properties_at : self.properties_at + self.properties_size])


class ScanEnd(Struct, frozen=True):
    offset: int  # behind the last good record
    stop: ScanStop
    detail: str = ""


class LogScan:
    """Iterate over it; afterwards `end` says how far the log is good and why not farther."""

    def __init__(
        self, log: CommitLog, start: int, end: int | None = None, *, is_crc_checked: bool = True
    ) -> None:
        self._log = log
        self._start = start
        self._limit = log.end if end is None else end
        self._is_crc_checked = is_crc_checked
        self.end = ScanEnd(start, ScanStop.END)

    def __iter__(self) -> Iterator[ScannedRecord]:
        offset = self._start
        try:
            while offset < self._limit:
                found = self._log.segment_at(offset)
                if found is None:
                    # A blank that ends the last segment does not count: it is written again.
                    return
                segment, position = found
                base = offset - position
                self.end = ScanEnd(offset, ScanStop.END)
                for record in self._records(segment.view, position, base):
                    offset = record.log_offset + record.size
                    yield record
                if offset + BLANK_SIZE_MIN <= min(base + segment.size, self._limit) and (
                    not _is_blank(segment.view, offset - base)
                ):
                    return
                self.end = ScanEnd(offset, ScanStop.END)
                offset = base + segment.size
        except _NoRecord as flaw:
            self.end = ScanEnd(flaw.offset, flaw.stop, flaw.detail)
        except LayoutError as error:
            self.end = ScanEnd(offset, ScanStop.DAMAGED, f"a record is cut off: {error}")

    def _records(self, view: memoryview, position: int, base: int) -> Iterator[ScannedRecord]:
        """Records of one segment, until its blank or the limit."""
        is_crc_checked = self._is_crc_checked
        unpack_head = _HEAD.unpack_from
        whole = len(view) - _HEAD.size  # up to here a head can be read in one piece
        last = min(len(view), self._limit - base) - BLANK_SIZE_MIN
        while position <= last:
            head = view if position <= whole else _padded(view, position)
            size, magic, crc, queue_id, queue_offset, log_offset, system_flag = unpack_head(
                head, position if head is view else 0
            )
            if magic == MAGIC_BLANK:
                return
            end = position + size
            if (
                log_offset != base + position
                or size < RECORD_SIZE_MIN
                or end > len(view)
                or magic not in _MAGICS
            ):
                raise _flaw(base + position, size, magic, log_offset, len(view) - position)
            at = position + _BORN_HOST_AT
            if system_flag & HOSTS_IPV6_MASK:
                at += IPV6_HOST_SIZE if system_flag & BORN_HOST_IPV6 else IPV4_HOST_SIZE
                store_host_size = (
                    IPV6_HOST_SIZE if system_flag & STORE_HOST_IPV6 else IPV4_HOST_SIZE
                )
            else:
                at += IPV4_HOST_SIZE
                store_host_size = IPV4_HOST_SIZE
            (stored_at_ms,) = _LONG.unpack_from(view, at)
            at += 8 + store_host_size + _AFTER_STORE_HOST
            (body_size,) = _INT.unpack_from(view, at)
            at += 4
            body_end = at + body_size
            if body_size < 0 or body_end + 3 > end:
                raise _NoRecord(base + position, f"a body of {body_size} bytes does not fit")
            if is_crc_checked and crc32(view[at:body_end]) & _CRC_MASK != crc and body_size:
                raise _NoRecord(base + position, "the checksum of the body is wrong")
            if magic == MAGIC_V1:
                topic_at = body_end + 1
                topic_end = topic_at + view[body_end]
            else:
                topic_at = body_end + 2
                topic_end = topic_at + _SHORT.unpack_from(view, body_end)[0]
            if topic_end + 2 > end:
                raise _NoRecord(base + position, "its topic does not fit")
            (properties_size,) = _SHORT.unpack_from(view, topic_end)
            if topic_end + 2 + properties_size != end:
                raise _NoRecord(base + position, f"its lengths do not add up to {size}")
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
                properties_size,
            )
            position = end


class _NoRecord(Exception):
    """Raised within a scan where the bytes stop making sense."""

    def __init__(self, offset: int, detail: str, stop: ScanStop = ScanStop.DAMAGED) -> None:
        super().__init__(detail)
        self.offset = offset
        self.detail = detail
        self.stop = stop


def _flaw(offset: int, size: int, magic: int, log_offset: int, room: int) -> _NoRecord:
    if size == 0 and magic == 0:
        return _NoRecord(offset, "nothing was written here", ScanStop.UNWRITTEN)
    if magic not in _MAGICS:
        return _NoRecord(offset, f"no record begins with {magic:#010x}")
    if size > room or size < RECORD_SIZE_MIN:
        return _NoRecord(offset, f"a record of {size} bytes does not fit")
    return _NoRecord(offset, f"the record here names its offset {log_offset}")


def _padded(view: memoryview, position: int) -> bytes:
    """The last bytes of a segment, as long as a head."""
    return bytes(view[position:]).ljust(_HEAD.size, b"\0")


def _is_blank(view: memoryview, position: int) -> bool:
    return bool(SIZE_AND_MAGIC.unpack_from(view, position)[1] == MAGIC_BLANK)
