"""Walking over a log that may be damaged: what ends recovery's scan is only reported here.

Behind bytes that are no record the walk goes on at the next record that names its own offset, so
one broken page does not hide the rest of the log. Memory stays flat: one window of bytes.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple
from zlib import crc32

from emberq.record.decode import decode_record
from emberq.record.layout import (
    BLANK_SIZE_MIN,
    IPV4_HOST_SIZE,
    IPV6_HOST_SIZE,
    LOG_OFFSET_POSITION,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PREFIX_BY_HOST_SIZES,
    PREFIX_IPV4,
    SIZE_AND_MAGIC,
    TIMESTAMP,
)
from emberq.record.record import Record
from emberq.record.system_flag import BORN_HOST_IPV6, HOSTS_IPV6_MASK, STORE_HOST_IPV6
from emberq.store.log_scan import RECORD_SIZE_MIN
from emberq.store.view.files import PlacedFile
from emberq.store.view.log import LogView

WINDOW_SIZE_BYTES = 1024 * 1024

_PREFIX_SIZE = PREFIX_IPV4.size
_CRC_MASK = 0x7FFF_FFFF
# Both versions begin like this; their last byte is checked with the rest.
_RECORD_MAGIC_START = MAGIC_V1.to_bytes(4, "big")[:3]
_BLANK_MAGIC = MAGIC_BLANK.to_bytes(4, "big")
# From a record's first byte to behind its log offset: what tells a record from its look-alikes.
_PROOF_SIZE = LOG_OFFSET_POSITION + TIMESTAMP.size


class LogRecord(NamedTuple):
    """A record's head and lengths; the rest is read from the window while the walk stands here."""

    log_offset: int
    size: int
    topic: bytes
    queue_id: int
    queue_offset: int
    system_flag: int
    stored_at_ms: int
    is_body_intact: bool  # True also when checksums are not looked at
    window: bytes
    position: int  # in the window
    properties_size: int

    @property
    def properties(self) -> bytes:
        end = self.position + self.size
        return self.window[end - self.properties_size : end]

    @property
    def content(self) -> bytes:
        return self.window[self.position : self.position + self.size]

    def decode(self) -> Record:
        """Every field, with a copy of the body."""
        return decode_record(self.content, is_crc_checked=False)


class FlawKind(Enum):
    DAMAGED = "damaged"  # bytes that are no record
    HOLE = "hole"  # zeros where records stand before and behind
    MISSING = "missing"  # a file, or the end of a file, is not there
    UNREADABLE = "unreadable"  # the system refuses to read


class Flaw(NamedTuple):
    """A range of the log without records where there should be some."""

    log_offset: int
    end: int
    kind: FlawKind
    detail: str

    @property
    def size(self) -> int:
        return self.end - self.log_offset


class LogWalk:
    """Iterate over it for records and flaws in log order.

    Afterwards `end` is behind the last record, and `tail` is what follows it if that is more than
    unwritten zeros: a torn write, or an earlier life of the file.
    """

    def __init__(self, log: LogView, *, start: int | None = None, is_crc_checked: bool) -> None:
        self._log = log
        self._start = log.min_offset if start is None else start
        self._is_crc_checked = is_crc_checked
        self._pending: Flaw | None = None  # no record followed it so far
        self.end = self._start
        self.tail: Flaw | None = None

    def __iter__(self) -> Iterator[LogRecord | Flaw]:
        previous_end: int | None = None
        for segment in self._log.segments:
            if segment.end <= self._start:
                continue
            if previous_end is not None and segment.start != previous_end:
                self._note(Flaw(previous_end, segment.start, FlawKind.MISSING, "no file has these"))
            previous_end = segment.end
            for found in _SegmentWalk(self._log, segment, self._is_crc_checked).run(
                max(self._start - segment.start, 0)
            ):
                if isinstance(found, Flaw):
                    self._note(found)
                    continue
                if self._pending is not None:
                    yield self._pending
                    self._pending = None
                yield found
                self.end = found.log_offset + found.size
        self.tail = self._tail()

    def _note(self, flaw: Flaw) -> None:
        pending = self._pending
        if pending is not None and pending.end == flaw.log_offset:
            # One region: what is not just empty names it.
            named = flaw if pending.kind is FlawKind.HOLE else pending
            flaw = Flaw(pending.log_offset, flaw.end, named.kind, named.detail)
        self._pending = flaw

    def _tail(self) -> Flaw | None:
        flaw = self._pending
        if flaw is None or flaw.kind is FlawKind.HOLE:
            return None
        if flaw.kind is FlawKind.DAMAGED:
            return flaw._replace(end=self._written_end(flaw))
        return flaw

    def _written_end(self, flaw: Flaw) -> int:
        """Behind the last byte of a range that is not zero."""
        written_end = position = flaw.log_offset
        while position < flaw.end:
            try:
                window = self._log.read(position, min(WINDOW_SIZE_BYTES, flaw.end - position))
            except OSError:
                return flaw.end
            if not window:
                break
            if window.count(0) != len(window):
                written_end = position + len(window.rstrip(b"\0"))
            position += len(window)
        return written_end


