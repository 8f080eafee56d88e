"""All queues of a store."""

from pathlib import Path

import pytest

from emberq.errors import RecordError
from emberq.store.queue_files import QueueFiles
from emberq.store.queue_table import QueueTable
from emberq.testing.faulty_disk import FaultyDisk


@pytest.fixture
def table(tmp_path: Path) -> QueueTable:
    return QueueTable(tmp_path, QueueFiles(FaultyDisk(tmp_path), 1_000))


def test_a_queue_is_made_once(table: QueueTable) -> None:
    queue = table.get_or_add("T", 1)

    assert table.get_or_add("T", 1) is queue
    assert table.get("T", 2) is None
    assert [queue.queue_id for queue in table.of_topic("T")] == [1]


def test_a_removed_topic_is_gone_with_its_files(table: QueueTable, tmp_path: Path) -> None:
    for queue_id in range(2):
        queue = table.get_or_add("T", queue_id)
        queue.append(0, 0, 100, 0)
        queue.write()
    for queue in table:
        table.remove(queue)

    assert not table.has_topic("T")
    assert len(table) == 0
    again = QueueTable(tmp_path, table._files)
    again.load()
    assert len(again) == 0


def test_loading_finds_queues_and_nothing_else(table: QueueTable, tmp_path: Path) -> None:
    disk = table._files.disk
    for name in ("T/0", "T/12", "%RETRY%g/0", "T/other", "empty"):
        disk.make_folder(tmp_path / name)
    disk.create_sparse(tmp_path / "file", 10)

    table.load()

    assert {(queue.topic, queue.queue_id) for queue in table} == {
        ("T", 0),
        ("T", 12),
        ("%RETRY%g", 0),
    }


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "a\\b", "a\0", "x" * 256])
def test_names_that_are_no_folders_are_refused(table: QueueTable, topic: str) -> None:
    with pytest.raises(RecordError):
        table.get_or_add(topic, 0)


def test_a_negative_queue_is_refused(table: QueueTable) -> None:
    with pytest.raises(RecordError):
        table.get_or_add("T", -1)
