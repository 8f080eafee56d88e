"""Reading messages of a queue, as they lie in the log.

What this process wrote, or checked when it opened, is served as it is. Everything else is compared
with its queue entry and its checksum first; a damaged message is skipped and reported.
"""

import logging
from collections.abc import Collection

from msgspec import Struct

from emberq.kernel import choose_entries
from emberq.kernel.queue_entries import EntryFilter, Wanted
from emberq.record.layout import SIZE_AND_MAGIC, BytesLike
from emberq.store.commit_log import CommitLog
from emberq.store.consume_queue import ENTRY, ConsumeQueue
from emberq.store.record_check import is_record_of
from emberq.store.results import ReadResult, ReadStatus

log = logging.getLogger(__name__)

__all__ = ["EntryFilter", "QueueReader", "ReadLimits", "tag_filter"]

# Entries looked at in one read, whatever the filter: 16,000 bytes of them, as official brokers do.
SCAN_ENTRIES_MIN = 800
_TAG_MASK = 0xFFFFFFFF
# Damaged messages that are remembered, so that the log names each but once.
DAMAGES_REMEMBERED_MAX = 1_000
# A damaged entry may name any size: above this the record itself is asked first.
SIZE_BELIEVED_MAX_BYTES = 1024 * 1024


class ReadLimits(Struct, frozen=True, kw_only=True):
    """How much one read returns; the first message is returned whatever its size.

    The smaller limits are for reads so far behind that the disk has to be asked.
    """

    count_max: int = 32
    size_max_bytes: int = 256 * 1024
    count_max_on_disk: int = 8
    size_max_bytes_on_disk: int = 64 * 1024


def tag_filter(codes: Collection[int]) -> EntryFilter:
    """Accept entries whose tag hashes to one of these; only the low 32 bits count."""
    wanted = {code & _TAG_MASK for code in codes}

    def accepts(tag_code: int) -> bool:
        return tag_code & _TAG_MASK in wanted

    return accepts


