"""Official brokers refuse queue files of any but the configured size: recovery leaves no other."""

import os
import shutil
from pathlib import Path

import pytest

from emberq.record.decode import iter_records
from emberq.record.host import pack_host
from emberq.store.config import StoreConfig
from emberq.store.message_store import MessageStore
from emberq.store.reader import ReadLimits

HOST = pack_host("127.0.0.1", 10911)
FILE_SIZE_BYTES = 600
COUNT = 100


def new_store(root: Path, queue_file_size_bytes: int = FILE_SIZE_BYTES) -> MessageStore:
    config = StoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=64 * 1024,
        mapped_file_size_consume_queue=queue_file_size_bytes,
        max_hash_slot_num=16,
        max_index_num=256,
    )
    return MessageStore(config, store_host=HOST)


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A directory as a killed process leaves it, with everything in its files."""
    store = new_store(tmp_path / "running")
    store.open()
    for number in range(COUNT):
        store.put("Orders", 0, b"%d" % number, born_host=HOST)
    store.durability.sync_side_files(lambda: None, lambda: None)
    shutil.copytree(tmp_path / "running", tmp_path / "crashed")
    store.close()
    return tmp_path / "crashed"


def queue_files(root: Path) -> list[Path]:
    return sorted((root / "consumequeue" / "Orders" / "0").iterdir())


def bodies(store: MessageStore) -> list[bytes]:
    result = store.read_waiting("Orders", 0, 0, ReadLimits(count_max=COUNT))
    return [bytes(record.body) for part in result.parts for record in iter_records(bytes(part))]


@pytest.mark.parametrize("size_bytes", [200, 1200, 40_000])
def test_queues_of_another_file_size_are_built_again(crashed: Path, size_bytes: int) -> None:
    store = new_store(crashed, size_bytes)
    store.open()
    found = bodies(store)
    store.close()

    assert found == [b"%d" % number for number in range(COUNT)]
    assert {path.stat().st_size for path in queue_files(crashed)} == {size_bytes}


def test_a_queue_file_that_a_crash_left_short_gets_its_size(crashed: Path) -> None:
    last = queue_files(crashed)[-1]
    os.truncate(last, 40)

    store = new_store(crashed)
    store.open()
    found = bodies(store)
    store.close()

    assert found == [b"%d" % number for number in range(COUNT)]
    assert {path.stat().st_size for path in queue_files(crashed)} == {FILE_SIZE_BYTES}
