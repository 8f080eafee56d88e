"""What the files of one consume queue hold when a store opens, and cutting them back."""

from collections.abc import Iterable
from struct import Struct as Layout

from emberq.kernel.queue_entries import FILLER_RECORD_SIZE
from emberq.store.commit_log import CommitLog
from emberq.store.consume_queue import ENTRY, ENTRY_SIZE, ConsumeQueue
from emberq.store.log_scan import LogScan
from emberq.store.queue_files import QueueFiles

# Files at the end of a queue that are read again, as official brokers do.
FILES_READ_AGAIN = 3
_CHUNK_ENTRIES = (200, 13_000)
_NEIGHBOURS = 100  # entries before and behind one that are read with it
_OFFSET_AND_SIZE = Layout(">qi8x")


def recover_queue(queue: ConsumeQueue, files: QueueFiles, *, was_clean: bool) -> bool:
    """Take up the entries up to the first void; False if the files cannot have been left so."""
    starts = files.starts(queue.folder)
    if not starts:
        queue.reset(0, 0, -1)
        return True
    walked_from = starts[max(0, len(starts) - FILES_READ_AGAIN)]
    first, limit = walked_from // ENTRY_SIZE, (starts[-1] + files.file_size) // ENTRY_SIZE
    end, log_end, first_entry = _walk(queue, files, first, limit)
    queue.reset(starts[0] // ENTRY_SIZE, end, log_end)
    if walked_from != starts[0]:
        first_entry = files.read(queue.folder, starts[0], ENTRY_SIZE)
    if _is_filler(first_entry):
        queue.raise_min_offset(0)
    return _is_whole(queue, files, starts) if was_clean else files.fit(queue.folder, starts)


def cut_back(queue: ConsumeQueue, log_offset: int, commit_log: CommitLog) -> None:
    """After a crash: keep entries of records that start below an offset.

    Behind them anything may stand: any of the pages written since the last sync may be missing,
    and an entry that lies on two pages may be half there. So the last one kept is compared with
    its record.
    """
    entries = _Entries(queue)
    low, high = queue.min_offset, queue.end_offset
    while low < high:
        middle = (low + high) // 2
        if _starts_below(entries.at(middle), log_offset):
            low = middle + 1
        else:
            high = middle
    while low > queue.min_offset and not _is_kept(entries, low - 1, log_offset, commit_log):
        low -= 1
    queue.truncate(low, _log_end(entries, low))


def cut_to_log_end(queue: ConsumeQueue, log_end: int) -> None:
    """Keep the entries of records that end at or below `log_end`."""
    entries = _Entries(queue)
    low, high = queue.min_offset, queue.end_offset
    while low < high:
        middle = (low + high) // 2
        log_offset, size = entries.at(middle)
        if size == FILLER_RECORD_SIZE or log_offset + size <= log_end:
            low = middle + 1
        else:
            high = middle
    queue.truncate(low, _log_end(entries, low))


def is_entry_of(queue: ConsumeQueue, queue_offset: int, commit_log: CommitLog) -> bool:
    """Whether an entry leads to an intact record that names queue and queue offset."""
    return _is_entry_of(_Entries(queue), queue_offset, commit_log)


class _Entries:
    """Log offsets and sizes of a queue's entries; neighbours are read together."""

    def __init__(self, queue: ConsumeQueue) -> None:
        self.queue = queue
        self._first = 0
        self._block = b""

    def at(self, offset: int) -> tuple[int, int]:
        position = (offset - self._first) * ENTRY_SIZE
        if not 0 <= position < len(self._block):
            self._first = max(offset - _NEIGHBOURS, self.queue.min_offset)
            self._block = self.queue.entries_from_disk(self._first, 2 * _NEIGHBOURS)
            position = (offset - self._first) * ENTRY_SIZE
        log_offset, size = _OFFSET_AND_SIZE.unpack_from(self._block, position)
        return log_offset, size


def _is_entry_of(entries: _Entries, queue_offset: int, commit_log: CommitLog) -> bool:
    queue = entries.queue
    log_offset, size = entries.at(queue_offset)
    record = next(iter(LogScan(commit_log, log_offset, log_offset + size)), None)
    return (
        record is not None
        and record.size == size
        and record.queue_offset == queue_offset
        and record.queue_id == queue.queue_id
        and record.topic == queue.topic.encode("utf-8", "replace")
    )


def _is_kept(entries: _Entries, offset: int, limit: int, commit_log: CommitLog) -> bool:
    log_offset, size = entry = entries.at(offset)
    if size == FILLER_RECORD_SIZE:
        return True
    if 0 <= log_offset < commit_log.min_offset:
        # Its record is gone, or it is torn and seems to lead to the log's lost beginning. The
        # first entry of a file lies on one page; any other one must follow the one before it.
        if offset == entries.queue.min_offset:
            return True
        before, size_before = entries.at(offset - 1)
        return size_before == FILLER_RECORD_SIZE or before + size_before <= log_offset
    return _starts_below(entry, limit) and _is_entry_of(entries, offset, commit_log)


def _starts_below(entry: tuple[int, int], log_offset: int) -> bool:
    return entry[1] == FILLER_RECORD_SIZE or (entry[1] > 0 and 0 <= entry[0] < log_offset)


def _log_end(entries: _Entries, end_offset: int) -> int:
    """Where the record of the last entry below `end_offset` ends; -1 if there is none."""
    if end_offset <= entries.queue.min_offset:
        return -1
    log_offset, size = entries.at(end_offset - 1)
    return -1 if size == FILLER_RECORD_SIZE else log_offset + size


def _walk(
    queue: ConsumeQueue, files: QueueFiles, offset: int, limit: int
) -> tuple[int, int, bytes]:
    """Where the entries from an offset on end, where the last one's record does, the first one."""
    first_entry = b""
    log_end = -1
    chunk_entries = _CHUNK_ENTRIES[0]
    while offset < limit:
        count = min(chunk_entries, limit - offset)
        content = files.read(queue.folder, offset * ENTRY_SIZE, count * ENTRY_SIZE)
        first_entry = first_entry or content[:ENTRY_SIZE]
        for log_offset, size in _whole_entries(content):
            if log_offset < 0 or size <= 0:
                return offset, log_end, first_entry
            if size != FILLER_RECORD_SIZE:
                log_end = log_offset + size
            offset += 1
        if len(content) < count * ENTRY_SIZE:
            break
        chunk_entries = _CHUNK_ENTRIES[1]
    return offset, log_end, first_entry


def _whole_entries(content: bytes) -> Iterable[tuple[int, int]]:
    return _OFFSET_AND_SIZE.iter_unpack(content[: len(content) - len(content) % ENTRY_SIZE])


def _is_filler(content: bytes) -> bool:
    return len(content) == ENTRY_SIZE and ENTRY.unpack(content)[1] == FILLER_RECORD_SIZE


def _is_whole(queue: ConsumeQueue, files: QueueFiles, starts: list[int]) -> bool:
    """Whether all files are there in full length, and nothing stands behind the last entry."""
    end = queue.end_offset * ENTRY_SIZE
    return files.are_whole(queue.folder, starts) and not files.is_written_after(
        queue.folder, starts, end
    )
