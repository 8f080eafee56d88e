"""One index file: its entries and slots on disk, and what is newer in memory.

The loop's thread appends, the flusher's thread writes, any thread looks up. Appending touches
memory only: the slots of a file that still grows are kept there, and new entries wait in a tail
until they are written. Slots and header reach the file together, as of one written entry; the end
time in the header follows when the checkpoint covers it (why: docs/formats/index-file.md).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

from msgspec.structs import replace

from emberq.kernel import chain_entries
from emberq.kernel.key_hashes import KEYS_AT_ONCE_MAX
from emberq.store.disk import PAGE_SIZE_BYTES, Disk, DiskFile
from emberq.store.index_check import CheckedEntries, check_entries
from emberq.store.index_layout import (
    END_TIMESTAMP,
    END_TIMESTAMP_POSITION,
    ENTRY,
    ENTRY_SIZE,
    HEADER_SIZE,
    SECONDS_MAX,
    SLOT,
    SLOT_SIZE,
    IndexHeader,
    IndexShape,
    compare_with_entries,
)
from emberq.store.index_slots import SlotTable

ENTRIES_PER_BLOCK = PAGE_SIZE_BYTES // ENTRY_SIZE

Tail = tuple[int, bytearray]  # number of the first entry, entries


class IndexFile:
    """Entries have numbers from 1 on; a slot holds the number of its newest entry."""

    def __init__(
        self,
        disk: Disk,
        path: Path,
        shape: IndexShape,
        *,
        header: IndexHeader,
        file: DiskFile | None = None,
        end_on_disk_ms: int = 0,
    ) -> None:
        self.path = path
        self._disk = disk
        self._shape = shape
        self._file = file  # None: not on disk yet
        self._lock = Lock()  # guards header, tail, what is being written, and the reader count
        self._header = header
        self._tail: Tail = (header.next_number, bytearray())
        self._being_written: Tail | None = None
        self._header_being_written = header
        self._slots: SlotTable | None = None  # None: no entry yet, or the disk has all slots
        self._reader_count = 0
        self._is_retired = False
        # The flusher's own.
        self._written_header = header
        self.end_on_disk_ms = end_on_disk_ms
        self._has_stale_head = file is None
        self._is_unsynced = False
        self._sync_failure: OSError | None = None
        self.is_new_in_folder = False

    @property
    def header(self) -> IndexHeader:
        """The state in memory, which the file follows."""
        return self._header

    @property
    def written_header(self) -> IndexHeader:
        """The state as of the last entry that the file has."""
        return self._written_header

    @property
    def room(self) -> int:
        """How many entries still fit."""
        return self._shape.entries_max - self._header.next_number

    @property
    def is_full(self) -> bool:
        return self.room <= 0

    @property
    def unwritten_bytes(self) -> int:
        being_written = self._being_written
        return len(self._tail[1]) + (0 if being_written is None else len(being_written[1]))

    @property
    def is_settled(self) -> bool:
        """Nothing in memory that the disk does not have."""
        return not (self.unwritten_bytes or self._has_stale_head or self._is_unsynced)

    # Appending: the loop's thread

    def append(
        self, hashes: Sequence[int], log_offsets: Sequence[int], times_ms: Sequence[int]
    ) -> None:
        """Add entries, at most KEYS_AT_ONCE_MAX and no more than there is room for."""
        count = len(hashes)
        assert 0 < count <= min(KEYS_AT_ONCE_MAX, self.room)
        header = self._header
        number = header.next_number
        if self._slots is None:
            assert number == 1, "the slots of a file with entries are loaded before it grows"
            self._slots = SlotTable(self._shape.slots)
        slots = self._slots.values
        seconds = self._seconds(times_ms)
        with self._lock:
            entries, fresh = chain_entries(slots, number, hashes, log_offsets, seconds)
            self._tail[1].extend(entries)
            is_first = header.next_number == 1
            self._header = IndexHeader(
                begin_timestamp_ms=times_ms[0] if is_first else header.begin_timestamp_ms,
                end_timestamp_ms=times_ms[-1],
                begin_log_offset=log_offsets[0] if is_first else header.begin_log_offset,
                end_log_offset=log_offsets[-1],
                used_slots=header.used_slots + fresh,
                next_number=number + count,
            )

    def _seconds(self, times_ms: Sequence[int]) -> list[int]:
        """Times as entries hold them.

        The first entry of a file counts from where the file before it ended, as official brokers
        do: the begin is set after that entry is made.
        """
        begin_ms = self._header.begin_timestamp_ms
        first_ms = times_ms[0]
        if self._header.next_number == 1:
            first = _seconds_since(begin_ms, first_ms)
            return [first, *[_seconds_since(first_ms, time_ms) for time_ms in times_ms[1:]]]
        if times_ms.count(first_ms) == len(times_ms):
            return [_seconds_since(begin_ms, first_ms)] * len(times_ms)
        # Times of one turn of the loop: few differ.
        seconds = {time_ms: _seconds_since(begin_ms, time_ms) for time_ms in set(times_ms)}
        return [seconds[time_ms] for time_ms in times_ms]

    def load_slots(self) -> None:
        """Be ready to grow: read the slots, unless there is nothing to read or to add."""
        if self._file is not None and not self.is_full and self._header.next_number > 1:
            self._slots = SlotTable(self._shape.slots)
            self._slots.load(self._file)

    # Looking up: any thread

    def find(self, key_hash: int, max_count: int, begin_ms: int, end_ms: int) -> list[int]:
        """Log offsets of entries with this hash and a time in the range, newest first.

        Times have a resolution of a second, and different keys may have one hash. May wait.
        """
        found: list[int] = []
        number = self._slot_value(key_hash % self._shape.slots)
        entry_at, header = self._entry_reader()
        while 0 < number < header.next_number and len(found) < max_count:
            stored_hash, log_offset, seconds, previous = entry_at(number)
            if seconds < 0:
                break
            # The first entry gave the file its begin; its seconds count from the file before.
            time_ms = header.begin_timestamp_ms + (seconds * 1000 if number > 1 else 0)
            if stored_hash == key_hash and begin_ms <= time_ms <= end_ms:
                found.append(log_offset)
            if previous >= number or time_ms < begin_ms:  # chains lead back, never on
                break
            number = previous
        return found

    def _slot_value(self, slot: int) -> int:
        slots, file = self._slots, self._file
        if slots is not None:
            return slots.values[slot]
        if file is None:
            return 0
        content = file.read(HEADER_SIZE + slot * SLOT_SIZE, SLOT_SIZE)
        return int(SLOT.unpack(content)[0]) if len(content) == SLOT_SIZE else 0

    def _entry_reader(self) -> tuple[Callable[[int], tuple[int, ...]], IndexHeader]:
        """How to read entries by number as of now, and the header that goes with them."""
        with self._lock:
            header, file = self._header, self._file
            in_memory = [self._tail]
            if self._being_written is not None:
                in_memory.append(self._being_written)
        block_first, block = 0, b""

        def entry_at(number: int) -> tuple[int, ...]:
            nonlocal block_first, block
            for first, entries in in_memory:
                if number >= first:
                    return ENTRY.unpack_from(entries, (number - first) * ENTRY_SIZE)
            if not block_first <= number < block_first + len(block) // ENTRY_SIZE:
                # Earlier entries of a busy key are often close before this one.
                assert file is not None
                block_first = max(number - ENTRIES_PER_BLOCK + 1, 1)
                size = (number - block_first + 1) * ENTRY_SIZE
                block = file.read(self._shape.position_of(block_first), size).ljust(size, b"\0")
            return ENTRY.unpack_from(block, (number - block_first) * ENTRY_SIZE)

        return entry_at, header

    # Writing: the flusher's thread

    def write_entries(self) -> int:
        """Move new entries from memory to the file; returns the bytes written. Raises OSError."""
        written = 0
        for _ in range(2):  # what an earlier failure left, then what came since
            with self._lock:
                if self._being_written is None:
                    if not self._tail[1]:
                        break
                    self._being_written = self._tail
                    self._header_being_written = self._header
                    self._tail = (self._header.next_number, bytearray())
                first, entries = self._being_written
            file = self._file_to_write()
            file.write(self._shape.position_of(first), entries)
            assert self._slots is not None
            self._slots.note_changes(entries)
            self._written_header = self._header_being_written
            self._has_stale_head = True
            written += len(entries)
            with self._lock:
                self._being_written = None
        return written

    def write_head(self) -> int:
        """Write slots and header as of the last written entry; returns the bytes written.

        The end time stays what it was, in a new file 0.

        Raises:
            OSError
        """
        if not self._has_stale_head:
            return 0
        file = self._file_to_write()
        written = HEADER_SIZE
        if self._slots is not None:
            written += self._slots.write_changes(file, self._later_entries)
        file.write(0, replace(self._written_header, end_timestamp_ms=self.end_on_disk_ms).pack())
        self._has_stale_head = False
        return written

    def write_end(self, covered_ms: int) -> None:
        """Write the end time, as far as the checkpoint covers it, durably. Raises OSError."""
        end_ms = min(self._written_header.end_timestamp_ms, covered_ms)
        if self._file is not None and end_ms != self.end_on_disk_ms:
            self._file_to_write().write(END_TIMESTAMP_POSITION, END_TIMESTAMP.pack(end_ms))
            self.end_on_disk_ms = end_ms
            self.sync()

    def sync(self) -> None:
        """Make what is written durable. Raises OSError, and after a failure always."""
        if self._sync_failure is not None:
            raise self._sync_failure
        if self._is_unsynced:
            assert self._file is not None
            try:
                self._file.sync()
            except OSError as error:
                # The system may have dropped the pages: a second sync would succeed and lie.
                self._sync_failure = error
                raise
            self._is_unsynced = False

    def note_unsynced(self) -> None:
        """Another process wrote the file and may not have synced it."""
        self._is_unsynced = True

    def release_slots(self) -> None:
        """Forget the slots of a full file once the disk has them; readers keep what they hold."""
        if self.is_full and not self.unwritten_bytes and not self._has_stale_head:
            self._slots = None

    def _file_to_write(self) -> DiskFile:
        if self._file is None:
            self._file = self._disk.create_sparse(self.path, self._shape.file_size)
            self.is_new_in_folder = True
        self._is_unsynced = True
        return self._file

    def _later_entries(self) -> bytes:
        with self._lock:  # an append that changed slots already has its entries here too
            return bytes(self._tail[1])

    # Repair: while nothing else uses the file

    def check(self, end_log_offset: int) -> CheckedEntries:
        """What of the file is intact and of records below an offset. Raises OSError."""
        assert self._file is not None
        return check_entries(self._file, self._shape, self._header, end_log_offset)

    def compare_with_entries(self) -> None:
        """Raises StoreDamaged if the header does not describe the entries."""
        assert self._file is not None
        compare_with_entries(self._file, self._shape, self._header)

    def rewrite_head(self, checked: CheckedEntries) -> None:
        """Make slots and header on disk agree with the entries that stay. Raises OSError."""
        self._slots = SlotTable(self._shape.slots)
        self._slots.replace(checked.slots, self._file_to_write())
        self._has_stale_head = True
        self.write_head()
        self.sync()
        self.release_slots()

    # Taking leave

    def hold(self) -> bool:
        """Keep the file open for reading until `let_go`; False if it is going already."""
        with self._lock:
            if not self._is_retired:
                self._reader_count += 1
            return not self._is_retired

    def let_go(self) -> None:
        with self._lock:
            self._reader_count -= 1
            is_unused = self._is_retired and self._reader_count == 0
        if is_unused and self._file is not None:
            self._file.close()

    def close(self) -> None:
        """Close as soon as nobody reads; nothing is written."""
        with self._lock:
            is_unused = not self._is_retired and self._reader_count == 0
            self._is_retired = True
        if is_unused and self._file is not None:
            self._file.close()


def _seconds_since(begin_ms: int, time_ms: int) -> int:
    return min(max((time_ms - begin_ms) // 1000, 0), SECONDS_MAX) if begin_ms > 0 else 0
