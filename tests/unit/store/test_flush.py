"""The flusher's thread and those who wait for it."""

import errno
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from emberq.errors import StoreFailed
from emberq.store.commit_log import CommitLog, segment_name
from emberq.store.flush import Flusher, FlushPace, FlushWaiters
from emberq.store.results import PutStatus
from emberq.testing.disk_history import Operation
from emberq.testing.faulty_disk import Fault, FaultyDisk
from tests.support.stores import SYNC, durable, loop_store, new_store, opened, put
from tests.support.waiting import until

SLOW = FlushPace(
    log_interval_ms=10**6,
    log_thorough_interval_ms=10**6,
    side_interval_ms=10**6,
    side_thorough_interval_ms=10**6,
)


BROKEN_SYNC = Fault(0, errno.EIO, operations=frozenset({Operation.SYNC}))


class NoSideFiles:
    is_sync_due = False

    def __init__(self) -> None:
        self.written = self.synced = 0

    def write_side_files(self, in_between: Callable[[], None]) -> None:
        self.written += 1

    def sync_side_files(self, sync_log: Callable[[], None], in_between: Callable[[], None]) -> None:
        self.synced += 1
        sync_log()


class Flushed:
    """A log with a flusher, and what the flusher said."""

    def __init__(self, root: Path, pace: FlushPace = SLOW) -> None:
        self.disk = FaultyDisk(root)
        self.log = CommitLog(self.disk, root / "log", 4096)
        self.log.open_for_append()
        self.log.roll()
        self.side_files = NoSideFiles()
        self.offsets: list[int] = []
        self.failures: list[Exception] = []
        self.heard = threading.Condition()
        self.flusher = Flusher(
            self.log,
            self.side_files,
            pace,
            on_flushed=self._hear(self.offsets),
            on_failed=self._hear(self.failures),
        )
        self.flusher.start()

    def _hear(self, heard: list[Any]) -> Callable[[Any], None]:
        def hear(said: Any) -> None:
            with self.heard:
                heard.append(said)
                self.heard.notify_all()

        return hear

    def wait(self, condition: Callable[[], object]) -> None:
        with self.heard:
            assert self.heard.wait_for(condition, 15)

    def syncs(self) -> int:
        return sum(
            step.operation is Operation.SYNC and step.path.parent.name == "log"
            for step in self.disk.history
        )


@pytest.fixture
def flushed(tmp_path: Path) -> Iterator[Flushed]:
    flushed = Flushed(tmp_path)
    yield flushed
    flushed.log.close()  # with the thread that makes segments ahead


def test_what_is_wanted_is_synced_soon(flushed: Flushed) -> None:
    flushed.log.append(b"x" * 100)
    flushed.flusher.want(100)

    flushed.wait(lambda: flushed.offsets == [100])
    assert flushed.flusher.flushed_offset == 100
    flushed.flusher.stop()


def test_all_that_came_during_a_sync_share_the_next(flushed: Flushed) -> None:
    before = flushed.syncs()
    may_end = threading.Event()
    sync = flushed.disk.sync_file
    flushed.disk.sync_file = lambda file: (may_end.wait(15), sync(file))[1]  # type: ignore[method-assign]
    for _ in range(50):
        flushed.log.append(b"x" * 10)
        flushed.flusher.want(flushed.log.end)
    may_end.set()

    flushed.wait(lambda: flushed.offsets and flushed.offsets[-1] == 500)
    assert flushed.syncs() - before <= 2
    flushed.flusher.stop()


def test_a_sync_covers_every_segment_since_the_last(flushed: Flushed) -> None:
    for _ in range(3):
        flushed.log.append(b"x" * 3_000)
        flushed.log.roll()
    at = len(flushed.disk.history)
    flushed.flusher.want(flushed.log.end)
    flushed.wait(lambda: flushed.offsets)
    flushed.flusher.stop()

    synced = {
        step.path.name for step in flushed.disk.history[at:] if step.operation is Operation.SYNC
    }
    assert len(synced) >= 3


def test_few_dirty_pages_wait_for_the_thorough_flush(tmp_path: Path) -> None:
    pace = FlushPace(log_interval_ms=1, log_pages_min=4, log_thorough_interval_ms=10**6)
    flushed = Flushed(tmp_path, pace)
    flushed.log.append(b"x" * 3_000)
    flushed.wait(lambda: True)
    assert flushed.offsets == []
    for _ in range(8):
        flushed.log.roll()
        flushed.log.append(b"x" * 3_000)

    flushed.wait(lambda: flushed.offsets)
    flushed.flusher.stop()


def test_side_files_have_their_own_pace(tmp_path: Path) -> None:
    pace = FlushPace(side_interval_ms=1, side_thorough_interval_ms=2)
    flushed = Flushed(tmp_path, pace)
    side_files = flushed.side_files

    with flushed.heard:
        flushed.heard.wait_for(lambda: side_files.written > 3 and side_files.synced > 1, 0.5)
    flushed.flusher.stop()

    assert side_files.written > 1
    assert side_files.synced > 1


