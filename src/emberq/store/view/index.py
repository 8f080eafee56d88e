"""A key index file as it lies on disk, whoever wrote it. Layout: docs/formats/index-file.md.

How many slots a file has stands nowhere in it; it is told from the size, or from where the entries
turn out to be.
"""

from collections.abc import Iterator
from pathlib import Path
from struct import Struct as Layout

from emberq.store.index_layout import (
    ENTRY,
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    SLOT,
    SLOT_SIZE,
    IndexHeader,
    IndexShape,
)
from emberq.store.view.files import ReadOnlyFiles

SLOTS_DEFAULT = 5_000_000
CHAIN_STEPS_MAX = 1_000_000  # a longer chain is a circle, or a key that half of the file shares
_READ_ENTRIES = 3_000

_LONG = Layout(">q")
_LOG_OFFSET_AT = 4  # in an entry, behind the hash


IndexEntry = tuple[int, int, int, int]  # hash, log offset, seconds, number of the previous entry


class IndexFileView:
    """One index file. Raises OSError wherever it cannot be read."""

    def __init__(self, path: Path, files: ReadOnlyFiles) -> None:
        self.path = path
        self._files = files
        self.size = files.disk.size_of(path)
        self._shape: IndexShape | None = None

    def header(self) -> IndexHeader | None:
        """None if the file is shorter than a header."""
        content = self._files.read(self.path, 0, HEADER_SIZE)
        if len(content) < HEADER_SIZE:
            return None
        begin_ms, end_ms, begin, end, used_slots, next_number = HEADER.unpack(content)
        return IndexHeader(
            begin_timestamp_ms=begin_ms,
            end_timestamp_ms=end_ms,
            begin_log_offset=begin,
            end_log_offset=end,
            used_slots=used_slots,
            next_number=max(next_number, 1),  # official brokers leave 0 while there is no entry
        )

    def shape(self, header: IndexHeader) -> IndexShape | None:
        """How many slots and entries the file has room for; None if nothing tells."""
        if self._shape is None:
            self._shape = self._find_shape(header)
        return self._shape

    def entry_chunks(
        self, header: IndexHeader, shape: IndexShape
    ) -> Iterator[tuple[int, list[IndexEntry]]]:
        """All entries in the order they were added, which is the order of the log; the number of
        the first of each chunk stands before it."""
        number, end = 1, min(header.next_number, shape.entries_max)
        while number < end:
            count = min(_READ_ENTRIES, end - number)
            content = self._files.read(self.path, shape.position_of(number), count * ENTRY_SIZE)
            whole = len(content) - len(content) % ENTRY_SIZE
            if whole == 0:
                return
            yield number, list(ENTRY.iter_unpack(memoryview(content)[:whole]))
            number += whole // ENTRY_SIZE

    def slot_table(self, shape: IndexShape) -> bytes:
        """Big-endian numbers of the newest entries of each slot, 0 for none."""
        return self._files.read(self.path, HEADER_SIZE, shape.slots * SLOT_SIZE)

    def find(self, key_hash: int, header: IndexHeader, shape: IndexShape) -> list[int]:
        """Log offsets of records whose key has a hash, newest first."""
        number = self._slot(key_hash % shape.slots)
        found: list[int] = []
        for _ in range(CHAIN_STEPS_MAX):
            if not 0 < number < header.next_number:
                break
            entry = self._entry(number, shape)
            if entry is None:
                break
            found_hash, log_offset, _, previous = entry
            if found_hash == key_hash:
                found.append(log_offset)
            if previous >= number:
                break  # chains lead to older entries only
            number = previous
        return found

    def _slot(self, slot: int) -> int:
        content = self._files.read(self.path, HEADER_SIZE + slot * SLOT_SIZE, SLOT_SIZE)
        return int(SLOT.unpack(content)[0]) if len(content) == SLOT_SIZE else 0

    def _entry(self, number: int, shape: IndexShape) -> IndexEntry | None:
        content = self._files.read(self.path, shape.position_of(number), ENTRY_SIZE)
        if len(content) < ENTRY_SIZE:
            return None
        key_hash, log_offset, seconds, previous = ENTRY.unpack(content)
        return key_hash, log_offset, seconds, previous

    def _find_shape(self, header: IndexHeader) -> IndexShape | None:
        last = header.next_number - 1
        usual = self._shape_with(SLOTS_DEFAULT, last)
        if usual is not None and (last == 0 or self._leads_to(last, usual)):
            return usual
        if last == 0:
            return None
        # The last entry holds the log offset that ends the header: look for where it stands.
        wanted = _LONG.pack(header.end_log_offset)
        content = self._files.read(self.path, 0, self.size)
        before = HEADER_SIZE + last * ENTRY_SIZE + _LOG_OFFSET_AT
        at = content.find(wanted, before)
        while at >= 0:
            slots, rest = divmod(at - before, SLOT_SIZE)
            shape = self._shape_with(slots, last) if rest == 0 else None
            if shape is not None and self._leads_to(last, shape):
                return shape
            at = content.find(wanted, at + 1)
        return None

    def _shape_with(self, slots: int, last: int) -> IndexShape | None:
        """The shape of a file of this size, if that is one which has room for an entry."""
        entries_max, rest = divmod(self.size - HEADER_SIZE - slots * SLOT_SIZE, ENTRY_SIZE)
        return IndexShape(slots, entries_max) if slots > 0 == rest and entries_max > last else None

    def _leads_to(self, last: int, shape: IndexShape) -> bool:
        """Whether the slot of the last entry holds its number."""
        entry = self._entry(last, shape)
        return entry is not None and entry[0] >= 0 and self._slot(entry[0] % shape.slots) == last
