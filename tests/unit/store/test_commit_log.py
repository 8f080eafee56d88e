"""The row of segments: loading, rolling, cutting, deleting."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from emberq.errors import StoreDamaged, StoreError
from emberq.record.encode import encode_blank
from emberq.store import segment_allocator
from emberq.store.commit_log import CommitLog, segment_name
from emberq.store.disk import RealDisk
from emberq.testing.disk_history import Operation
from emberq.testing.faulty_disk import Fault, FaultyDisk

SIZE = 8192


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    log = CommitLog(RealDisk(), tmp_path, SIZE)
    log.load()
    log.open_for_append()
    yield log
    log.close()


def fill(log: CommitLog, count: int, size: int = 3_000) -> None:
    for number in range(count):
        if not log.fits(size):
            log.roll()
        log.append(bytes([number + 1]) * size)


def seen(log: CommitLog, offset: int, size: int) -> bytes:
    view = log.view(offset, size)
    assert view is not None
    return bytes(view)


def reloaded(folder: Path, size: int = SIZE) -> CommitLog:
    log = CommitLog(RealDisk(), folder, size)
    log.load()
    return log


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_full_segment_ends_with_a_blank_that_names_what_is_left(log: CommitLog) -> None:
    fill(log, 3)

    assert seen(log, 6_000, 8) == encode_blank(SIZE - 6_000)
    assert log.end == SIZE + 3_000


def test_a_view_never_leaves_its_segment_or_the_log(log: CommitLog) -> None:
    fill(log, 3)

    assert log.view(SIZE - 10, 20) is None
    assert log.view(SIZE + 2_999, 2) is None
    assert log.view(-5, 2) is None
    assert seen(log, SIZE, 3_000) == bytes([3]) * 3_000


def test_the_next_segment_is_made_before_it_is_needed_and_removed_at_the_end(
    tmp_path: Path,
) -> None:
    log = CommitLog(RealDisk(), tmp_path, SIZE)
    log.load()
    log.open_for_append()
    fill(log, 1)
    log.close()

    assert names(tmp_path) == [segment_name(0)]


def test_a_file_of_another_size_is_named_with_the_setting(tmp_path: Path) -> None:
    (tmp_path / segment_name(0)).write_bytes(b"x" * SIZE)

    with pytest.raises(StoreDamaged, match="8192 bytes, mappedFileSizeCommitLog is 16384"):
        reloaded(tmp_path, 2 * SIZE)
    with pytest.raises(StoreDamaged, match="8192 bytes, mappedFileSizeCommitLog is 4096"):
        reloaded(tmp_path, SIZE // 2)


def test_a_missing_file_in_between_is_named(tmp_path: Path) -> None:
    for start in (0, 2 * SIZE):
        (tmp_path / segment_name(start)).write_bytes(bytes(SIZE))

    with pytest.raises(StoreDamaged, match="does not follow"):
        reloaded(tmp_path)


@pytest.mark.parametrize("size", [0, 100, SIZE - 1])
def test_a_last_file_that_was_being_made_is_removed(tmp_path: Path, size: int) -> None:
    (tmp_path / segment_name(0)).write_bytes(b"x" * SIZE)
    (tmp_path / segment_name(SIZE)).write_bytes(bytes(size))

    assert reloaded(tmp_path).end == SIZE
    assert names(tmp_path) == [segment_name(0)]


def test_a_short_file_that_holds_something_is_damage(tmp_path: Path) -> None:
    (tmp_path / segment_name(0)).write_bytes(bytes(100) + b"x")

    with pytest.raises(StoreDamaged):
        reloaded(tmp_path)


def test_other_files_and_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "123").mkdir()

    assert reloaded(tmp_path).starts == []
    assert names(tmp_path) == ["123", "notes.txt"]


def test_truncating_erases_what_stood_behind(log: CommitLog, tmp_path: Path) -> None:
    fill(log, 5)

    log.truncate(3_000)

    first = (tmp_path / segment_name(0)).read_bytes()
    assert first == b"\1" * 3_000 + bytes(SIZE - 3_000)
    assert log.end == 3_000
    assert log.starts == [0]
    fill(log, 3)
    assert log.end == SIZE + 6_000


def test_truncating_to_a_border_removes_the_segment_behind_it(
    log: CommitLog, tmp_path: Path
) -> None:
    fill(log, 3)

    log.truncate(SIZE)

    assert log.starts == [0]
    fill(log, 1)
    assert log.starts == [0, SIZE]
    assert log.end == SIZE + 3_000


def test_truncating_to_nothing_keeps_an_empty_first_segment(log: CommitLog) -> None:
    fill(log, 3)

    log.truncate(0)

    assert (log.starts, log.end) == ([0], 0)
    fill(log, 1)
    assert log.end == 3_000


def test_a_log_cannot_be_cut_in_front_of_its_beginning(log: CommitLog) -> None:
    fill(log, 5)
    log.remove_first()

    with pytest.raises(StoreError, match="begins at"):
        log.truncate(100)


def test_after_cutting_no_file_stands_alone(tmp_path: Path) -> None:
    """The segment made ahead goes first: a crash in between must not leave a hole in the row."""
    disk = FaultyDisk(tmp_path)
    log = CommitLog(disk, tmp_path / "log", SIZE)
    log.open_for_append()
    fill(log, 6)
    assert log._allocator is not None
    with log._allocator._changed:
        log._allocator._changed.wait_for(lambda: log._allocator and log._allocator._ready)
    at = len(disk.history)
    log.truncate(100)
    log.close()

    removed = [step.path.name for step in disk.history[at:] if step.operation is Operation.REMOVE]
    assert removed[:3] == [segment_name(number * SIZE) for number in (3, 2, 1)]


def test_the_oldest_segment_goes_and_the_active_one_stays(log: CommitLog, tmp_path: Path) -> None:
    fill(log, 5)
    view = log.view(0, 3_000)

    assert log.remove_first() == tmp_path / segment_name(0)
    assert log.remove_first() == tmp_path / segment_name(SIZE)
    assert log.remove_first() is None

    assert log.min_offset == 2 * SIZE
    assert log.view(0, 10) is None
    assert view is not None
    assert bytes(view) == b"\1" * 3_000, "who holds bytes keeps them"


def test_a_thread_that_reads_a_deleted_segment_reads_on(log: CommitLog) -> None:
    fill(log, 5)
    found = log.segment_at(0)
    assert found is not None

    log.remove_first()

    assert found[0].read(0, 3_000) == b"\1" * 3_000


def test_without_room_for_a_segment_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_allocator, "RETRY_AFTER_S", 0.0)
    disk = FaultyDisk(tmp_path)
    log = CommitLog(disk, tmp_path / "log", SIZE)
    log.open_for_append()
    fill(log, 2)
    assert log._allocator is not None
    log._allocator.forget()
    disk.fault = Fault(0, errno.ENOSPC)

    with pytest.raises(OSError, match="No space"):
        log.roll()

    assert log.end == 6_000
    disk.fault = None
    fill(log, 1)
    assert log.end == SIZE + 3_000
    log.close()
