"""Finding messages by other things than their queue offset: log offset, time, key."""

from collections.abc import Callable
from enum import Enum, auto
from struct import Struct as Layout

from emberq.errors import RecordError
from emberq.kernel.queue_entries import FILLER_RECORD_SIZE
from emberq.record.decode import decode_record
from emberq.record.layout import (
    BORN_HOST_POSITION,
    IPV4_HOST_SIZE,
    IPV6_HOST_SIZE,
    LOG_OFFSET_POSITION,
    MAGIC_V1,
    MAGIC_V2,
    SIZE_AND_MAGIC,
    SYSTEM_FLAG_LOW_BYTE_POSITION,
)
from emberq.record.system_flag import BORN_HOST_IPV6
from emberq.store.commit_log import CommitLog
from emberq.store.consume_queue import ENTRY, ConsumeQueue

_LONG = Layout(">q")
_HEAD_SIZE = 80  # size to store timestamp, whatever the hosts
_NO_TIME = -1

ReadLog = Callable[[int, int], bytes | None]


class Boundary(Enum):
    """Which message a time between two messages means."""

    LOWER = auto()  # the first at or after it
    UPPER = auto()  # the last at or before it


class Lookup:
    """Reads through `read_log(offset, size)`, which may wait: call it in a thread for cold data."""

    def __init__(self, commit_log: CommitLog, read_log: ReadLog) -> None:
        self._log = commit_log
        self._read_log = read_log

    def record_at(self, log_offset: int) -> bytes | None:
        """The record that begins at an offset; None if none does, or if it is damaged."""
        size = self._size_at(log_offset)
        content = None if size is None else self._read_log(log_offset, size)
        if content is None or len(content) != size:  # deleted meanwhile
            return None
        try:
            decode_record(memoryview(content))
        except RecordError:
            return None
        return content

    def stored_at_ms(self, log_offset: int) -> int:
        """When the record at an offset was stored; -1 if there is none."""
        if log_offset < self._log.min_offset:
            return _NO_TIME
        head = self._read_log(log_offset, min(_HEAD_SIZE, self._log.end - log_offset))
        if head is None or len(head) < _HEAD_SIZE:
            return _NO_TIME
        is_ipv6 = head[SYSTEM_FLAG_LOW_BYTE_POSITION] & BORN_HOST_IPV6
        at = BORN_HOST_POSITION + (IPV6_HOST_SIZE if is_ipv6 else IPV4_HOST_SIZE)
        return int(_LONG.unpack_from(head, at)[0])

    def queued_at_ms(self, queue: ConsumeQueue, offset: int) -> int:
        """When a message of a queue was stored; -1 if there is none."""
        if not queue.min_offset <= offset < queue.end_offset:
            return _NO_TIME
        return self._time_of(queue, offset)

    def bytes_behind(self, queue: ConsumeQueue, offset: int) -> int:
        """From a message of a queue to the end of the log; 0 if it is not there yet."""
        at = max(offset, queue.min_offset)
        log_offset = _entry(queue, at) if at < queue.end_offset else None
        return 0 if log_offset is None else self._log.end - log_offset

    def earliest_time_ms(self, queue: ConsumeQueue) -> int:
        """When the first message of a queue was stored; -1 if it has none."""
        if queue.min_offset >= queue.end_offset:
            return _NO_TIME
        return self._time_of(queue, queue.min_offset)

    def offset_by_time(
        self, queue: ConsumeQueue, time_ms: int, boundary: Boundary = Boundary.LOWER
    ) -> int:
        """The queue offset that a time means; store times never decrease along a queue."""
        low, high = queue.min_offset, queue.end_offset
        while low < high:
            middle = (low + high) // 2
            stored_at_ms = self._time_of(queue, middle)
            is_before = (
                stored_at_ms < time_ms if boundary is Boundary.LOWER else stored_at_ms <= time_ms
            )
            if is_before:
                low = middle + 1
            else:
                high = middle
        if boundary is Boundary.LOWER:
            return low
        return max(low - 1, queue.min_offset)

    def _time_of(self, queue: ConsumeQueue, offset: int) -> int:
        return _NO_TIME if (entry := _entry(queue, offset)) is None else self.stored_at_ms(entry)

    def _size_at(self, log_offset: int) -> int | None:
        if log_offset < self._log.min_offset:
            return None
        head = self._read_log(log_offset, min(_HEAD_SIZE, self._log.end - log_offset))
        if head is None or len(head) < _HEAD_SIZE:
            return None
        size, magic = SIZE_AND_MAGIC.unpack_from(head)
        (named,) = _LONG.unpack_from(head, LOG_OFFSET_POSITION)
        if magic not in (MAGIC_V1, MAGIC_V2) or named != log_offset or size <= 0:
            return None  # not where a record begins
        return int(size) if log_offset + size <= self._log.end else None


def _entry(queue: ConsumeQueue, offset: int) -> int | None:
    """The log offset that an entry leads to; None if it is void, a filler, or just deleted."""
    content = queue.entries_from_disk(offset, 1)
    if len(content) < ENTRY.size:
        return None
    log_offset, size, _ = ENTRY.unpack(content)
    return None if size in (0, FILLER_RECORD_SIZE) else log_offset