def test_a_failed_sync_is_said_once_and_nothing_is_synced_after_it(flushed: Flushed) -> None:
    flushed.disk.fault = BROKEN_SYNC
    flushed.log.append(b"x" * 10)
    flushed.flusher.want(10)
    flushed.wait(lambda: flushed.failures)
    flushed.disk.fault = None
    flushed.flusher.want(10)

    with pytest.raises(StoreFailed, match="Input/output error"):
        flushed.flusher.stop()

    assert flushed.offsets == []
    assert flushed.flusher.flushed_offset == 0
    assert len(flushed.failures) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_in_the_flusher_stops_the_store_too(flushed: Flushed) -> None:
    sync = flushed.disk.sync_file

    def broken(file: Any) -> None:
        if file.path.name == segment_name(0):  # not the one that is being made ahead
            raise ZeroDivisionError
        sync(file)

    flushed.disk.sync_file = broken  # type: ignore[method-assign]
    flushed.log.append(b"x" * 10)
    flushed.flusher.want(10)

    flushed.wait(lambda: flushed.failures)
    flushed.flusher._thread.join()
    assert isinstance(flushed.failures[0], ZeroDivisionError)


def test_a_sync_that_ends_after_a_cut_counts_for_nothing(flushed: Flushed) -> None:
    has_begun, may_end = threading.Event(), threading.Event()
    sync = flushed.disk.sync_file

    def slow(file: Any) -> None:
        if file.path.name == segment_name(0):  # not the one that is being made ahead
            has_begun.set()
            assert may_end.wait(15)
        sync(file)

    flushed.disk.sync_file = slow  # type: ignore[method-assign]
    flushed.log.append(b"x" * 100)
    flushed.flusher.want(100)
    assert has_begun.wait(15)
    flushed.log.truncate(40)
    flushed.flusher.cut_back(40)
    flushed.log.append(b"y" * 60)
    may_end.set()
    flushed.flusher.want(100)

    flushed.wait(lambda: flushed.offsets)
    flushed.flusher.stop()
    steps = flushed.disk.history
    written = max(index for index, step in enumerate(steps) if step.content == b"y" * 60)
    assert any(step.operation is Operation.SYNC for step in steps[written:])


# Waiters


OK, LATE = PutStatus.PUT_OK, PutStatus.FLUSH_DISK_TIMEOUT


def wait_for(waiters: FlushWaiters, heard: list[tuple[int, PutStatus]]) -> None:
    def hear(offset: int, status: PutStatus) -> None:
        heard.append((offset, status))

    for offset in (10, 20, 30):
        waiters.add(offset, 100.0, partial(hear, offset))


def test_waiters_are_released_in_order_up_to_the_offset() -> None:
    waiters = FlushWaiters()
    heard: list[tuple[int, PutStatus]] = []
    wait_for(waiters, heard)

    waiters.release(20)
    assert heard == [(10, OK), (20, OK)]
    waiters.expire(99.9, LATE)
    assert len(waiters) == 1
    waiters.expire(100.0, LATE)
    assert heard[2:] == [(30, LATE)]


def test_waiters_behind_a_cut_are_failed() -> None:
    waiters = FlushWaiters()
    heard: list[tuple[int, PutStatus]] = []
    wait_for(waiters, heard)

    waiters.fail_from(10, LATE)

    assert heard == [(30, LATE), (20, LATE)]
    assert len(waiters) == 1


# The store around it


async def test_after_a_failed_sync_the_store_says_why_it_refuses(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    store = loop_store(tmp_path, disk, **SYNC)
    store.open()
    put(store)
    disk.fault = BROKEN_SYNC
    outcome = durable(store, put(store).end_offset)

    await until(lambda: outcome)

    assert outcome == [PutStatus.SERVICE_NOT_AVAILABLE]
    refused = put(store)
    assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "Input/output error" in refused.reason
    with pytest.raises(StoreFailed):
        store.close()
    assert disk.exists(tmp_path / "abort"), "the stop is not clean"


def test_a_late_sync_is_told_as_such(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    store = new_store(tmp_path, disk, **SYNC, sync_flush_timeout=1)
    store.open()
    put(store)
    may_end = threading.Event()
    sync = disk.sync_file
    disk.sync_file = lambda file: (may_end.wait(15), sync(file))[1]  # type: ignore[method-assign]
    outcome = durable(store, put(store).end_offset)
    while not outcome:
        store.poll()
    may_end.set()

    assert outcome == [PutStatus.FLUSH_DISK_TIMEOUT]
    store.close()


def test_what_is_durable_stays_so_after_a_failure(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    store = new_store(tmp_path, disk, **SYNC)
    store.open()
    first = put(store)
    outcome = durable(store, first.end_offset)
    while not outcome:
        store.poll()
    disk.fault = BROKEN_SYNC
    second = durable(store, put(store).end_offset)
    while not second:
        store.poll()

    assert second == [PutStatus.SERVICE_NOT_AVAILABLE]
    assert durable(store, first.end_offset) == [PutStatus.PUT_OK]
    with pytest.raises(StoreFailed):
        store.close()


def test_who_still_waits_when_the_store_closes_is_served(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        outcome = durable(store, put(store).end_offset)

    assert outcome == [PutStatus.PUT_OK]
