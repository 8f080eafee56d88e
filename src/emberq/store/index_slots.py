"""The slots of an index file that still grows: in memory, written to the file page by page."""

import mmap
import sys
from array import array
from collections.abc import Callable, Iterator
from struct import Struct as Layout

from emberq.store.disk import PAGE_SIZE_BYTES, DiskFile
from emberq.store.index_layout import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE

PAGES_PER_WRITE_MAX = 256
SLOTS_PER_PAGE = PAGE_SIZE_BYTES // SLOT_SIZE
_SLOTS_PER_HEADER = HEADER_SIZE // SLOT_SIZE  # the first page has room for so many fewer

# With so many new entries per page nearly every page has changed: not worth finding out.
_ENTRIES_PER_PAGE_ALL_CHANGED = 4

_HASH_AND_PREVIOUS = Layout(">i12xi")
_IS_LITTLE = sys.byteorder == "little"


class SlotTable:
    """Number of the newest entry of each slot, 0 for none.

    The loop's thread changes `values`; the rest is the flusher's.
    """

    def __init__(self, slot_count: int) -> None:
        self._slot_count = slot_count
        self._memory = _untouched_memory(slot_count * SLOT_SIZE)
        self.values = memoryview(self._memory).cast("i")
        self._changed_pages: set[int] = set()

    def load(self, file: DiskFile) -> None:
        """Take up what the file has."""
        for first, count in self._ranges():
            content = _read(file, first, count)
            if content.strip(b"\0"):
                self._set(first, _swapped(content).tobytes())

    def replace(self, values: "array[int]", file: DiskFile) -> None:
        """Take other values, and correct the file where it differs. Raises OSError."""
        for first, count in self._ranges():
            part = values[first : first + count].tobytes()
            if part.strip(b"\0"):
                self._set(first, part)
            stored = _swapped(part).tobytes()
            if stored != _read(file, first, count):
                file.write(HEADER_SIZE + first * SLOT_SIZE, stored)

    def note_changes(self, entries: bytes | bytearray) -> None:
        """Remember to write the slots of these entries."""
        page_count = _page_of(self._slot_count - 1) + 1
        if len(self._changed_pages) == page_count:
            return
        if len(entries) // ENTRY_SIZE >= page_count * _ENTRIES_PER_PAGE_ALL_CHANGED:
            self._changed_pages.update(range(page_count))
            return
        slot_count = self._slot_count
        self._changed_pages.update(
            [
                _page_of(key_hash % slot_count)
                for key_hash, _ in _HASH_AND_PREVIOUS.iter_unpack(entries)
            ]
        )

    def write_changes(self, file: DiskFile, later_entries: Callable[[], bytes]) -> int:
        """Write changed slots as they were before the later entries; returns the bytes written.

        Raises:
            OSError: then they all count as changed still.
        """
        written = 0
        for first, count in self._changed_ranges():
            values = array("i")
            values.frombytes(self._memory[first * SLOT_SIZE : (first + count) * SLOT_SIZE])
            self._restore(values, first, later_entries())
            content = _swapped(values.tobytes()).tobytes()
            file.write(HEADER_SIZE + first * SLOT_SIZE, content)
            written += len(content)
        self._changed_pages = set()
        return written

    def _restore(self, values: "array[int]", first: int, later_entries: bytes) -> None:
        """Undo later entries: the first of a slot names what the slot held before."""
        restored: set[int] = set()
        for key_hash, previous in _HASH_AND_PREVIOUS.iter_unpack(later_entries):
            index = key_hash % self._slot_count - first
            if 0 <= index < len(values) and index not in restored:
                restored.add(index)
                values[index] = previous

    def _set(self, first: int, native: bytes) -> None:
        at = first * SLOT_SIZE
        self._memory[at : at + len(native)] = native

    def _ranges(self) -> Iterator[tuple[int, int]]:
        step = PAGES_PER_WRITE_MAX * SLOTS_PER_PAGE
        for first in range(0, self._slot_count, step):
            yield first, min(step, self._slot_count - first)

    def _changed_ranges(self) -> Iterator[tuple[int, int]]:
        """First slot and number of slots of neighbouring changed pages of the file."""
        pages = sorted(self._changed_pages)
        at = 0
        while at < len(pages):
            behind = at + 1
            while (
                behind < len(pages)
                and pages[behind] == pages[behind - 1] + 1
                and behind - at < PAGES_PER_WRITE_MAX
            ):
                behind += 1
            first = max(pages[at] * SLOTS_PER_PAGE - _SLOTS_PER_HEADER, 0)
            end = (pages[behind - 1] + 1) * SLOTS_PER_PAGE - _SLOTS_PER_HEADER
            yield first, min(end, self._slot_count) - first
            at = behind


def _untouched_memory(size: int) -> mmap.mmap:
    """Zeros that cost only the pages that are touched."""
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    # Private: Python's default would make it shared memory, which is slower to touch.
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _page_of(slot: int) -> int:
    return (slot + _SLOTS_PER_HEADER) // SLOTS_PER_PAGE


def _read(file: DiskFile, first: int, count: int) -> bytes:
    size = count * SLOT_SIZE
    return file.read(HEADER_SIZE + first * SLOT_SIZE, size).ljust(size, b"\0")


def _swapped(content: bytes) -> "array[int]":
    """Numbers between the file's byte order and the machine's, either way."""
    values = array("i")
    values.frombytes(content)
    if _IS_LITTLE:
        values.byteswap()
    return values
