"""Files of queues: a bounded number open, durable when synced."""

import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest

from emberq.store import queue_files
from emberq.store.disk import RealDisk
from emberq.store.queue_files import QueueFiles
from emberq.testing.faulty_disk import Fault, FaultyDisk

SIZE = 1_000


def nothing() -> None:
    pass


@pytest.fixture
def files(tmp_path: Path) -> QueueFiles:
    return QueueFiles(RealDisk(), SIZE)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_writes_and_reads_cross_file_borders(files: QueueFiles, tmp_path: Path) -> None:
    content = bytes(range(256)) * 10
    files.write(tmp_path, 700, content)

    assert files.read(tmp_path, 700, len(content)) == content
    assert files.read_cached(tmp_path, 700, len(content)) in (content, None)
    assert files.starts(tmp_path) == [0, 1_000, 2_000, 3_000]
    assert files.are_whole(tmp_path, files.starts(tmp_path))


def test_reading_ends_where_the_files_do(files: QueueFiles, tmp_path: Path) -> None:
    files.write(tmp_path, 0, b"x" * 10)

    assert len(files.read(tmp_path, 900, 500)) == 100
    assert files.read(tmp_path, 5_000, 10) == b""
    assert files.read_cached(tmp_path, 900, 500) is None


def test_no_more_than_the_limit_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_files, "OPEN_FILES_MAX", 8)
    files = QueueFiles(RealDisk(), SIZE)
    before = open_descriptors()
    for number in range(50):
        files.write(tmp_path / str(number), 0, b"%d" % number)
        files.read(tmp_path / str(number // 2), 0, 4)

    assert open_descriptors() - before <= 8
    files.sync(nothing)
    assert open_descriptors() - before <= 8
    assert files.read(tmp_path / "0", 0, 1) == b"0"
    files.close()
    assert open_descriptors() == before


def test_a_reader_waits_for_nobody_else_s_disk(tmp_path: Path) -> None:
    """The lock guards tables: a read that hangs must not stop others."""
    files = QueueFiles(FaultyDisk(tmp_path), SIZE)
    files.write(tmp_path / "a", 0, b"slow")
    files.write(tmp_path / "b", 0, b"fast")
    slow = files._opened(str(tmp_path / "a" / f"{0:020d}"))
    may_end, has_begun = threading.Event(), threading.Event()

    def hang(position: int, size: int) -> bytes:
        has_begun.set()
        assert may_end.wait(15)
        return b"slow"

    slow.read = hang  # type: ignore[method-assign]  # this one file hangs
    reader = threading.Thread(target=files.read, args=(tmp_path / "a", 0, 4))
    reader.start()
    assert has_begun.wait(15)

    assert files.read(tmp_path / "b", 0, 4) == b"fast"
    files.write(tmp_path / "b", 4, b"er")

    may_end.set()
    reader.join()


def test_synced_entries_survive_a_power_failure_with_their_folders(tmp_path: Path) -> None:
    from random import Random

    disk = FaultyDisk(tmp_path)
    disk.make_folder(tmp_path / "consumequeue")
    files = QueueFiles(disk, SIZE)
    folder = tmp_path / "consumequeue" / "T" / "0"
    files.write(folder, 0, b"entry")
    files.sync(nothing)
    files.write(folder, 5, b"lost?")

    for seed in range(20):
        found = QueueFiles(disk.after_power_loss(Random(seed)), SIZE)
        assert found.read(folder, 0, 5) == b"entry"


def test_what_cannot_wait_is_done_between_two_files(files: QueueFiles, tmp_path: Path) -> None:
    for number in range(5):
        files.write(tmp_path / str(number), 0, b"x")
    calls: list[int] = []

    files.sync(lambda: calls.append(1))

    assert len(calls) >= 5


def test_erasing_removes_later_files_and_zeroes_the_rest(files: QueueFiles, tmp_path: Path) -> None:
    files.write(tmp_path, 0, b"x" * 3_000)

    files.erase_after(tmp_path, 1_500)

    assert files.starts(tmp_path) == [0, 1_000]
    assert files.read(tmp_path, 1_400, 600) == b"x" * 100 + bytes(500)
    assert files.is_written_after(tmp_path, [0, 1_000], 1_499)
    assert not files.is_written_after(tmp_path, [0, 1_000], 1_500)


def test_a_short_file_gets_its_full_length_with_the_next_write(
    files: QueueFiles, tmp_path: Path
) -> None:
    path = tmp_path / f"{0:020d}"
    path.write_bytes(b"abc")
    assert files.read(tmp_path, 0, 10) == b"abc"

    files.write(tmp_path, 3, b"d")

    assert path.stat().st_size == SIZE
    assert files.read(tmp_path, 0, 5) == b"abcd\0"


def test_an_empty_file_costs_no_blocks(files: QueueFiles, tmp_path: Path) -> None:
    sparse = QueueFiles(RealDisk(), 6_000_000)
    sparse.write(tmp_path, 0, b"x" * 20)
    sparse.sync(nothing)

    assert (tmp_path / f"{0:020d}").stat().st_blocks * 512 < 100_000


def test_a_file_that_is_removed_while_it_is_opened_is_not_taken_for_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FaultyDisk(tmp_path)
    files = QueueFiles(disk, SIZE)
    files.write(tmp_path / "a", 0, b"old")
    files.close()
    really_open = disk.open

    def removed_meanwhile(path: Path, *, is_writable: bool) -> Any:
        file = really_open(path, is_writable=is_writable)
        monkeypatch.undo()
        files.remove(tmp_path / "a", 0)
        return file

    monkeypatch.setattr(disk, "open", removed_meanwhile)

    assert files.read(tmp_path / "a", 0, 3) == b"old"
    files.write(tmp_path / "a", 0, b"new")

    assert files.read(tmp_path / "a", 0, 3) == b"new"
    assert bytes(disk.content_of(tmp_path / "a" / f"{0:020d}")[:3]) == b"new"


# Very many files


def test_very_many_files_are_synced_at_once_where_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_files, "SINGLE_SYNCS_MAX", 3)
    disk = FaultyDisk(tmp_path)
    files = QueueFiles(disk, SIZE)
    files.open_file_system(tmp_path)
    for number in range(5):
        files.write(tmp_path / str(number), 0, b"entry")
    before = disk.fallible_count

    files.sync(nothing, may_take_long=True)

    assert disk.fallible_count == before + 1
    for seed in range(20):
        found = QueueFiles(disk.after_power_loss(Random(seed)), SIZE)
        assert all(found.read(tmp_path / str(number), 0, 5) == b"entry" for number in range(5))


def test_very_many_files_are_synced_one_by_one_where_somebody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_files, "SINGLE_SYNCS_MAX", 3)
    files = QueueFiles(FaultyDisk(tmp_path), SIZE)
    files.open_file_system(tmp_path)
    for number in range(5):
        files.write(tmp_path / str(number), 0, b"entry")
    calls: list[int] = []

    files.sync(lambda: calls.append(1))

    assert len(calls) >= 5


def test_a_failed_sync_of_the_file_system_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_files, "SINGLE_SYNCS_MAX", 3)
    disk = FaultyDisk(tmp_path)
    files = QueueFiles(disk, SIZE)
    files.open_file_system(tmp_path)
    for number in range(5):
        files.write(tmp_path / str(number), 0, b"entry")
    disk.fault = Fault(0)

    with pytest.raises(OSError, match="Input/output"):
        files.sync(nothing, may_take_long=True)
