import threading
from pathlib import Path

import pytest

from emberq.store.disk import RealDisk
from emberq.store.index_file import IndexFile
from emberq.store.index_layout import (
    ENTRY,
    HEADER_SIZE,
    SECONDS_MAX,
    IndexHeader,
    IndexShape,
    read_entry,
    read_header,
)
from tests.support.power_loss_disk import PowerLossDisk

SHAPE = IndexShape(slots=5000, entries_max=1000)
T = 1_760_000_000_000
ALL_TIME = (0, 1 << 62)


def new_file(path: Path, disk: RealDisk | None = None, shape: IndexShape = SHAPE) -> IndexFile:
    return IndexFile(disk or RealDisk(), path, shape, header=IndexHeader())


def settle(file: IndexFile) -> None:
    file.write_entries()
    file.write_head()
    file.sync()
    file.write_end(covered_ms=ALL_TIME[1])


def reopened(path: Path, shape: IndexShape = SHAPE) -> IndexFile:
    disk = RealDisk()
    opened = disk.open(path, is_writable=True)
    file = IndexFile(disk, path, shape, header=read_header(opened, shape), file=opened)
    file.compare_with_entries()
    return file


def test_an_entry_is_found_before_and_after_it_is_written(tmp_path: Path) -> None:
    file = new_file(tmp_path / "f")
    file.append([7, 9], [100, 200], [T, T])
    assert file.find(7, 10, *ALL_TIME) == [100]

    file.write_entries()
    assert file.find(7, 10, *ALL_TIME) == [100]

    file.write_head()
    file.sync()
    assert file.find(7, 10, *ALL_TIME) == [100]
    assert reopened(tmp_path / "f").find(9, 10, *ALL_TIME) == [200]


def test_appending_touches_no_file(tmp_path: Path) -> None:
    file = new_file(tmp_path / "f")

    file.append([7], [100], [T])

    assert not (tmp_path / "f").exists()
    assert file.unwritten_bytes == ENTRY.size


def test_a_file_costs_only_what_is_written_to_it(tmp_path: Path) -> None:
    shape = IndexShape(slots=5_000_000, entries_max=20_000_000)
    file = new_file(tmp_path / "f", shape=shape)
    file.append([7], [100], [T])
    settle(file)

    status = (tmp_path / "f").stat()
    assert status.st_size == 420_000_040
    assert status.st_blocks * 512 <= 64 * 1024


def test_a_chain_leads_from_the_newest_entry_back(tmp_path: Path) -> None:
    file = new_file(tmp_path / "f")
    same_slot = [3, 3 + SHAPE.slots, 3, 3]
    file.append(same_slot, [10, 20, 30, 40], [T] * 4)

    assert file.find(3, 10, *ALL_TIME) == [40, 30, 10]
    assert file.find(3, 2, *ALL_TIME) == [40, 30]
    assert file.find(3 + SHAPE.slots, 10, *ALL_TIME) == [20]
    assert file.find(4, 10, *ALL_TIME) == []
    assert file.header.used_slots == 1


def test_times_are_compared_in_seconds_since_the_first_entry(tmp_path: Path) -> None:
    file = new_file(tmp_path / "f")
    file.append([1, 1, 1], [10, 20, 30], [T, T + 999, T + 1999])

    assert file.find(1, 10, T, T) == [20, 10]
    assert file.find(1, 10, T + 1000, T + 1000) == [30]
    assert file.find(1, 10, T + 1001, T + 1999) == []


def test_the_walk_ends_at_the_first_entry_that_is_too_old(tmp_path: Path) -> None:
    file = new_file(tmp_path / "f")
    # The clock was put back between the first and the third.
    file.append([1, 1, 1], [10, 20, 30], [T, T - 5000, T + 9000])
    file.append([1, 1], [40, 50], [T + 1000, T + 9000])

    assert file.find(1, 10, T + 2000, T + 9000) == [50]


def test_seconds_stay_within_their_field(tmp_path: Path) -> None:
    file = new_file(tmp_path / "f")
    file.append([1], [10], [T])
    file.append([1, 1], [20, 30], [T - 1, T + (SECONDS_MAX + 5) * 1000])
    settle(file)

    disk_file = RealDisk().open(tmp_path / "f", is_writable=False)
    assert [read_entry(disk_file, SHAPE, number)[2] for number in (1, 2, 3)] == [0, 0, SECONDS_MAX]
    disk_file.close()


def test_a_file_is_full_when_the_next_number_is_the_maximum(tmp_path: Path) -> None:
    shape = IndexShape(slots=4, entries_max=4)
    file = new_file(tmp_path / "f", shape=shape)
    assert file.room == 3
    file.append([1, 2, 3], [1, 2, 3], [T] * 3)
    assert file.is_full

    settle(file)
    file.release_slots()
    assert file.find(2, 10, *ALL_TIME) == [2]


