"""Pages of the log ahead of the writer: which are made ready, and that they keep what they hold."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emberq.store import log_ground
from emberq.store.commit_log import CommitLog
from emberq.store.disk import PAGE_SIZE_BYTES, RealDisk
from emberq.store.log_ground import AHEAD_MAX_BYTES, LOOK_EVERY_BYTES, LogGround
from emberq.store.results import PutStatus
from tests.support.stores import SYNC, durable, loop_store, put, read_all
from tests.support.waiting import until

SEGMENT_SIZE = 2 * AHEAD_MAX_BYTES
FAST, SLOW = 0, 1 << 60  # slowest writer that is worth it, bytes per second

is_pure_run = os.environ.get("EMBERQ_PURE", "") not in ("", "0")


class NotedPages:
    """Stands for the compiled module: notes what it is asked for."""

    def __init__(self) -> None:
        self.taken_singly: list[int] = []
        self.brought_in: list[tuple[int, int]] = []
        self.failure: OSError | None = None

    def take_singly(self, view: memoryview, descriptor: int, position: int) -> None:
        self.taken_singly.append(position)

    def bring_in(self, view: memoryview, position: int, size: int) -> None:
        self.brought_in.append((position, position + size))
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def pages() -> NotedPages:
    return NotedPages()


@pytest.fixture
def commit_log(tmp_path: Path) -> Iterator[CommitLog]:
    commit_log = CommitLog(RealDisk(), tmp_path, SEGMENT_SIZE)
    commit_log.open_for_append()
    commit_log.roll()
    yield commit_log
    commit_log.close()


@pytest.fixture
def ground(commit_log: CommitLog, pages: NotedPages) -> Iterator[LogGround]:
    ground = LogGround(commit_log, pages, is_sync_flush=False)
    ground.start()
    yield ground
    ground.stop()


async def test_pages_that_a_fast_writer_comes_to_are_brought_in_once(
    ground: LogGround, pages: NotedPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_ground, "SPEED_MIN_BYTES_S", FAST)
    monkeypatch.setattr(log_ground, "AHEAD_S", 1e15)
    ground.reach(100)
    await until(lambda: pages.brought_in)
    ground.reach(100 + LOOK_EVERY_BYTES // 2)
    ground.reach(100 + LOOK_EVERY_BYTES)
    await until(lambda: len(pages.brought_in) == 2)

    first, second = pages.brought_in
    assert first == (PAGE_SIZE_BYTES, PAGE_SIZE_BYTES + AHEAD_MAX_BYTES)
    assert second == (first[1], first[1] + LOOK_EVERY_BYTES)


async def test_nothing_is_brought_in_behind_the_end_of_a_segment(
    ground: LogGround, pages: NotedPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_ground, "SPEED_MIN_BYTES_S", FAST)
    monkeypatch.setattr(log_ground, "AHEAD_S", 1e15)
    ground.reach(SEGMENT_SIZE - PAGE_SIZE_BYTES - 1)
    await until(lambda: pages.brought_in)

    assert pages.brought_in == [(SEGMENT_SIZE - PAGE_SIZE_BYTES, SEGMENT_SIZE)]


def test_a_slow_writer_touches_its_pages_itself(
    ground: LogGround, pages: NotedPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_ground, "SPEED_MIN_BYTES_S", SLOW)
    for number in range(3):
        ground.reach(number * LOOK_EVERY_BYTES)
    ground.stop()

    assert pages.brought_in == []


async def test_where_messages_wait_for_syncs_each_segment_is_taken_singly_and_nothing_brought_in(
    commit_log: CommitLog, pages: NotedPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_ground, "SPEED_MIN_BYTES_S", FAST)
    ground = LogGround(commit_log, pages, is_sync_flush=True)
    ground.start()
    ground.reach(70)
    await until(lambda: pages.taken_singly)
    ground.reach(70 + LOOK_EVERY_BYTES)
    commit_log.roll()
    ground.reach(SEGMENT_SIZE + 9)
    await until(lambda: len(pages.taken_singly) == 2)
    ground.stop()

    assert pages.taken_singly == [70, 9]
    assert pages.brought_in == []


async def test_a_system_that_cannot_do_it_is_asked_once(
    ground: LogGround, pages: NotedPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_ground, "SPEED_MIN_BYTES_S", FAST)
    monkeypatch.setattr(log_ground, "AHEAD_S", 1e15)
    pages.failure = OSError("no such call")
    ground.reach(100)
    await until(lambda: not ground._thread.is_alive())
    ground.reach(LOOK_EVERY_BYTES)

    assert len(pages.brought_in) == 1


@pytest.mark.skipif(is_pure_run, reason="this is the pure run")
def test_pages_keep_what_they_hold(tmp_path: Path) -> None:
    log_pages = pytest.importorskip("emberq.store.log_pages")
    size = 64 * PAGE_SIZE_BYTES
    file = RealDisk().create_mapped(tmp_path / "segment", size)
    content = os.urandom(3 * PAGE_SIZE_BYTES)
    file.write(PAGE_SIZE_BYTES + 17, content)

    log_pages.take_singly(file.view, file.descriptor, 0)
    log_pages.bring_in(file.view, 0, size)

    assert file.read(PAGE_SIZE_BYTES + 17, len(content)) == content
    assert not any(file.view[PAGE_SIZE_BYTES + 17 + len(content) :])
    with pytest.raises(IndexError):
        log_pages.bring_in(file.view, size - PAGE_SIZE_BYTES, 2 * PAGE_SIZE_BYTES)
    file.close()


@pytest.mark.parametrize("settings", [{}, SYNC], ids=["async", "sync"])
async def test_what_is_put_meanwhile_is_read_again(
    tmp_path: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_ground, "SPEED_MIN_BYTES_S", FAST)
    monkeypatch.setattr(log_ground, "LOOK_EVERY_BYTES", 4096)
    store = loop_store(tmp_path, **settings, mapped_file_size_commit_log=1024 * 1024)
    store.open()
    bodies = [bytes([number]) * 20_000 for number in range(120)]
    outcomes: list[list[PutStatus]] = []
    for number, body in enumerate(bodies):
        result = put(store, body)
        assert result.status is PutStatus.PUT_OK
        if number % 10 == 0:
            outcomes.append(durable(store, result.end_offset))
            if settings:
                await until(lambda: all(outcomes))
            store.dispatch_now()
    store.dispatch_now()

    assert len(read_all(store)) == len(bodies)
    store.close()
