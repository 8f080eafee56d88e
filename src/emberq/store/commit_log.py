"""The commit log: all records of all topics, one after the other, in segments of equal size."""

import logging
from bisect import bisect_right
from pathlib import Path
from threading import Lock

from emberq.errors import StoreDamaged, StoreError
from emberq.record.encode import encode_blank
from emberq.record.layout import BLANK_SIZE_MIN, BytesLike
from emberq.store.disk import Disk, MappedFile
from emberq.store.erasing import pieces_not_zero
from emberq.store.segment_allocator import SegmentAllocator

log = logging.getLogger(__name__)

NAME_DIGITS = 20


def segment_name(start: int) -> str:
    return f"{start:0{NAME_DIGITS}d}"


class CommitLog:
    """Positions are log offsets. Only one thread appends; any thread may read what is written."""

    def __init__(self, disk: Disk, folder: Path, segment_size: int) -> None:
        self.segment_size = segment_size
        self._disk = disk
        self._folder = folder
        # Starts and segments, replaced together: other threads read the log while this one
        # adds and removes segments.
        self._chain: tuple[list[int], list[MappedFile]] = ([], [])
        self._chain_lock = Lock()  # guards replacing it: the loop adds, retention removes
        self._allocator: SegmentAllocator | None = None
        self.end = 0
        # Where the active segment starts, so that an append need not look it up, and up to which
        # offset it takes records: room for a blank stays.
        self.active: MappedFile | None = None
        self.active_start = 0
        self.room_end = 0

    # Opening and closing

    def load(self, *, is_writable: bool = True) -> None:
        """Map the segments that are there; `end` is behind the last until recovery says better.

        Raises:
            StoreDamaged: a file is not of the configured size, or one is missing in between.
        """
        names = [
            name
            for name in self._disk.list(self._folder)
            if name.isdigit() and len(name) == NAME_DIGITS
        ]
        for name in names:
            path = self._folder / name
            size = self._disk.size_of(path)
            if size != self.segment_size:
                if is_writable and name == names[-1] and self._is_unfinished(path, size):
                    self._disk.remove(path)
                    break
                raise StoreDamaged(
                    f"{path} has {size} bytes, mappedFileSizeCommitLog is {self.segment_size}"
                )
            start, starts = int(name), self._chain[0]
            if starts and start != starts[-1] + self.segment_size:
                raise StoreDamaged(f"{path} does not follow {segment_name(starts[-1])}")
            self._add(start, self._disk.open_mapped(path, is_writable=is_writable))
        starts = self._chain[0]
        self.end = starts[-1] + self.segment_size if starts else 0

    def _is_unfinished(self, path: Path, size: int) -> bool:
        """Whether a file was being made when the process died: short, and never written to."""
        if size == 0:
            return True
        if size > self.segment_size:
            return False
        file = self._disk.open(path, is_writable=False)
        try:
            return not any(True for _ in pieces_not_zero(file, 0))
        finally:
            file.close()

    def open_for_append(self) -> None:
        """Begin to take records at `end`, which recovery has set."""
        self._allocator = SegmentAllocator(self._disk, self.segment_size)
        self._activate_end()

    def close(self) -> None:
        if self._allocator is not None:
            self._allocator.stop()
        for segment in self._chain[1]:
            segment.close()
        self.active = None
        self.room_end = 0

    # Facts

    @property
    def min_offset(self) -> int:
        starts = self._chain[0]
        return starts[0] if starts else 0

    @property
    def starts(self) -> list[int]:
        """Log offsets at which segments begin."""
        return list(self._chain[0])

    def segment_at(self, offset: int) -> tuple[MappedFile, int] | None:
        """The segment that holds an offset, and the position in it."""
        starts, segments = self._chain
        index = bisect_right(starts, offset) - 1
        if index < 0 or offset >= starts[index] + self.segment_size:
            return None
        return segments[index], offset - starts[index]

    @property
    def room_left(self) -> int:
        """Bytes that the active segment can still take."""
        if self.active is None:
            return 0
        return self.active_start + self.segment_size - self.end

    # Writing

    def append(self, record: BytesLike) -> None:
        """Write a record at `end`; the caller has made sure that it fits with a blank behind."""
        active = self.active
        assert active is not None
        active.write(self.end - self.active_start, record)
        self.end += len(record)

    def fits(self, size: int) -> bool:
        return size + BLANK_SIZE_MIN <= self.room_left

    def roll(self) -> None:
        """End the active segment with a blank and go on in the next.

        Raises:
            OSError: the next segment cannot be made; nothing has changed.
        """
        assert self._allocator is not None, "the log is not open for appending"
        start = self.active_start + self.segment_size if self.active is not None else self.end
        segment = self._allocator.take(self._folder / segment_name(start))
        if self.active is not None and self.room_left >= BLANK_SIZE_MIN:
            self.active.write(self.end - self.active_start, encode_blank(self.room_left))
        self._add(start, segment)
        self.end = start
        self._activate_end()

    def append_raw(self, offset: int, content: BytesLike) -> None:
        """Write bytes of another broker's log where they stand there.

        Raises:
            StoreError: they do not continue this log; an empty one begins where a segment does.
            OSError: the next segment cannot be made.
        """
        if not self._chain[0] and offset % self.segment_size == 0:
            self.end = offset
        if offset != self.end:
            raise StoreError(
                f"bytes for offset {offset} do not continue a log that ends at {self.end}"
            )
        position = 0
        while position < len(content):
            if self.room_left == 0:
                self.roll()
            part = content[position : position + self.room_left]
            self.append(part)
            position += len(part)

    def truncate(self, offset: int) -> None:
        """Forget everything from `offset` on, also what an earlier life left behind it.

        Raises:
            StoreError: the log begins later.
        """
        starts, segments = self._chain
        if offset < self.min_offset:
            raise StoreError(f"the log begins at {self.min_offset}, it cannot end at {offset}")
        if self._allocator is not None:
            self._allocator.forget()
        kept = max(1, bisect_right(starts, offset - 1)) if starts else 0
        with self._chain_lock:
            self._chain = (starts[:kept], segments[:kept])
        for segment in reversed(segments[kept:]):
            self._remove(segment.path)
        self.end = offset
        found = self.segment_at(offset)
        if found is not None:
            # A stale record behind the end would come to life when new ones of its size lead to it.
            segment, position = found
            for at, size in pieces_not_zero(segment, position):
                segment.write(at, bytes(size))
        if self._allocator is not None:
            self._activate_end()

    def sync(self, offset: int) -> None:
        """Make everything from `offset` on durable, and what `truncate` erased. Raises OSError."""
        starts, segments = self._chain
        for start, segment in zip(starts, segments, strict=True):
            if start + self.segment_size > offset:
                segment.sync()

    def remove_first(self, durable_offset: int | None = None) -> Path | None:
        """Delete the oldest segment, never the active one nor one that goes beyond what is
        durable; readers keep what they hold. Raises OSError: then it is still there.
        """
        starts, segments = self._chain
        if len(segments) < 2:
            return None
        if starts[1] > (self.end if durable_offset is None else durable_offset):
            return None
        # The file first: were it still there when later ones go, the row would have a hole.
        self._remove(segments[0].path)
        with self._chain_lock:
            starts, segments = self._chain
            self._chain = (starts[1:], segments[1:])
        # Not closed: a thread may be reading it. The last reference closes it.
        return segments[0].path

    @property
    def first_path(self) -> Path | None:
        segments = self._chain[1]
        return segments[0].path if segments else None

    def _remove(self, path: Path) -> None:
        """One at a time: after a power failure the row of files must not have a hole."""
        self._disk.remove(path)
        self._disk.sync_folder(self._folder)

    # Reading

    def view(self, offset: int, size: int) -> memoryview | None:
        """Mapped bytes; None if they are not within one segment or not written."""
        if offset + size > self.end:
            return None
        found = self.segment_at(offset)
        if found is None or found[1] + size > self.segment_size:
            return None
        segment, position = found
        return segment.view[position : position + size]

    def _add(self, start: int, segment: MappedFile) -> None:
        with self._chain_lock:
            starts, segments = self._chain
            self._chain = ([*starts, start], [*segments, segment])

    def _activate_end(self) -> None:
        """Append to the segment that holds `end`, and have the one after it made."""
        found = self.segment_at(self.end)
        if found is None:
            self.active = None  # the end is a border: the next append rolls
            self.room_end = self.end
            starts = self._chain[0]
            following = starts[-1] + self.segment_size if starts else self.end
        else:
            self.active, position = found
            self.active_start = self.end - position
            following = self.active_start + self.segment_size
            self.room_end = following - BLANK_SIZE_MIN
        assert self._allocator is not None
        if not self._chain[0] or following > self._chain[0][-1]:
            self._allocator.prepare(self._folder / segment_name(following))
