"""A consume queue: 20 bytes per message that say where it lies in the log.

The newest entries live in memory until the flusher has written them; readers see them at once.
"""

from pathlib import Path
from struct import Struct as Layout

from emberq.kernel.queue_entries import FILLER_RECORD_SIZE
from emberq.record.encode import topic_part
from emberq.store.config import QUEUE_ENTRY_SIZE_BYTES
from emberq.store.queue_files import QueueFiles

# Log offset, record size, tag code.
ENTRY = Layout(">qiq")
ENTRY_SIZE = QUEUE_ENTRY_SIZE_BYTES
assert ENTRY.size == ENTRY_SIZE

# Fills a queue that does not begin at 0 up to its first entry.
FILLER = ENTRY.pack(0, FILLER_RECORD_SIZE, 0)

# Written entries that stay in memory for readers close behind the end.
TAIL_KEPT_MAX_BYTES = 4 * 1024


class ConsumeQueue:
    """Entries of one queue. Offsets are queue offsets: numbers of messages, not bytes."""

    __slots__ = (
        "_files",
        "_tail",
        "_trim_above",
        "end_offset",
        "folder",
        "is_removed",
        "log_end_offset",
        "min_offset",
        "next_offset",
        "queue_id",
        "topic",
        "topic_part",
        "written_offset",
    )

    def __init__(self, topic: str, queue_id: int, folder: Path, files: QueueFiles) -> None:
        self.topic = topic
        self.topic_part = topic_part(topic)  # as records hold it; None: too long for version 1
        self.queue_id = queue_id
        self.folder = folder
        self._files = files
        # Newest entries and the queue offset of the first: one pair, so that the flusher's thread
        # never sees one without the other. Only the loop's thread changes it.
        self._tail: tuple[int, bytearray] | None = None
        self._trim_above = 2 * TAIL_KEPT_MAX_BYTES
        self.min_offset = 0
        self.end_offset = 0  # behind the last entry
        self.written_offset = 0  # behind the last entry that the files have
        self.next_offset = 0  # for the next message that is put
        self.log_end_offset = -1  # where in the log the last entry's record ends
        self.is_removed = False  # its topic was deleted: the files may be those of a new queue

    # Dispatch

    def append(self, queue_offset: int, log_offset: int, size: int, tag_code: int) -> bool:
        """Add an entry; False if it is here already."""
        log_end = log_offset + size
        if log_end <= self.log_end_offset or queue_offset < self.end_offset:
            return False
        entry = ENTRY.pack(log_offset, size, tag_code)
        if queue_offset > self.end_offset:
            self._fill_gap(queue_offset, entry)
        if self._tail is None:
            self._tail = (self.end_offset, bytearray())
        tail = self._tail[1]
        tail += entry
        self.end_offset = queue_offset + 1
        self.log_end_offset = log_end
        if self.next_offset <= queue_offset:  # only records that this process did not put
            self.next_offset = queue_offset + 1
        if len(tail) > self._trim_above:
            self._trim()
        return True

    def append_put(self, queue_offset: int, entries: bytes, log_end: int) -> None:
        """Add entries of records that this process has just put at `end_offset`."""
        assert queue_offset == self.end_offset
        if self._tail is None:
            self._tail = (self.end_offset, bytearray())
        tail = self._tail[1]
        tail += entries
        self.end_offset = queue_offset + len(entries) // ENTRY_SIZE
        self.log_end_offset = log_end
        if len(tail) > self._trim_above:
            self._trim()

    def _fill_gap(self, queue_offset: int, entry: bytes) -> None:
        """Entries between are missing: a queue that begins later, or records that are lost."""
        filler = entry
        if self.end_offset == 0:
            # The first file is filled from its start; files before it never existed.
            first = queue_offset - queue_offset % self._entries_per_file
            self.end_offset = self.written_offset = first
            self.min_offset = queue_offset
            self._tail = None
            filler = FILLER
        if self._tail is None:
            self._tail = (self.end_offset, bytearray())
        # In the midst of a queue a hole leads to the message behind it, which keeps the order that
        # searches rely on; the official filler would make official readers skip a whole segment.
        self._tail[1].extend(filler * (queue_offset - self.end_offset))
        self.end_offset = queue_offset

    @property
    def _entries_per_file(self) -> int:
        return self._files.file_size // ENTRY_SIZE

    # Reading

    def entries(self, offset: int, count: int) -> bytes | None:
        """Up to `count` entries from `offset`; None if the disk would have to be waited for."""
        count = min(count, self.end_offset - offset)
        if count <= 0:
            return b""
        if self._tail is not None:
            start, tail = self._tail
            if offset >= start:
                at = (offset - start) * ENTRY_SIZE
                return bytes(tail[at : at + count * ENTRY_SIZE])
        cached = self._files.read_cached(self.folder, offset * ENTRY_SIZE, count * ENTRY_SIZE)
        return None if cached is None else _overlaid(offset, cached, self._tail)

    def is_in_memory(self, offset: int) -> bool:
        """Whether the entry at `offset` was made by this process: no disk can have changed it."""
        return self._tail is not None and offset >= self._tail[0]

    def in_memory(self, offset: int) -> tuple[bytearray, int] | None:
        """The newest entries as they lie in memory, and the position of the one at `offset`; None
        if it is not among them. To be read before anything else happens on this thread."""
        pair = self._tail
        if pair is None or not pair[0] <= offset < self.end_offset:
            return None
        return pair[1], (offset - pair[0]) * ENTRY_SIZE

    def entries_from_disk(self, offset: int, count: int) -> bytes:
        """The same in a thread; may wait."""
        count = min(count, self.end_offset - offset)
        if count <= 0:
            return b""
        pair = self._tail  # before the files: what leaves the tail has been written
        content = self._files.read(self.folder, offset * ENTRY_SIZE, count * ENTRY_SIZE)
        if len(content) < count * ENTRY_SIZE:
            content += bytes(count * ENTRY_SIZE - len(content))
        return _overlaid(offset, content, pair)

    # Flushing: called by the flusher's thread, so each step is one atomic operation

    def unwritten(self) -> tuple[int, bytes]:
        """The first queue offset that the files lack, and the entries from there on."""
        written, pair = self.written_offset, self._tail
        if pair is None:
            return written, b""
        start, tail = pair
        written = max(written, start)  # a queue that has just begun later than at 0
        return written, bytes(tail[(written - start) * ENTRY_SIZE :])

    @property
    def unwritten_count(self) -> int:
        return self.end_offset - self.written_offset

    def write(self) -> int:
        """Write what the files lack; returns the number of bytes. Raises OSError."""
        start, content = self.unwritten()
        if content and not self.is_removed:
            self._files.write(self.folder, start * ENTRY_SIZE, content)
            self.written_offset = start + len(content) // ENTRY_SIZE
        return len(content)

    def _trim(self) -> None:
        """Forget old entries that the files have; only the loop's thread does this."""
        assert self._tail is not None
        start, tail = self._tail
        spare = (len(tail) - TAIL_KEPT_MAX_BYTES) // ENTRY_SIZE
        drop = min(spare, self.written_offset - start)
        if drop > 0:
            self._tail = (start + drop, tail[drop * ENTRY_SIZE :])
        # What is not written yet stays; looking again after every entry would be in vain.
        self._trim_above = len(self._tail[1]) + TAIL_KEPT_MAX_BYTES

    def release(self) -> None:
        """Forget the tail of a queue that rests, once it is written."""
        if self._tail is not None and self.written_offset == self.end_offset:
            self._tail = None

    # Recovery and retention

    def reset(self, min_offset: int, end_offset: int, log_end_offset: int) -> None:
        """Take up the state that the files show."""
        self._tail = None
        self._trim_above = 2 * TAIL_KEPT_MAX_BYTES
        self.min_offset = min_offset
        self.end_offset = self.written_offset = self.next_offset = end_offset
        self.log_end_offset = log_end_offset

    def truncate(self, end_offset: int, log_end_offset: int) -> None:
        """Cut entries off the end, in memory and on disk."""
        self._files.erase_after(self.folder, end_offset * ENTRY_SIZE)
        self.reset(min(self.min_offset, end_offset), end_offset, log_end_offset)

    def begins_before(self, log_min_offset: int) -> bool:
        """Whether the first entry leads to a record that the log has deleted. May wait."""
        content = self.entries_from_disk(self.min_offset, 1)
        return bool(content) and _is_below(content, log_min_offset)

    def raise_min_offset(self, log_min_offset: int) -> None:
        """Skip entries of records that the log has deleted, and delete files of such entries.

        The queue of which all are deleted begins where it ends.
        """
        low, high = self.min_offset, self.end_offset
        while low < high:
            middle = (low + high) // 2
            # A void is a damaged file: what else is in it can still be read.
            if _is_below(self.entries_from_disk(middle, 1), log_min_offset):
                low = middle + 1
            else:
                high = middle
        self.min_offset = max(self.min_offset, low)
        first_needed = self.min_offset * ENTRY_SIZE
        for start in self._files.starts(self.folder)[:-1]:
            if start + self._files.file_size > first_needed:
                break
            self._files.remove(self.folder, start)

    def remove_files(self) -> None:
        self._files.remove_all(self.folder)

    def destroy(self) -> None:
        """Begin anew; only while nothing else uses the queue."""
        self.remove_files()
        self.reset(0, 0, -1)


def _is_below(entry: bytes, log_min_offset: int) -> bool:
    log_offset, size, _ = ENTRY.unpack(entry)
    return bool(size == FILLER_RECORD_SIZE or (size > 0 and log_offset < log_min_offset))


def _overlaid(offset: int, content: bytes, pair: tuple[int, bytearray] | None) -> bytes:
    """Entries of the files, with what is newer in memory on top."""
    if pair is None:
        return content
    start, tail = pair
    end = offset + len(content) // ENTRY_SIZE
    if end <= start:
        return content
    kept = content[: max(start - offset, 0) * ENTRY_SIZE]
    first = max(offset - start, 0)
    return kept + bytes(tail[first * ENTRY_SIZE : (end - start) * ENTRY_SIZE])
