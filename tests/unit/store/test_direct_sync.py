"""Syncs without the interpreter: the thread of C, and the store that uses it."""

import errno
import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from emberq.errors import StoreFailed
from emberq.store.results import PutStatus
from tests.support.stores import SYNC, durable, loop_store, put, read_all
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(
    os.environ.get("EMBERQ_PURE", "") not in ("", "0"), reason="this is the pure run"
)
sync_thread = pytest.importorskip("emberq.store.sync_thread")
SyncThread = sync_thread.SyncThread


class Syncing:
    """A thread, and how it wakes."""

    def __init__(self, synced_offset: int = 0) -> None:
        self.event = os.eventfd(0, os.EFD_NONBLOCK)
        self.thread = SyncThread(self.event, synced_offset)

    def wait(self) -> None:
        readable, _, _ = select.select([self.event], [], [], 15)
        assert readable
        os.eventfd_read(self.event)

    def close(self) -> None:
        self.thread.stop()
        os.close(self.event)


@pytest.fixture
def syncing() -> Iterator[Syncing]:
    syncing = Syncing()
    yield syncing
    syncing.close()


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def unsyncable() -> Iterator[int]:
    """A descriptor that cannot be synced."""
    readable, writable = os.pipe()
    yield readable
    os.close(readable)
    os.close(writable)


def test_what_is_asked_for_is_synced_and_told(syncing: Syncing, descriptor: int) -> None:
    assert syncing.thread.request(descriptor, 10, 1)
    syncing.wait()
    assert syncing.thread.synced_offset() == 10
    assert 0 < syncing.thread.mean_s() < 15

    assert syncing.thread.request(descriptor, 25, 1)
    syncing.wait()
    assert syncing.thread.synced_offset() == 25


def test_a_failure_is_told_for_ever_and_to_everybody(
    syncing: Syncing, descriptor: int, unsyncable: int
) -> None:
    syncing.thread.request(unsyncable, 10, 1)
    syncing.wait()

    for ask in (syncing.thread.synced_offset, lambda: syncing.thread.sync_now(descriptor)):
        with pytest.raises(OSError, match="Invalid argument") as failed:
            ask()
        assert failed.value.errno == errno.EINVAL


def test_a_failure_of_who_waited_is_told_to_the_thread_too(
    syncing: Syncing, descriptor: int, unsyncable: int
) -> None:
    syncing.thread.sync_now(descriptor)
    with pytest.raises(OSError, match="Invalid argument"):
        syncing.thread.sync_now(unsyncable)

    with pytest.raises(OSError, match="Invalid argument"):
        syncing.thread.synced_offset()


def test_behind_a_cut_nothing_is_synced_until_it_is_asked_for_again(
    syncing: Syncing, descriptor: int
) -> None:
    for _ in range(50):
        syncing.thread.request(descriptor, 100, 1)
        syncing.thread.cut_back(0)
        assert syncing.thread.synced_offset() == 0
    while syncing.thread.synced_offset() == 0:
        syncing.thread.request(descriptor, 100, 1)
        syncing.wait()

    assert syncing.thread.synced_offset() == 100


def test_what_others_synced_counts(syncing: Syncing) -> None:
    syncing.thread.note_synced(40)
    syncing.thread.note_synced(30)

    assert syncing.thread.synced_offset() == 40


def test_a_thread_that_has_ended_says_so(descriptor: int) -> None:
    syncing = Syncing()
    syncing.close()

    with pytest.raises(ValueError, match="has ended"):
        syncing.thread.request(descriptor, 1, 1)
    syncing.thread.stop()


def test_a_sync_waits_a_little_for_writers_that_were_just_released(
    syncing: Syncing, descriptor: int
) -> None:
    """They may have nothing more to say: those who wait are not made to wait for ever."""
    syncing.thread.request(descriptor, 100, 50)
    syncing.wait()
    syncing.thread.request(descriptor, 110, 1)
    syncing.wait()

    assert syncing.thread.synced_offset() == 110


async def test_messages_of_many_segments_become_durable(tmp_path: Path) -> None:
    store = loop_store(tmp_path, **SYNC)
    store.open()
    flusher = store.durability._flusher
    assert flusher is not None
    assert flusher._direct is not None
    outcomes = []
    for number in range(60):
        outcomes.append(durable(store, put(store, bytes([number]) * 1_500).end_offset))
        if number % 7 == 0:
            await until(lambda: outcomes[-1])
    await until(lambda: all(outcomes))

    assert outcomes == [[PutStatus.PUT_OK]] * 60
    assert store.flushed_offset == store.log.end
    assert len(store.log.starts) > 5
    assert len(read_all(store)) == 60
    store.close()


async def test_after_a_failed_sync_nothing_is_acknowledged(
    tmp_path: Path, unsyncable: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = loop_store(tmp_path, **SYNC)
    store.open()
    first = durable(store, put(store).end_offset)
    await until(lambda: first)
    active = store.log.active
    assert active is not None
    monkeypatch.setattr(type(active), "descriptor", unsyncable)
    outcomes = [durable(store, put(store).end_offset) for _ in range(3)]
    await until(lambda: all(outcomes))

    assert first == [PutStatus.PUT_OK]
    assert outcomes == [[PutStatus.SERVICE_NOT_AVAILABLE]] * 3
    assert put(store).status is PutStatus.SERVICE_NOT_AVAILABLE
    with pytest.raises(StoreFailed, match="Invalid argument"):
        store.close()


async def test_messages_of_one_turn_share_a_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = loop_store(tmp_path, **SYNC, mapped_file_size_commit_log=1024 * 1024)
    store.open()
    flusher = store.durability._flusher
    assert flusher is not None
    wanted: list[int] = []
    monkeypatch.setattr(flusher, "want", lambda offset, count: wanted.append(offset))
    outcomes = [durable(store, put(store).end_offset) for _ in range(3)]
    await until(lambda: wanted)

    assert wanted[-1] == store.log.end
    assert len(wanted) < 3, "a burst of some microseconds is not worth several syncs"
    monkeypatch.undo()
    flusher.want(store.log.end)
    await until(lambda: all(outcomes))
    store.close()
