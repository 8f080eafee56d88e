"""Reading messages of a queue, as they lie in the log."""

from collections.abc import Callable, Collection

from msgspec import Struct

from emberq.record.layout import BytesLike
from emberq.store.commit_log import CommitLog
from emberq.store.consume_queue import ENTRY, ENTRY_SIZE, ConsumeQueue
from emberq.store.results import ReadResult, ReadStatus

# Entries looked at in one read, whatever the filter: 16,000 bytes of them, as official brokers do.
SCAN_ENTRIES_MIN = 800
_TAG_MASK = 0xFFFFFFFF

EntryFilter = Callable[[int], bool]


class ReadLimits(Struct, frozen=True, kw_only=True):
    """How much one read returns; the first message is returned whatever its size."""

    count_max: int = 32
    size_max_bytes: int = 256 * 1024


def tag_filter(codes: Collection[int]) -> EntryFilter:
    """Accept entries whose tag hashes to one of these; only the low 32 bits count."""
    wanted = {code & _TAG_MASK for code in codes}

    def accepts(tag_code: int) -> bool:
        return tag_code & _TAG_MASK in wanted

    return accepts


class QueueReader:
    """Reads without waiting where it can; says so where it cannot."""

    def __init__(self, commit_log: CommitLog, hot_window_bytes: int) -> None:
        self._log = commit_log
        self._hot_window = hot_window_bytes

    def read(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        limits: ReadLimits,
        accepts: EntryFilter | None = None,
    ) -> ReadResult | None:
        """Messages from a queue offset on; None if the disk would have to be waited for."""
        return self._read(queue, offset, limits, accepts, may_wait=False)

    def read_waiting(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        limits: ReadLimits,
        accepts: EntryFilter | None = None,
    ) -> ReadResult:
        """The same in a thread: waits for the disk, and returns copies."""
        result = self._read(queue, offset, limits, accepts, may_wait=True)
        assert result is not None
        return result

    def _read(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        limits: ReadLimits,
        accepts: EntryFilter | None,
        *,
        may_wait: bool,
    ) -> ReadResult | None:
        if queue is None:
            return ReadResult(ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        outside = _outside(queue, offset)
        if outside is not None:
            return outside
        count = max(SCAN_ENTRIES_MIN, limits.count_max)
        if may_wait:
            content = queue.entries_from_disk(offset, count)
        else:
            cached = queue.entries(offset, count)
            if cached is None:
                return None
            content = cached
        return self._collect(queue, offset, content, limits, accepts, may_wait=may_wait)

    def _collect(
        self,
        queue: ConsumeQueue,
        offset: int,
        content: bytes,
        limits: ReadLimits,
        accepts: EntryFilter | None,
        *,
        may_wait: bool,
    ) -> ReadResult | None:
        ranges: list[list[int]] = []  # [log offset, size] of records that lie back to back
        taken = size_taken = 0
        was_removed = False
        next_offset = offset
        log_min = self._log.min_offset
        for log_offset, size, tag_code in ENTRY.iter_unpack(content):
            if log_offset < log_min:
                was_removed = True
                next_offset += 1
                continue
            if taken and (taken >= limits.count_max or size_taken + size > limits.size_max_bytes):
                break
            next_offset += 1
            if accepts is not None and not accepts(tag_code):
                continue
            if ranges and sum(ranges[-1]) == log_offset:
                ranges[-1][1] += size
            else:
                ranges.append([log_offset, size])
            taken += 1
            size_taken += size
        parts = self._parts(ranges, may_wait=may_wait)
        if parts is None:
            return None
        if taken:
            status = ReadStatus.FOUND
        elif was_removed:
            status = ReadStatus.MESSAGE_WAS_REMOVING
        elif len(content) < ENTRY_SIZE:
            status = ReadStatus.OFFSET_FOUND_NULL
        else:
            status = ReadStatus.NO_MATCHED_MESSAGE
        behind = bool(ranges) and self._log.end - ranges[-1][0] > self._hot_window
        return ReadResult(
            status,
            next_offset,
            queue.min_offset,
            queue.end_offset,
            tuple(parts),
            taken,
            size_taken,
            behind,
        )

    def _parts(self, ranges: list[list[int]], *, may_wait: bool) -> list[BytesLike] | None:
        parts: list[BytesLike] = []
        for log_offset, size in ranges:
            part = self.record_bytes(log_offset, size, may_wait=may_wait)
            if part is None:
                return None
            parts += part
        return parts

    def record_bytes(self, log_offset: int, size: int, *, may_wait: bool) -> list[BytesLike] | None:
        """Bytes of the log: views of what is hot, copies of the rest; None instead of waiting."""
        parts: list[BytesLike] = []
        while size > 0:
            found = self._log.segment_at(log_offset)
            if found is None:
                return parts  # deleted since its entry was read
            segment, position = found
            count = min(size, segment.size - position)
            if log_offset >= self._log.end - self._hot_window:
                parts.append(segment.view[position : position + count])
            else:
                content = segment.read_cached(position, count)
                if content is None:
                    if not may_wait:
                        return None
                    content = segment.read(position, count)
                parts.append(content)
            log_offset += count
            size -= count
        return parts


def _outside(queue: ConsumeQueue, offset: int) -> ReadResult | None:
    """The answer to an offset that no entry has."""
    low, high = queue.min_offset, queue.end_offset
    if high == 0:
        return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
    if offset < low:
        return ReadResult(ReadStatus.OFFSET_TOO_SMALL, low, low, high)
    if offset == high:
        return ReadResult(ReadStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
    if offset > high:
        return ReadResult(ReadStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
    return None