def test_a_loaded_file_grows_on(tmp_path: Path) -> None:
    file = new_file(tmp_path / "f")
    file.append([1, 2], [10, 20], [T, T])
    settle(file)
    file.close()

    again = reopened(tmp_path / "f")
    again.load_slots()
    again.append([1], [30], [T + 3000])
    settle(again)

    assert again.find(1, 10, *ALL_TIME) == [30, 10]
    assert again.header.begin_timestamp_ms == T
    assert again.header.end_timestamp_ms == T + 3000


def test_slots_and_header_on_disk_are_of_one_moment_whatever_is_appended_meanwhile(
    tmp_path: Path,
) -> None:
    disk = PowerLossDisk()
    file = new_file(tmp_path / "f", disk)
    appended = 0

    def append_meanwhile(_path: Path, _position: int) -> None:
        nonlocal appended
        appended += 1
        # The same slots as before, and new ones on pages that are written now or later.
        hashes = [1, 4999, appended + 10]
        file.append(hashes, [1000 + appended] * 3, [T + 1] * 3)

    file.append([1, 2500, 4999], [10, 20, 30], [T] * 3)
    disk.before_write = append_meanwhile
    settle(file)
    assert appended > 3

    on_disk = reopened(tmp_path / "f")
    assert on_disk.header == file.written_header
    checked = on_disk.check(1 << 62)
    assert not checked.damage
    stored = (tmp_path / "f").read_bytes()[HEADER_SIZE : HEADER_SIZE + 4 * SHAPE.slots]
    expected = checked.slots
    expected.byteswap()
    assert stored == expected.tobytes()


def test_a_failed_write_is_made_up_for_by_the_next(tmp_path: Path) -> None:
    disk = PowerLossDisk()
    file = new_file(tmp_path / "f", disk)

    def fail(_path: Path, _position: int) -> None:
        raise OSError(28, "No space left on device")

    file.append([1], [10], [T])
    disk.before_write = fail
    with pytest.raises(OSError, match="No space"):
        file.write_entries()
    file.append([2], [20], [T])
    assert file.find(1, 10, *ALL_TIME) == [10]
    assert file.find(2, 10, *ALL_TIME) == [20]
    with pytest.raises(OSError, match="No space"):
        file.write_entries()

    disk.before_write = lambda _path, _position: None
    assert file.write_entries() == 2 * ENTRY.size
    settle(file)
    assert reopened(tmp_path / "f").find(1, 10, *ALL_TIME) == [10]
    assert reopened(tmp_path / "f").find(2, 10, *ALL_TIME) == [20]


def test_after_a_failed_sync_no_sync_succeeds(tmp_path: Path) -> None:
    disk = PowerLossDisk()
    file = new_file(tmp_path / "f", disk)
    file.append([1], [10], [T])

    def fail(_path: Path) -> None:
        raise OSError(5, "Input/output error")

    disk.before_sync = fail
    with pytest.raises(OSError, match="Input/output"):
        settle(file)

    disk.before_sync = lambda _path: None
    with pytest.raises(OSError, match="Input/output"):
        settle(file)
    assert not file.is_settled


def test_a_file_stays_open_until_its_last_reader_has_left(tmp_path: Path) -> None:
    file = new_file(tmp_path / "f")
    file.append([1], [10], [T])
    settle(file)

    assert file.hold()
    file.close()
    assert not file.hold()
    assert file.find(1, 10, *ALL_TIME) == [10]
    file.let_go()
    file.close()


def test_loop_flusher_and_readers_work_at_once(tmp_path: Path) -> None:
    file = new_file(tmp_path / "f", shape=IndexShape(slots=64, entries_max=100_000))
    stop = threading.Event()
    failures: list[str] = []

    def flush() -> None:
        while not stop.is_set():
            settle(file)

    def read() -> None:
        while not stop.is_set():
            before = file.header.next_number - 1
            found = file.find(1, 1 << 30, *ALL_TIME)
            if found != sorted(found, reverse=True) or len(found) < before // 16 - 1:
                failures.append(f"{len(found)} of {before} entries")

    threads = [threading.Thread(target=flush), threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    for number in range(0, 20_000, 16):
        file.append(list(range(1, 17)), [number] * 16, [T] * 16)
    stop.set()
    for thread in threads:
        thread.join()

    settle(file)
    assert failures == []
    checked = file.check(1 << 62)
    assert not checked.damage
    assert checked.header == file.header
