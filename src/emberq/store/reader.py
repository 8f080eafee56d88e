"""Reading messages of a queue, as they lie in the log.

What this process wrote, or checked when it opened, is served as it is. Everything else is compared
with its queue entry and its checksum first; a damaged message is skipped and reported.
"""

import logging
from collections.abc import Callable, Collection
from operator import itemgetter

from msgspec import Struct

from emberq.kernel import are_records_of, choose_entries, choose_ranges, count_records_of
from emberq.kernel.queue_entries import EntryFilter, Wanted
from emberq.record.layout import SIZE_AND_MAGIC, BytesLike
from emberq.store.commit_log import CommitLog
from emberq.store.consume_queue import ENTRY, ConsumeQueue
from emberq.store.record_check import is_record_of
from emberq.store.results import ReadResult, ReadStatus

log = logging.getLogger(__name__)

__all__ = ["EntryFilter", "QueueReader", "ReadLimits", "RecordFilter", "tag_filter"]

# Says whether a record is wanted; it may be given bytes that are none.
RecordFilter = Callable[[BytesLike], bool]

# Entries looked at in one read, whatever the filter: 16,000 bytes of them, as official brokers do.
SCAN_ENTRIES_MIN = 800
_TAG_MASK = 0xFFFFFFFF
_SIZE = itemgetter(2)  # of what is wanted
_FOUND = ReadStatus.FOUND
_NO_MATCH, _REMOVING = ReadStatus.NO_MATCHED_MESSAGE, ReadStatus.MESSAGE_WAS_REMOVING
# Damaged messages that are remembered, so that the log names each but once.
DAMAGES_REMEMBERED_MAX = 1_000
# A damaged entry may name any size: above this the record itself is asked first.
SIZE_BELIEVED_MAX_BYTES = 1024 * 1024
# Entries that are read beyond those that fill a read if all messages are as large as the first.
ENTRIES_SPARE = 64


