"""Segments made ahead, in a thread."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from emberq.store import segment_allocator
from emberq.store.segment_allocator import SegmentAllocator
from emberq.testing.faulty_disk import Fault, FaultyDisk

SIZE = 4096


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    return FaultyDisk(tmp_path)


@pytest.fixture
def allocator(disk: FaultyDisk) -> Iterator[SegmentAllocator]:
    allocator = SegmentAllocator(disk, SIZE)
    yield allocator
    allocator.stop()


def test_a_prepared_segment_is_the_one_that_is_taken(
    allocator: SegmentAllocator, disk: FaultyDisk
) -> None:
    allocator.prepare(disk.root / "a")

    segment = allocator.take(disk.root / "a")

    assert (segment.path.name, segment.size) == ("a", SIZE)
    assert disk.files() == [disk.root / "a"]


def test_a_segment_is_durable_before_it_is_used(
    allocator: SegmentAllocator, disk: FaultyDisk
) -> None:
    allocator.take(disk.root / "a")

    assert [step.operation.value for step in disk.history] == ["create", "sync", "sync folder"]


def test_a_segment_that_nobody_wants_any_more_is_removed(
    allocator: SegmentAllocator, disk: FaultyDisk
) -> None:
    allocator.prepare(disk.root / "a")
    allocator.take(disk.root / "b")
    allocator.prepare(disk.root / "c")
    allocator.prepare(disk.root / "d")
    allocator.take(disk.root / "d")

    assert disk.files() == [disk.root / "b", disk.root / "d"]


def test_a_forgotten_segment_leaves_no_file(allocator: SegmentAllocator, disk: FaultyDisk) -> None:
    allocator.prepare(disk.root / "a")
    allocator.forget()

    assert disk.files() == []
    assert allocator.take(disk.root / "a").path.name == "a"


def test_a_failure_is_the_takers_and_a_later_try_is_fresh(
    allocator: SegmentAllocator, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_allocator, "RETRY_AFTER_S", 0.0)
    disk.fault = Fault(0, errno.ENOSPC)
    allocator.prepare(disk.root / "a")
    with pytest.raises(OSError, match="No space"):
        allocator.take(disk.root / "a")
    disk.fault = None

    assert allocator.take(disk.root / "a").path.name == "a"


def test_right_after_a_failure_the_disk_is_not_asked_again(
    allocator: SegmentAllocator,
    disk: FaultyDisk,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(segment_allocator, "RETRY_AFTER_S", 1_000.0)
    disk.fault = Fault(0, errno.ENOSPC)
    failures = []
    for _ in range(5):
        with pytest.raises(OSError, match="No space") as failure:
            allocator.take(disk.root / "a")
        failures.append(failure.value)

    assert disk.failures == 1
    assert len(caplog.records) == 1
    assert len({id(failure) for failure in failures}) == 5
    disk.fault = None
    assert allocator.take(disk.root / "b").path.name == "b"


def test_a_disk_that_hangs_is_waited_for_once(
    allocator: SegmentAllocator, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_allocator, "TAKE_TIMEOUT_S", 0.05)
    with disk._lock:  # the allocator's thread waits for it
        with pytest.raises(TimeoutError):
            allocator.take(disk.root / "a")
        monkeypatch.setattr(segment_allocator, "TAKE_TIMEOUT_S", 1_000.0)
        with pytest.raises(TimeoutError):
            allocator.take(disk.root / "a")
    with allocator._changed:
        assert allocator._changed.wait_for(lambda: allocator._ready is not None, 15)

    assert allocator.take(disk.root / "a").path.name == "a"


def test_stopping_removes_what_nobody_took(disk: FaultyDisk) -> None:
    allocator = SegmentAllocator(disk, SIZE)
    allocator.prepare(disk.root / "a")
    allocator.take(disk.root / "a")
    allocator.prepare(disk.root / "b")

    allocator.stop()

    assert disk.files() == [disk.root / "a"]


def test_a_failure_of_our_own_is_told_and_the_next_segment_is_made(
    allocator: SegmentAllocator, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("not meant to happen")

    with monkeypatch.context() as patched:
        patched.setattr(disk, "create_mapped", broken)
        with pytest.raises(OSError, match="not meant to happen"):
            allocator.take(disk.root / "a")

    assert allocator.take(disk.root / "b").size == SIZE