class _SegmentWalk:
    """The records and flaws of one segment. Positions count from its start."""

    def __init__(self, log: LogView, segment: PlacedFile, is_crc_checked: bool) -> None:
        self._log = log
        self._segment = segment
        self._is_crc_checked = is_crc_checked
        self._window = b""
        self._window_start = 0

    def run(self, position: int) -> Iterator[LogRecord | Flaw]:
        segment = self._segment
        while position + BLANK_SIZE_MIN <= segment.size:
            try:
                record = self._parse(position)
            except _NoRecord as reason:
                position, flaws = self._skip(position, str(reason))
                yield from flaws
            except OSError as error:
                end = min(position + WINDOW_SIZE_BYTES, segment.size)
                if isinstance(error, PermissionError):
                    end = segment.size
                yield self._flaw(position, end, FlawKind.UNREADABLE, error.strerror or str(error))
                position = self._next_start(end)
            else:
                if record is None:
                    return
                yield record
                position += record.size

    def _parse(self, position: int) -> LogRecord | None:
        """The record at a position; None for the blank that ends the segment."""
        head, window, at = self._head(position)
        size, magic, crc, queue_id, _, queue_offset, log_offset, system_flag = head[:8]
        if magic == MAGIC_BLANK:
            return None
        body_at = at + _PREFIX_SIZE
        if system_flag & HOSTS_IPV6_MASK:
            layout = PREFIX_BY_HOST_SIZES[
                IPV6_HOST_SIZE if system_flag & BORN_HOST_IPV6 else IPV4_HOST_SIZE,
                IPV6_HOST_SIZE if system_flag & STORE_HOST_IPV6 else IPV4_HOST_SIZE,
            ]
            if size < layout.size + 3:
                raise _NoRecord(f"a record of {size} bytes does not fit")
            body_at = at + layout.size
            head = layout.unpack_from(window, at)
        stored_at_ms, body_size = head[10], head[14]
        end = at + size
        body_end = body_at + body_size
        topic_at = body_end + (1 if magic == MAGIC_V1 else 2)
        if body_size < 0 or topic_at + 2 > end:
            raise _NoRecord(f"a body of {body_size} bytes does not fit")
        topic_end = topic_at + int.from_bytes(window[body_end:topic_at], "big")
        properties_at = topic_end + 2
        if properties_at > end:
            raise _NoRecord("its topic does not fit")
        if properties_at + int.from_bytes(window[topic_end:properties_at], "big") != end:
            raise _NoRecord(f"its lengths do not add up to {size}")
        is_intact = True
        if self._is_crc_checked and body_size:
            is_intact = crc32(memoryview(window)[body_at:body_end]) & _CRC_MASK == crc
        return LogRecord(
            log_offset,
            size,
            window[topic_at:topic_end],
            queue_id,
            queue_offset,
            system_flag,
            stored_at_ms,
            is_intact,
            window,
            at,
            end - properties_at,
        )

    def _head(self, position: int) -> tuple[tuple[Any, ...], bytes, int]:
        """The fields of an IPv4 head, and where in which window the whole record is."""
        segment = self._segment
        window, at = self._window, position - self._window_start
        if not 0 <= at <= len(window) - _PREFIX_SIZE:
            window, at = self._load(position, WINDOW_SIZE_BYTES), 0
            if len(window) < _PREFIX_SIZE:  # room for a blank only
                window = window.ljust(_PREFIX_SIZE, b"\0")
        head = PREFIX_IPV4.unpack_from(window, at)
        size, magic = head[0], head[1]
        left = segment.size - position
        if magic == MAGIC_BLANK and size == left:
            return head, window, at
        if (
            magic not in (MAGIC_V1, MAGIC_V2)
            or head[6] != segment.start + position
            or not RECORD_SIZE_MIN <= size <= left
        ):
            raise _NoRecord(_flaw_of_head(head, left))
        if at + size > len(window):
            window, at = self._load(position, max(size, WINDOW_SIZE_BYTES)), 0
            if size > len(window):
                raise _NoRecord("its end cannot be read")
        return head, window, at

    def _skip(self, position: int, reason: str) -> tuple[int, list[Flaw]]:
        """Go on behind bytes that are no record; a broker that runs may have written them since."""
        following = self._next_start(position + 1)
        self._window = b""
        kind = FlawKind.DAMAGED
        try:
            self._parse(position)
        except _NoRecord:
            if self._is_empty(position, following):
                kind = FlawKind.HOLE
        except OSError:
            pass  # what cannot be read is not written either
        else:
            return position, []
        return following, [self._flaw(position, following, kind, reason)]

    def _flaw(self, position: int, end: int, kind: FlawKind, detail: str) -> Flaw:
        start = self._segment.start
        return Flaw(start + position, start + end, kind, detail)

    def _next_start(self, position: int) -> int:
        """Where the next record or blank begins; the end of the segment if there is none."""
        while position < self._segment.size:
            try:
                window = self._load(position, WINDOW_SIZE_BYTES)
            except OSError:
                position += WINDOW_SIZE_BYTES
                continue
            found = self._candidate(window, position)
            if found is not None:
                return found
            # What the window cuts off is looked at again with the next.
            position += max(len(window) - _PROOF_SIZE, 1)
            if position + RECORD_SIZE_MIN > self._segment.size:
                break
        return self._segment.size

    def _candidate(self, window: bytes, window_start: int) -> int | None:
        segment = self._segment
        proven: list[int] = []
        at = window.find(_RECORD_MAGIC_START, 4)
        while at >= 0:
            start = at - 4
            head = window[start : start + _PROOF_SIZE]
            if len(head) == _PROOF_SIZE:
                position = window_start + start
                (named,) = TIMESTAMP.unpack_from(head, LOG_OFFSET_POSITION)
                size, _ = SIZE_AND_MAGIC.unpack_from(head)
                if (
                    named == segment.start + position
                    and RECORD_SIZE_MIN <= size <= segment.size - position
                ):
                    proven.append(position)
                    break
            at = window.find(_RECORD_MAGIC_START, at + 1)
        at = window.find(_BLANK_MAGIC, 4)
        while at >= 0:
            position = window_start + at - 4
            if SIZE_AND_MAGIC.unpack_from(window, at - 4)[0] == segment.size - position:
                proven.append(position)
                break
            at = window.find(_BLANK_MAGIC, at + 1)
        return min(proven, default=None)

    def _is_empty(self, position: int, end: int) -> bool:
        while position < end:
            try:
                window = self._load(position, min(WINDOW_SIZE_BYTES, end - position))
            except OSError:
                return False
            if window.count(0) != len(window):
                return False
            position += max(len(window), 1)
        return True

    def _load(self, position: int, size: int) -> bytes:
        segment = self._segment
        size = min(size, segment.size - position)
        self._window_start = position
        self._window = b""  # not kept if reading fails
        self._window = self._log.read(segment.start + position, size)
        return self._window


class _NoRecord(Exception):
    """Raised where the bytes make no sense; says why."""


def _flaw_of_head(head: tuple[Any, ...], left: int) -> str:
    size, magic, log_offset = head[0], head[1], head[6]
    if size == 0 and magic == 0:
        return "nothing is written here"
    if magic == MAGIC_BLANK:
        return f"a blank of {size} bytes where {left} are left"
    if magic not in (MAGIC_V1, MAGIC_V2):
        return f"no record begins with {magic:#010x}"
    if not RECORD_SIZE_MIN <= size <= left:
        return f"a record of {size} bytes does not fit"
    return f"the record names its offset {log_offset}"
