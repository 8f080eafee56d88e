"""The disk that tests break: what it may lose, and what it must keep."""

import errno
from pathlib import Path
from random import Random

import pytest

from emberq.store.disk import PAGE_SIZE_BYTES
from emberq.testing.disk_history import Operation
from emberq.testing.faulty_disk import Fault, FaultyDisk

SEEDS = range(60)


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    return FaultyDisk(tmp_path)


def outcomes(disk: FaultyDisk, path: Path, steps: int | None = None) -> set[bytes | None]:
    """Everything that a power failure was seen to leave of a file."""
    found = (disk.after_power_loss(Random(seed), steps) for seed in SEEDS)
    return {bytes(one.content_of(path)) if one.exists(path) else None for one in found}


def durable_file(disk: FaultyDisk, name: str = "file", size: int = PAGE_SIZE_BYTES) -> Path:
    path = disk.root / name
    file = disk.create_sparse(path, size)
    file.sync()
    disk.sync_folder(disk.root)
    return path


def page(letter: bytes) -> bytes:
    return letter.ljust(PAGE_SIZE_BYTES, b"\0")


def test_what_is_synced_stays(disk: FaultyDisk) -> None:
    path = durable_file(disk)
    file = disk.open(path, is_writable=True)
    file.write(0, b"a")
    file.sync()

    assert outcomes(disk, path) == {page(b"a")}


def test_of_an_unsynced_page_any_version_may_be_found(disk: FaultyDisk) -> None:
    path = durable_file(disk)
    file = disk.open(path, is_writable=True)
    for letter in (b"a", b"b", b"c"):
        file.write(0, letter)

    assert outcomes(disk, path) == {page(b""), page(b"a"), page(b"b"), page(b"c")}


def test_pages_are_lost_one_by_one(disk: FaultyDisk) -> None:
    path = durable_file(disk, size=2 * PAGE_SIZE_BYTES)
    disk.open(path, is_writable=True).write(PAGE_SIZE_BYTES - 1, b"ab")

    torn = {
        content[PAGE_SIZE_BYTES - 1 : PAGE_SIZE_BYTES + 1]
        for content in outcomes(disk, path)
        if content
    }

    assert torn == {b"ab", b"a\0", b"\0b", b"\0\0"}


def test_a_failed_sync_leaves_pages_that_no_later_sync_saves(disk: FaultyDisk) -> None:
    path = durable_file(disk)
    file = disk.open(path, is_writable=True)
    file.write(0, b"a")
    disk.fault = Fault(0, errno.EIO, is_lasting=False, operations=frozenset({Operation.SYNC}))
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()

    assert outcomes(disk, path) == {page(b""), page(b"a")}
    file.write(0, b"b")
    file.sync()
    assert outcomes(disk, path) == {page(b"b")}


def test_a_new_name_is_durable_with_its_folder(disk: FaultyDisk) -> None:
    path = disk.root / "new"
    disk.create_sparse(path, 10).sync()
    assert None in outcomes(disk, path)

    disk.sync_folder(disk.root)

    assert outcomes(disk, path) == {bytes(10)}


def test_a_new_folder_takes_its_files_with_it(disk: FaultyDisk) -> None:
    path = disk.root / "folder" / "new"
    disk.create_sparse(path, 10).sync()
    disk.sync_folder(path.parent)
    assert None in outcomes(disk, path)

    disk.sync_folder(disk.root)

    assert outcomes(disk, path) == {bytes(10)}


def test_a_removed_file_may_come_back(disk: FaultyDisk) -> None:
    path = durable_file(disk)
    disk.remove(path)
    assert outcomes(disk, path) == {None, page(b"")}

    disk.sync_folder(disk.root)

    assert outcomes(disk, path) == {None}


def test_power_may_fail_at_any_point_of_the_history(disk: FaultyDisk) -> None:
    path = durable_file(disk)
    steps = len(disk.history)
    disk.open(path, is_writable=True).write(0, b"later")

    assert outcomes(disk, path, steps) == {page(b"")}


def test_a_found_disk_has_a_history_of_its_own(disk: FaultyDisk) -> None:
    path = durable_file(disk)
    found = disk.after_power_loss(Random(0))
    found.open(path, is_writable=True).write(0, b"a")

    assert outcomes(found, path) == {page(b""), page(b"a")}
    assert outcomes(found, path, found.steps_before) == {page(b"")}


def test_a_fault_hits_the_numbered_call_and_those_after_it(disk: FaultyDisk) -> None:
    path = durable_file(disk)
    disk.fault = Fault(disk.fallible_count + 1, errno.ENOSPC)
    file = disk.open(path, is_writable=True)
    file.write(0, b"fits")

    for _ in range(2):
        with pytest.raises(OSError, match="No space") as raised:
            file.write(0, b"does not")
        assert raised.value.errno == errno.ENOSPC
    assert file.read(0, 4) == b"fits"
    assert disk.failures == 2