class ReadLimits(Struct, frozen=True, kw_only=True):
    """How much one read returns; the first message is returned whatever its size.

    The smaller limits are for reads so far behind that the disk has to be asked.
    """

    count_max: int = 32
    size_max_bytes: int = 256 * 1024
    count_max_on_disk: int = 8
    size_max_bytes_on_disk: int = 64 * 1024
    # Entries looked at, whatever the filter.
    scan_max: int = SCAN_ENTRIES_MIN


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
        accepts_record: RecordFilter | None = None,
    ) -> ReadResult | None:
        """Messages from a queue offset on; None if the disk would have to be waited for."""
        if accepts is None and accepts_record is None and queue is not None:
            newest = self._read_newest(queue, offset, limits)
            if newest is not None:
                return newest
        return self._read(queue, offset, limits, accepts, accepts_record, may_wait=False)

    def read_waiting(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        limits: ReadLimits,
        accepts: EntryFilter | None = None,
        accepts_record: RecordFilter | None = None,
    ) -> ReadResult:
        """The same in a thread: waits for the disk, and returns copies."""
        result = self._read(queue, offset, limits, accepts, accepts_record, may_wait=True)
        assert result is not None
        return result

    def _read_newest(
        self, queue: ConsumeQueue, offset: int, limits: ReadLimits
    ) -> ReadResult | None:
        """Messages that this process has just put, all of which are wanted: what nearly every
        consumer reads. None: these are others."""
        entries = queue.in_memory(offset)
        if entries is None or offset < queue.min_offset:
            return None
        content, at = entries
        commit_log = self._log
        log_end = commit_log.end
        count_max = max(1, limits.count_max)
        ranges, count, size, passed = choose_ranges(
            content,
            at,
            at + count_max * ENTRY.size,
            count_max,
            limits.size_max_bytes,
            commit_log.min_offset,
            log_end,
            commit_log.segment_size,
        )
        window = min(self._hot_window, self.memory_bytes)
        if not count or ranges[0][0] < max(log_end - window, self.verified_from):
            return None
        active, active_start = commit_log.active, commit_log.active_start
        parts: list[BytesLike] = []
        for log_offset, part_size in ranges:
            position = log_offset - active_start
            if active is None or position < 0:
                return None
            parts.append(active.view[position : position + part_size])
        return ReadResult(
            _FOUND,
            offset + passed,
            queue.min_offset,
            queue.end_offset,
            tuple(parts),
            count,
            size,
        )

    def _read(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        limits: ReadLimits,
        accepts: EntryFilter | None,
        accepts_record: RecordFilter | None,
        *,
        may_wait: bool,
    ) -> ReadResult | None:
        outside = _outside(queue, offset)
        if outside is not None or queue is None:
            return outside
        if accepts is None and accepts_record is None and not queue.is_in_memory(offset):
            found = self._read_unfiltered(queue, offset, limits, may_wait=may_wait)
            if found is None or found.count:
                return found
        return self._read_each(queue, offset, limits, accepts, accepts_record, may_wait=may_wait)

    def _read_each(
        self,
        queue: ConsumeQueue,
        offset: int,
        limits: ReadLimits,
        accepts: EntryFilter | None,
        accepts_record: RecordFilter | None,
        *,
        may_wait: bool,
    ) -> ReadResult | None:
        is_ours = queue.is_in_memory(offset)
        count = max(1, limits.count_max)
        if accepts is not None or accepts_record is not None:
            count = max(count, limits.scan_max)
        content = (queue.entries_from_disk if may_wait else queue.entries)(offset, count)
        if content is None:
            return None
        if accepts_record is None:
            chosen = self._choose(offset, content, limits, accepts)
        else:
            chosen = self._choose_records(
                offset, content, limits, accepts, accepts_record, may_wait=may_wait
            )
        if chosen is None:
            return None
        wanted, next_offset, was_removed = chosen
        if is_ours:
            parts = self._parts(_ranges(wanted), may_wait=may_wait)
        else:
            parts = self._checked_parts(queue, wanted, may_wait=may_wait)
        if parts is None:
            return None
        if not parts:
            status = _REMOVING if was_removed else _NO_MATCH
            return ReadResult(
                status,
                next_offset,
                queue.min_offset,
                queue.end_offset,
                removed_to=self._removed_to(offset, content),
            )
        return ReadResult(
            _FOUND,
            next_offset,
            queue.min_offset,
            queue.end_offset,
            tuple(parts),
            len(wanted),
            sum(map(len, parts)),
            self._log.end - wanted[-1][1] > self.memory_bytes,
            self._removed_to(offset, content),
        )

    def _removed_to(self, offset: int, content: bytes) -> int:
        """Asked when all is read: what is deleted meanwhile may not have been found either."""
        log_min = self._log.min_offset
        removed = 0
        for log_offset, size, _ in ENTRY.iter_unpack(content):
            if log_offset >= log_min or size <= 0:
                break
            removed += 1
        return offset + removed if removed else 0

    def _read_unfiltered(
        self, queue: ConsumeQueue, offset: int, limits: ReadLimits, *, may_wait: bool
    ) -> ReadResult | None:
        """Messages whose entries come from disk, all of which are wanted and sound: what scans
        read. A result without any: each of them has to be looked at."""
        content = self._likely_entries(queue, offset, limits, may_wait=may_wait)
        if content is None:
            return None
        count_max, size_max = self._limits_at(content, limits)
        commit_log = self._log
        ranges, count, size, passed = choose_ranges(
            content,
            0,
            len(content),
            count_max,
            size_max,
            commit_log.min_offset,
            commit_log.end,
            commit_log.segment_size,
        )
        unclear = ReadResult(_NO_MATCH, offset, queue.min_offset, queue.end_offset)
        if not count or passed != count:
            return unclear
        parts = self._parts(ranges, may_wait=may_wait)
        if parts is None:
            return None
        if not self._are_sound(queue, offset, count, content, ranges, parts):
            return unclear
        last = ENTRY.unpack_from(content, (count - 1) * ENTRY.size)[0]
        return ReadResult(
            _FOUND,
            offset + count,
            queue.min_offset,
            queue.end_offset,
            tuple(parts),
            count,
            size,
            commit_log.end - last > self.memory_bytes,
        )

    def _likely_entries(
        self, queue: ConsumeQueue, offset: int, limits: ReadLimits, *, may_wait: bool
    ) -> bytes | None:
        """As many as a read serves if all messages are as large as the first; none if that one is
        hard to believe, or none of the queue is common."""
        entries = queue.entries_from_disk if may_wait else queue.entries
        first = entries(offset, 1)
        if not first:
            return first
        count_max, size_max = self._limits_at(first, limits)
        size = ENTRY.unpack(first)[1]
        if queue.topic_part is None or not 0 < size <= SIZE_BELIEVED_MAX_BYTES:
            return b""
        return entries(offset, max(1, min(count_max, size_max // size + ENTRIES_SPARE)))

    def _are_sound(
        self,
        queue: ConsumeQueue,
        offset: int,
        count: int,
        entries: bytes,
        ranges: list[tuple[int, int]],
        parts: list[BytesLike],
    ) -> bool:
        """Whether the log has at each range the messages of its entries, one behind the other, and
        that is all of them."""
        topic, checked = queue.topic_part, 0
        if topic is None or len(parts) != len(ranges):
            return False
        for (log_offset, _), part in zip(ranges, parts, strict=True):
            is_crc_checked = log_offset < self.verified_from
            found = count_records_of(
                part, entries, checked, offset + checked, queue.queue_id, topic, is_crc_checked
            )
            if not found:
                return False
            checked += found
        return checked == count

    def _choose(
        self, offset: int, content: bytes, limits: ReadLimits, accepts: EntryFilter | None
    ) -> tuple[list[Wanted], int, bool] | None:
        """The entries to serve, the offset to go on at, and whether deleted ones were passed."""
        return self._entries(offset, content, *self._limits_at(content, limits), accepts)

    def _choose_records(
        self,
        offset: int,
        content: bytes,
        limits: ReadLimits,
        accepts: EntryFilter | None,
        accepts_record: RecordFilter,
        *,
        may_wait: bool,
    ) -> tuple[list[Wanted], int, bool] | None:
        """The same where each record is looked at; None if the disk would have to be waited for."""
        entry_count = len(content) // ENTRY.size
        candidates, end, was_removed = self._entries(
            offset, content, entry_count, self._log.end, accepts
        )
        count_max, size_max = self._limits_at(content, limits)
        wanted: list[Wanted] = []
        size_taken = 0
        for candidate in candidates:
            queue_offset, log_offset, size = candidate
            if wanted and (len(wanted) >= count_max or size_taken + size > size_max):
                return wanted, queue_offset, was_removed
            record = self.record_bytes(log_offset, size, may_wait=may_wait)
            if record is None:
                return None
            if record and accepts_record(record[0]):
                wanted.append(candidate)
                size_taken += size
        return wanted, end, was_removed

    def _limits_at(self, content: bytes, limits: ReadLimits) -> tuple[int, int]:
        """How many messages and bytes: fewer if the first one is likely to be on disk only."""
        if content and self._log.end - ENTRY.unpack_from(content)[0] > self.memory_bytes:
            return (
                min(limits.count_max, limits.count_max_on_disk),
                min(limits.size_max_bytes, limits.size_max_bytes_on_disk),
            )
        return limits.count_max, limits.size_max_bytes

    def _entries(
        self,
        offset: int,
        content: bytes,
        count_max: int,
        size_max: int,
        accepts: EntryFilter | None,
    ) -> tuple[list[Wanted], int, bool]:
        commit_log = self._log
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

    def _parts(self, ranges: list[tuple[int, int]], *, may_wait: bool) -> list[BytesLike] | None:
        """Bytes of the log."""
        parts: list[BytesLike] = []
        for log_offset, size in ranges:
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
            topic = queue.topic_part
            if topic is not None and are_records_of(
                content, run, queue.queue_id, topic, is_crc_checked
            ):
                parts.append(content)
                intact += run
                continue
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


def _is_one_run(wanted: list[Wanted]) -> bool:
    """Whether messages lie back to back, none of them hard to believe."""
    if not wanted:
        return False
    _, log_offset, size = wanted[-1]
    total: int = sum(map(_SIZE, wanted))
    return log_offset + size - wanted[0][1] == total <= SIZE_BELIEVED_MAX_BYTES


def _ranges(wanted: list[Wanted]) -> list[tuple[int, int]]:
    """Log offsets and sizes, one for messages that lie back to back."""
    if _is_one_run(wanted):
        _, log_offset, size = wanted[-1]
        start = wanted[0][1]
        return [(start, log_offset + size - start)]
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
    if _is_one_run(wanted):
        return [wanted[:]]
    runs: list[list[Wanted]] = []
    end = -1
    for message in wanted:
        _, log_offset, size = message
        if log_offset != end or size > SIZE_BELIEVED_MAX_BYTES:
            runs.append([])
        runs[-1].append(message)
        end = log_offset + size if size <= SIZE_BELIEVED_MAX_BYTES else -1
    return runs


def _outside(queue: ConsumeQueue | None, offset: int) -> ReadResult | None:
    """The answer to an offset that no entry has."""
    if queue is None:
        return ReadResult(ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
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
