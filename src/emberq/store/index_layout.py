"""Bytes of an index file: header, slot table, entries. Layout in docs/formats/index-file.md."""

from struct import Struct as Layout

from msgspec import Struct
from msgspec.structs import replace

from emberq.errors import StoreDamaged
from emberq.store.disk import DiskFile

HEADER = Layout(">qqqqii")
HEADER_SIZE = 40
assert HEADER.size == HEADER_SIZE

SLOT = Layout(">i")
SLOT_SIZE = 4

# Key hash, log offset, seconds since the file's begin, number of the previous entry of the slot.
ENTRY = Layout(">iqii")
ENTRY_SIZE = 20
assert ENTRY.size == ENTRY_SIZE

SECONDS_MAX = 0x7FFF_FFFF
NAME_DIGITS = 17  # local time of creation, down to milliseconds


class IndexHeader(Struct, frozen=True, kw_only=True):
    """What a file says of itself; offsets are those at which its first and last record start."""

    begin_timestamp_ms: int = 0
    end_timestamp_ms: int = 0
    begin_log_offset: int = 0
    end_log_offset: int = 0
    used_slots: int = 0
    next_number: int = 1  # for the next entry; number 0 means "none" and is never given

    def pack(self) -> bytes:
        return HEADER.pack(
            self.begin_timestamp_ms,
            self.end_timestamp_ms,
            self.begin_log_offset,
            self.end_log_offset,
            self.used_slots,
            self.next_number,
        )


class IndexShape(Struct, frozen=True):
    """How many slots and entries a file has: the same for all files of a store."""

    slots: int
    entries_max: int

    @property
    def file_size(self) -> int:
        return HEADER_SIZE + SLOT_SIZE * self.slots + ENTRY_SIZE * self.entries_max

    def position_of(self, number: int) -> int:
        """Where an entry stands in the file."""
        return HEADER_SIZE + SLOT_SIZE * self.slots + ENTRY_SIZE * number


END_TIMESTAMP = Layout(">q")
END_TIMESTAMP_POSITION = 8


def header_after(full: IndexHeader) -> IndexHeader:
    """The header that a file begins with: where the one before it ended."""
    return IndexHeader(
        begin_timestamp_ms=full.end_timestamp_ms,
        end_timestamp_ms=full.end_timestamp_ms,
        begin_log_offset=full.end_log_offset,
        end_log_offset=full.end_log_offset,
    )


def read_header(file: DiskFile, shape: IndexShape) -> IndexHeader:
    """The header of a file of the right size, with numbers that can be.

    Raises:
        StoreDamaged: this is no index file of the given shape.
    """
    if file.size != shape.file_size:
        raise StoreDamaged(
            f"{file.path} has {file.size} bytes, maxHashSlotNum and maxIndexNum say "
            f"{shape.file_size}"
        )
    begin_ms, end_ms, begin, end, used_slots, next_number = HEADER.unpack(
        file.read(0, HEADER_SIZE).ljust(HEADER_SIZE, b"\0")
    )
    header = IndexHeader(
        begin_timestamp_ms=begin_ms,
        end_timestamp_ms=end_ms,
        begin_log_offset=begin,
        end_log_offset=end,
        used_slots=used_slots,
        next_number=max(next_number, 1),  # official brokers leave 0 while there is no entry
    )
    reason = _nonsense_in(header, shape)
    if reason:
        raise StoreDamaged(f"{file.path} is no sound index file: {reason}")
    return header


def compare_with_entries(file: DiskFile, shape: IndexShape, header: IndexHeader) -> None:
    """Check that the first and the last entry are those that the header names.

    Raises:
        StoreDamaged: they are not.
    """
    if header.next_number == 1:
        return
    first = read_entry(file, shape, 1)[1]
    last = read_entry(file, shape, header.next_number - 1)[1]
    if (first, last) != (header.begin_log_offset, header.end_log_offset):
        raise StoreDamaged(
            f"{file.path} has entries of log offsets {first} to {last}, its header says "
            f"{header.begin_log_offset} to {header.end_log_offset}"
        )


def with_end_of_entries(file: DiskFile, shape: IndexShape, header: IndexHeader) -> IndexHeader:
    """The header with the time of its last entry, to the second, if it names an earlier one."""
    last = header.next_number - 1
    seconds = read_entry(file, shape, last)[2] if last > 1 else 0  # the first gives the begin
    end_ms = header.begin_timestamp_ms + seconds * 1000
    return replace(header, end_timestamp_ms=max(header.end_timestamp_ms, end_ms))


def read_entry(file: DiskFile, shape: IndexShape, number: int) -> tuple[int, int, int, int]:
    """An entry from the disk; zeros where the file ends before it."""
    content = file.read(shape.position_of(number), ENTRY_SIZE).ljust(ENTRY_SIZE, b"\0")
    key_hash, log_offset, seconds, previous = ENTRY.unpack(content)
    return key_hash, log_offset, seconds, previous


def _nonsense_in(header: IndexHeader, shape: IndexShape) -> str:
    if header.next_number > shape.entries_max:
        return f"{header.next_number - 1} entries where {shape.entries_max - 1} fit"
    if not 0 <= header.used_slots <= min(shape.slots, header.next_number - 1):
        return f"{header.used_slots} used slots with {header.next_number - 1} entries"
    if header.begin_log_offset < 0 or header.end_log_offset < header.begin_log_offset:
        return f"log offsets from {header.begin_log_offset} to {header.end_log_offset}"
    if header.begin_timestamp_ms < 0 or header.end_timestamp_ms < 0:
        return f"times from {header.begin_timestamp_ms} to {header.end_timestamp_ms}"
    return ""
