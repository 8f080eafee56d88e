"""Many queues: few descriptors, and a restart that finds them all."""

from pathlib import Path
from typing import Any

import pytest

from emberq.store.queue_files import OPEN_FILES_MAX
from tests.support.stores import bodies_of, crash, new_store, opened, put

pytestmark = pytest.mark.crash

QUEUES = 2_000
SETTINGS: dict[str, Any] = {"mapped_file_size_commit_log": 4 * 1024 * 1024}
DESCRIPTORS = Path("/proc/self/fd")


@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="only Linux tells its descriptors")
def test_many_queues_need_few_descriptors_and_survive_a_stop_and_a_kill(tmp_path: Path) -> None:
    before = len(list(DESCRIPTORS.iterdir()))
    with opened(tmp_path, **SETTINGS) as store:
        for number in range(2 * QUEUES):
            put(store, b"%d" % number, topic=f"T{number % QUEUES // 8}", queue_id=number % 8)
        store.durability.write_side_files(lambda: None)
        assert len(store.queues) == QUEUES
        assert len(list(DESCRIPTORS.iterdir())) - before < OPEN_FILES_MAX + 50

    store = new_store(tmp_path, **SETTINGS)
    assert store.open().records_dispatched == 0
    assert len(store.queues) == QUEUES
    assert len(list(DESCRIPTORS.iterdir())) - before < OPEN_FILES_MAX + 50
    put(store, b"last", topic="T9", queue_id=3)
    crash(store)

    with opened(tmp_path, **SETTINGS) as store:
        number = 9 * 8 + 3
        assert bodies_of(store, "T9", 3) == [b"%d" % number, b"%d" % (number + QUEUES), b"last"]
        assert len(list(DESCRIPTORS.iterdir())) - before < OPEN_FILES_MAX + 50
