"""After a crash official brokers delete index files newer than the checkpoint: ours never are."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from emberq.record.host import pack_host
from emberq.store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from emberq.store.config import StoreConfig
from emberq.store.disk import Disk, RealDisk
from emberq.store.index_layout import (
    END_TIMESTAMP,
    END_TIMESTAMP_POSITION,
    HEADER,
    HEADER_SIZE,
    IndexShape,
    read_header,
)
from emberq.store.message_store import MessageStore
from emberq.testing.disk_history import Operation
from emberq.testing.faulty_disk import FaultyDisk

HOST = pack_host("127.0.0.1", 10911)
SHAPE = IndexShape(16, 32)
NEVER_MS = 3_600_000


class Clock:
    """A clock that stands still."""

    now_ms = 1_760_000_000_000

    def __call__(self) -> int:
        return self.now_ms


def time_ms() -> int:
    return time.time_ns() // 1_000_000


def new_store(
    root: Path, disk: Disk | None = None, now_ms: Callable[[], int] = time_ms
) -> MessageStore:
    """A store whose flusher does nothing unless it is woken."""
    config = StoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=64 * 1024,
        max_hash_slot_num=SHAPE.slots,
        max_index_num=SHAPE.entries_max,
        flush_interval_commit_log=NEVER_MS,
        flush_interval_consume_queue=NEVER_MS,
    )
    return MessageStore(config, store_host=HOST, disk=disk, now_ms=now_ms)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    store = new_store(tmp_path)
    store.open()
    yield store
    store.close()


def put(store: MessageStore, count: int) -> None:
    for number in range(count):
        store.put("Orders", 0, b"body", born_host=HOST, keys=f"key-{number}")


def checkpoint(root: Path) -> Checkpoint:
    return read_checkpoint(RealDisk(), root / "checkpoint")


def ends_of_index_files(root: Path) -> list[int]:
    disk = RealDisk()
    paths = sorted((root / "index").iterdir())
    return [
        read_header(disk.open(path, is_writable=False), SHAPE).end_timestamp_ms for path in paths
    ]


def nothing() -> None:
    """Nobody waits."""


def test_a_file_that_becomes_full_gets_its_header_with_the_checkpoint_only(
    store: MessageStore, tmp_path: Path
) -> None:
    put(store, SHAPE.entries_max + 5)

    was_due = store.durability.is_sync_due
    store.durability.write_side_files(nothing)
    assert len(ends_of_index_files(tmp_path)) == 2
    assert max(ends_of_index_files(tmp_path)) <= checkpoint(tmp_path).index_timestamp_ms

    store.durability.sync_side_files(nothing, nothing)
    assert (was_due, store.durability.is_sync_due) == (True, False)
    assert min(ends_of_index_files(tmp_path)) > 0
    assert max(ends_of_index_files(tmp_path)) <= checkpoint(tmp_path).index_timestamp_ms


def test_opening_a_store_renews_a_checkpoint_that_is_older_than_the_index(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.open()
    put(store, 3)
    store.close()
    write_checkpoint(RealDisk(), tmp_path / "checkpoint", Checkpoint())  # as official brokers may

    again = new_store(tmp_path)
    again.open()

    assert checkpoint(tmp_path).index_timestamp_ms == max(ends_of_index_files(tmp_path))
    again.close()


def test_the_checkpoint_names_a_border_between_records(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.open()
    put(store, 3)
    end = store.log.end
    store.close()

    again = new_store(tmp_path)
    again.open()
    again.close()

    # With enableAcceleratedRecovery a 5.5 broker reads on from there.
    assert checkpoint(tmp_path).dispatched_offset == end


def test_a_kill_at_no_moment_leaves_an_index_file_newer_than_the_checkpoint(
    tmp_path: Path,
) -> None:
    disk = FaultyDisk(tmp_path)
    store = new_store(tmp_path, disk)
    store.open()
    for count in (3, SHAPE.entries_max + 5, 2):
        put(store, count)
        store.durability.sync_side_files(nothing, nothing)
    store.close()

    firsts: dict[Path, bytearray] = {}  # the first bytes of files, as a killed process leaves them
    ends_seen = set()
    for step in disk.history:
        if step.operation is not Operation.WRITE or step.position >= HEADER_SIZE:
            continue
        first = firsts.setdefault(step.path, bytearray(HEADER_SIZE))
        content = step.content[: HEADER_SIZE - step.position]
        first[step.position : step.position + len(content)] = content
        covered_ms = int.from_bytes(firsts.get(tmp_path / "checkpoint", b"")[16:24], "big")
        for path, header in firsts.items():
            if path.parent.name == "index":
                end_ms = HEADER.unpack(header)[1]
                assert end_ms <= covered_ms
                ends_seen.add((path, end_ms))
    assert len(ends_seen) > 3


def test_a_file_without_its_end_time_answers_all_the_same_and_gets_it(tmp_path: Path) -> None:
    """As a kill leaves it between the checkpoint and the end times."""
    clock = Clock()
    store = new_store(tmp_path, now_ms=clock)
    store.open()
    put(store, SHAPE.entries_max + 5)
    clock.now_ms += 60_000
    put(store, SHAPE.entries_max)
    store.close()
    ends = ends_of_index_files(tmp_path)
    for path in (tmp_path / "index").iterdir():
        with path.open("r+b") as file:
            file.seek(END_TIMESTAMP_POSITION)
            file.write(END_TIMESTAMP.pack(0))

    again = new_store(tmp_path, now_ms=clock)
    again.open()
    assert again.index is not None
    found = again.index.find("Orders", "key-30", 10, clock.now_ms, clock.now_ms)
    assert len(found) == 1
    again.close()

    # Of full files only the second is known.
    assert [end_ms // 1000 for end_ms in ends_of_index_files(tmp_path)] == [
        end_ms // 1000 for end_ms in ends
    ]