class QueueReader:
    """Reads without waiting where it can; says so where it cannot."""

    def __init__(
        self, commit_log: CommitLog, hot_window_bytes: int, memory_bytes: int | None = None
    ) -> None:
        """`memory_bytes`: how much of the log's end counts as being in the system's memory."""
        self._log = commit_log
        self._hot_window = hot_window_bytes
        self.memory_bytes = hot_window_bytes if memory_bytes is None else memory_bytes
        self.verified_from = 0  # from this log offset on, recovery has compared all checksums
        self._damages: set[int] = set()

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
        is_ours = queue.is_in_memory(offset)
        count = max(SCAN_ENTRIES_MIN, limits.count_max)
        if may_wait:
            content = queue.entries_from_disk(offset, count)
        else:
            cached = queue.entries(offset, count)
            if cached is None:
                return None
            content = cached
        wanted, next_offset, was_removed = self._choose(offset, content, limits, accepts)
        if is_ours:
            parts = self._parts(wanted, may_wait=may_wait)
        else:
            parts = self._checked_parts(queue, wanted, may_wait=may_wait)
        if parts is None:
            return None
        if parts:
            status = ReadStatus.FOUND
        elif was_removed:
            status = ReadStatus.MESSAGE_WAS_REMOVING
        else:
            status = ReadStatus.NO_MATCHED_MESSAGE
        is_behind = bool(wanted) and self._log.end - wanted[-1][1] > self.memory_bytes
        return ReadResult(
            status,
            next_offset,
            queue.min_offset,
            queue.end_offset,
            tuple(parts),
            len(wanted),
            sum(map(len, parts)),
            is_behind,
        )

    def _choose(
        self, offset: int, content: bytes, limits: ReadLimits, accepts: EntryFilter | None
    ) -> tuple[list[Wanted], int, bool]:
        """The entries to serve, the offset to go on at, and whether deleted ones were passed."""
        commit_log = self._log
        count_max, size_max = limits.count_max, limits.size_max_bytes
        if content and commit_log.end - ENTRY.unpack_from(content)[0] > self.memory_bytes:
            count_max = min(count_max, limits.count_max_on_disk)
            size_max = min(size_max, limits.size_max_bytes_on_disk)
        return choose_entries(
            content,
            offset,
            count_max,
            size_max,
            commit_log.min_offset,
            commit_log.end,
            commit_log.segment_size,
            accepts,
        )

    def _parts(self, wanted: list[Wanted], *, may_wait: bool) -> list[BytesLike] | None:
        """Bytes of messages; those that lie back to back in one part."""
        parts: list[BytesLike] = []
        for log_offset, size in _ranges(wanted):
            part = self.record_bytes(log_offset, size, may_wait=may_wait)
            if part is None:
                return None
            parts += part
        return parts

    def _checked_parts(
        self, queue: ConsumeQueue, wanted: list[Wanted], *, may_wait: bool
    ) -> list[BytesLike] | None:
        """The same for entries that come from disk; damaged messages leave `wanted`."""
        parts: list[BytesLike] = []
        intact: list[Wanted] = []
        for run in _runs(wanted):
            content = self._run_bytes(run, may_wait=may_wait)
            if content is None:
                return None
            start = run[0][1]
            is_crc_checked = start < self.verified_from
            good: list[Wanted] = []
            for message in run:
                queue_offset, log_offset, size = message
                record = content[log_offset - start : log_offset - start + size]
                if is_record_of(
                    queue, queue_offset, log_offset, record, is_crc_checked=is_crc_checked
                ):
                    good.append(message)
                else:
                    self._report(queue, message)
            parts += (content[at - start : at - start + size] for at, size in _ranges(good))
            intact += good
        wanted[:] = intact
        return parts

    def _run_bytes(self, run: list[Wanted], *, may_wait: bool) -> memoryview | None:
        """The bytes of messages that lie back to back; less if an entry asks for nonsense."""
        start = run[0][1]
        size = run[-1][1] + run[-1][2] - start
        if len(run) == 1 and size > SIZE_BELIEVED_MAX_BYTES:
            head = self.record_bytes(start, SIZE_AND_MAGIC.size, may_wait=may_wait)
            if head is None:
                return None
            if b"".join(head)[:4] != size.to_bytes(4, "big"):
                return memoryview(b"")
        content = self.record_bytes(start, size, may_wait=may_wait)
        if content is None:
            return None
        return memoryview(content[0] if content else b"")  # deleted since its entry was read

    def is_cached(self, queue: ConsumeQueue, offset: int) -> bool:
        """Whether a message and its entry are in memory now."""
        content = queue.entries(offset, 1) if offset >= queue.min_offset else None
        if not content:
            return False
        log_offset, size, _ = ENTRY.unpack(content)
        if not self._log.min_offset <= log_offset <= self._log.end - size or size <= 0:
            return False
        return bool(self.record_bytes(log_offset, size, may_wait=False))

    def _report(self, queue: ConsumeQueue, message: Wanted) -> None:
        queue_offset, log_offset, _ = message
        if log_offset in self._damages or len(self._damages) >= DAMAGES_REMEMBERED_MAX:
            return
        self._damages.add(log_offset)
        log.error(
            "message_damaged topic=%s queue=%d offset=%d log_offset=%d",
            queue.topic,
            queue.queue_id,
            queue_offset,
            log_offset,
        )

    def bytes_at(self, log_offset: int, size: int) -> bytes | None:
        """Bytes of the log, fewer where it ends; None instead of waiting for the disk."""
        parts = self.record_bytes(log_offset, size, may_wait=False)
        return None if parts is None else b"".join(parts)

    def bytes_at_waiting(self, log_offset: int, size: int) -> bytes:
        """The same in a thread."""
        return b"".join(self.record_bytes(log_offset, size, may_wait=True) or ())

    def record_bytes(self, log_offset: int, size: int, *, may_wait: bool) -> list[BytesLike] | None:
        """Bytes of the log: views of what is hot, copies of the rest; None instead of waiting."""
        parts: list[BytesLike] = []
        while size > 0:
            found = self._log.segment_at(log_offset)
            if found is None:
                return parts  # deleted since its entry was read
            segment, position = found
            count = min(size, segment.size - position)
            if log_offset >= max(self._log.end - self._hot_window, self.verified_from):
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


def _ranges(wanted: list[Wanted]) -> list[tuple[int, int]]:
    """Log offsets and sizes, one for messages that lie back to back."""
    ranges: list[tuple[int, int]] = []
    start = end = -1
    for _, log_offset, size in wanted:
        if log_offset != end:
            if start >= 0:
                ranges.append((start, end - start))
            start = log_offset
        end = log_offset + size
    if start >= 0:
        ranges.append((start, end - start))
    return ranges


def _runs(wanted: list[Wanted]) -> list[list[Wanted]]:
    """Messages that lie back to back; one whose size is hard to believe is a run of its own."""
    runs: list[list[Wanted]] = []
    end = -1
    for message in wanted:
        _, log_offset, size = message
        if log_offset != end or size > SIZE_BELIEVED_MAX_BYTES:
            runs.append([])
        runs[-1].append(message)
        end = log_offset + size if size <= SIZE_BELIEVED_MAX_BYTES else -1
    return runs


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
