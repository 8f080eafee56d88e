"""After a crash official brokers delete index files newer than the checkpoint: ours never are."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from emberq.record.host import pack_host
from emberq.store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from emberq.store.config import StoreConfig
from emberq.store.disk import RealDisk
from emberq.store.index_layout import IndexShape, read_header
from emberq.store.message_store import MessageStore
from emberq.testing.disk_history import Operation
from emberq.testing.faulty_disk import FaultyDisk

HOST = pack_host("127.0.0.1", 10911)
SHAPE = IndexShape(16, 32)
NEVER_MS = 3_600_000


def new_store(root: Path) -> MessageStore:
    """A store whose flusher does nothing unless it is woken."""
    config = StoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=64 * 1024,
        max_hash_slot_num=SHAPE.slots,
        max_index_num=SHAPE.entries_max,
        flush_interval_commit_log=NEVER_MS,
        flush_interval_consume_queue=NEVER_MS,
    )
    return MessageStore(config, store_host=HOST)


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


def test_headers_of_the_index_are_written_after_the_queues_are_synced(tmp_path: Path) -> None:
    """What lies between them and the checkpoint is as short as can be."""
    disk = FaultyDisk(tmp_path)
    config = StoreConfig(
        store_path_root_dir=str(tmp_path),
        mapped_file_size_commit_log=64 * 1024,
        max_hash_slot_num=SHAPE.slots,
        max_index_num=SHAPE.entries_max,
        flush_interval_commit_log=NEVER_MS,
        flush_interval_consume_queue=NEVER_MS,
    )
    store = MessageStore(config, store_host=HOST, disk=disk)
    store.open()
    put(store, 3)
    before = len(disk.history)

    store.durability.sync_side_files(nothing, nothing)

    steps = disk.history[before:]
    header_at = next(
        number
        for number, step in enumerate(steps)
        if step.operation is Operation.WRITE
        and step.path.parent.name == "index"
        and step.position == 0
    )
    later = [step.path for step in steps[header_at:]]
    assert not any("consumequeue" in path.parts for path in later)
    assert any(path.name == "checkpoint" for path in later)
    store.close()
