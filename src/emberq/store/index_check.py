"""Which entries of an index file can be trusted after a crash, and the slots that follow from them.

Pages that were written after the last sync may be lost, each on its own. Entries are only ever
appended, so what is lost reads as zeros; slots and header may be of any age. Every entry names
the entry before it in its slot: entries that agree with that, in log order, are whole.
"""

from array import array

from msgspec import Struct

from emberq.store.disk import DiskFile
from emberq.store.index_layout import ENTRY, ENTRY_SIZE, IndexHeader, IndexShape, read_entry

_ENTRIES_PER_READ = 16_384


class CheckedEntries(Struct, frozen=True, kw_only=True):
    """The part of a file that stays."""

    header: IndexHeader
    slots: "array[int]"
    damage: str  # empty: everything of records below the wanted end is intact


def check_entries(
    file: DiskFile, shape: IndexShape, header: IndexHeader, end_log_offset: int
) -> CheckedEntries:
    """Keep the intact entries of records that start below `end_log_offset`."""
    slots = array("i", bytes(4 * shape.slots))
    slot_count = shape.slots
    number = 1
    used_slots = 0
    last_log_offset = -1
    damage = ""
    is_done = False
    while number < header.next_number and not is_done:
        count = min(_ENTRIES_PER_READ, header.next_number - number)
        size = count * ENTRY_SIZE
        content = file.read(shape.position_of(number), size).ljust(size, b"\0")
        for key_hash, log_offset, seconds, previous in ENTRY.iter_unpack(content):
            if log_offset >= end_log_offset:
                is_done = True
                break
            slot = key_hash % slot_count
            if (
                log_offset < last_log_offset
                or key_hash < 0
                or seconds < 0
                or slots[slot] != previous
                or not (log_offset or key_hash)
            ):
                damage = f"entry {number} of {header.next_number - 1} is torn"
                is_done = True
                break
            slots[slot] = number
            used_slots += not previous
            last_log_offset = log_offset
            number += 1
    if damage:
        # The last intact entry may itself be torn, and its record have lost others.
        number, used_slots = _without_record(file, shape, slots, number, used_slots)
    return CheckedEntries(
        header=_shortened(file, shape, header, number, used_slots),
        slots=slots,
        damage=damage,
    )


def _without_record(
    file: DiskFile, shape: IndexShape, slots: "array[int]", number: int, used_slots: int
) -> tuple[int, int]:
    """Take the entries of the last record back."""
    if number == 1:
        return number, used_slots
    last_log_offset = read_entry(file, shape, number - 1)[1]
    while number > 1:
        key_hash, log_offset, _, previous = read_entry(file, shape, number - 1)
        if log_offset != last_log_offset:
            break
        slots[key_hash % shape.slots] = previous
        used_slots -= not previous
        number -= 1
    return number, used_slots


def _shortened(
    file: DiskFile, shape: IndexShape, header: IndexHeader, next_number: int, used_slots: int
) -> IndexHeader:
    if next_number == 1:
        return IndexHeader()
    _, log_offset, seconds, _ = read_entry(file, shape, next_number - 1)
    # Entries know only the second; it is all that look-ups compare with.
    end_ms = header.begin_timestamp_ms + (seconds * 1000 if next_number > 2 else 0)
    if log_offset == header.end_log_offset:
        end_ms = header.end_timestamp_ms
    return IndexHeader(
        begin_timestamp_ms=header.begin_timestamp_ms,
        end_timestamp_ms=end_ms,
        begin_log_offset=header.begin_log_offset,
        end_log_offset=log_offset,
        used_slots=used_slots,
        next_number=next_number,
    )
