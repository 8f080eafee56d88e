"""A consume queue as its files show it."""

from pathlib import Path

from emberq.kernel.queue_entries import FILLER_RECORD_SIZE
from emberq.store.consume_queue import ENTRY, ENTRY_SIZE
from emberq.store.view.files import FileChain, PlacedFile, ReadOnlyFiles

Entry = tuple[int, int, int]  # log offset, record size, tag code


class QueueView:
    """Offsets are queue offsets: numbers of messages, not bytes."""

    __slots__ = ("_chain", "folder", "queue_id", "topic")

    def __init__(self, topic: str, queue_id: int, folder: Path, files: ReadOnlyFiles) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.folder = folder
        self._chain = FileChain(files, [folder])

    @property
    def files(self) -> list[PlacedFile]:
        return self._chain.files

    @property
    def first_offset(self) -> int:
        """Of the first entry that the files have room for."""
        return self.files[0].start // ENTRY_SIZE if self.files else 0

    def entries(self, offset: int, count: int) -> bytes:
        """Up to `count` whole entries. Raises OSError."""
        content = self._chain.read(offset * ENTRY_SIZE, count * ENTRY_SIZE)
        return content[: len(content) - len(content) % ENTRY_SIZE]

    def next_offset(self, offset: int, stop: int) -> int:
        """Where files go on behind an offset that none of them has; `stop` if they do not."""
        file = self._chain.file_after(offset * ENTRY_SIZE)
        return stop if file is None else min(stop, file.start // ENTRY_SIZE)

    def entry(self, offset: int) -> Entry | None:
        """One entry; None where nothing is written. Raises OSError."""
        content = self.entries(offset, 1)
        if not content:
            return None
        log_offset, size, tag_code = ENTRY.unpack(content)
        return (log_offset, size, tag_code) if is_written(log_offset, size) else None

    def end_offset(self) -> int:
        """Behind the last entry, found by halving: entries are followed by zeros only."""
        for file in reversed(self.files):
            first = file.start // ENTRY_SIZE
            low, high = first, file.end // ENTRY_SIZE
            while low < high:
                middle = (low + high) // 2
                if self.entry(middle) is None:
                    high = middle
                else:
                    low = middle + 1
            if low > first:
                return low
        return self.first_offset

    def min_offset(self, end_offset: int, log_min_offset: int) -> int:
        """The first entry whose record the log still has; `end_offset` if there is none."""
        low, high = self.first_offset, end_offset
        while low < high:
            middle = (low + high) // 2
            entry = self.entry(middle)
            if entry is None or is_filler(entry[1]) or entry[0] < log_min_offset:
                low = middle + 1
            else:
                high = middle
        return low


def is_written(log_offset: int, size: int) -> bool:
    return log_offset >= 0 and size > 0


def is_filler(size: int) -> bool:
    """Whether an entry only fills a queue that does not begin at 0."""
    return size == FILLER_RECORD_SIZE
