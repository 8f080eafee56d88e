from array import array
from pathlib import Path

from emberq.store.disk import DiskFile, RealDisk
from emberq.store.index_layout import ENTRY, HEADER_SIZE
from emberq.store.index_slots import PAGES_PER_WRITE_MAX, SLOTS_PER_PAGE, SlotTable
from tests.support.power_loss_disk import PowerLossDisk

SLOTS = 3 * PAGES_PER_WRITE_MAX * SLOTS_PER_PAGE + 5
SIZE = HEADER_SIZE + 4 * SLOTS


def entries(*hashes_and_previous: tuple[int, int]) -> bytes:
    return b"".join(ENTRY.pack(key_hash, 0, 0, prev) for key_hash, prev in hashes_and_previous)


def stored(file: DiskFile, slot: int) -> int:
    return int.from_bytes(file.read(HEADER_SIZE + 4 * slot, 4), "big")


def test_only_changed_pages_are_written(tmp_path: Path) -> None:
    disk = PowerLossDisk()
    file = disk.create_sparse(tmp_path / "f", SIZE)
    table = SlotTable(SLOTS)
    changed = [0, 1013, 1014, 5000, SLOTS - 1]  # 1014 is the first slot of the second page
    for number, slot in enumerate(changed, 1):
        table.values[slot] = number
    table.note_changes(entries(*((slot, 0) for slot in changed)))

    written = table.write_changes(file, lambda: b"")

    assert [stored(file, slot) for slot in changed] == [1, 2, 3, 4, 5]
    assert sorted(disk.versions[tmp_path / "f"]) == [0, 1, 4, (SIZE - 1) // 4096]
    assert written < 4 * 4096
    assert table.write_changes(file, lambda: b"") == 0
    file.close()


def test_many_entries_change_all_pages(tmp_path: Path) -> None:
    slots = 4 * SLOTS_PER_PAGE
    file = RealDisk().create_sparse(tmp_path / "f", HEADER_SIZE + 4 * slots)
    table = SlotTable(slots)
    for slot in range(slots):
        table.values[slot] = slot + 1
    table.note_changes(entries(*((1, 0) for _ in range(100))))

    assert table.write_changes(file, lambda: b"") == 4 * slots
    assert [stored(file, slot) for slot in (0, slots - 1)] == [1, slots]
    file.close()


def test_later_entries_are_not_in_what_is_written(tmp_path: Path) -> None:
    file = RealDisk().create_sparse(tmp_path / "f", SIZE)
    table = SlotTable(SLOTS)
    table.values[3], table.values[4] = 7, 5
    table.note_changes(entries((3, 0), (4, 0)))

    # Entry 6 and 7 of slot 3 came later; before them it held 2.
    table.write_changes(file, lambda: entries((3, 2), (3, 6)))

    assert (stored(file, 3), stored(file, 4)) == (2, 5)
    assert table.values[3] == 7
    file.close()


def test_a_file_is_loaded_and_corrected(tmp_path: Path) -> None:
    file = RealDisk().create_sparse(tmp_path / "f", SIZE)
    file.write(HEADER_SIZE + 4 * 9, (77).to_bytes(4, "big"))
    table = SlotTable(SLOTS)
    table.load(file)
    assert table.values[9] == 77

    values = array("i", bytes(4 * SLOTS))
    values[SLOTS - 1] = 88
    corrected = SlotTable(SLOTS)
    corrected.replace(values, file)

    assert (stored(file, 9), stored(file, SLOTS - 1)) == (0, 88)
    assert (corrected.values[9], corrected.values[SLOTS - 1]) == (0, 88)
    file.close()
