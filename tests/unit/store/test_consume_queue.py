"""A queue's entries in memory and on disk."""

from pathlib import Path

import pytest

from emberq.store.consume_queue import (
    ENTRY,
    ENTRY_SIZE,
    FILLER,
    TAIL_KEPT_MAX_BYTES,
    ConsumeQueue,
)
from emberq.store.queue_files import QueueFiles
from emberq.testing.faulty_disk import FaultyDisk

PER_FILE = 1_000
SIZE = 100


@pytest.fixture
def files(tmp_path: Path) -> QueueFiles:
    return QueueFiles(FaultyDisk(tmp_path), PER_FILE * ENTRY_SIZE)


@pytest.fixture
def queue(tmp_path: Path, files: QueueFiles) -> ConsumeQueue:
    return ConsumeQueue("T", 0, tmp_path / "T" / "0", files)


def fill(queue: ConsumeQueue, count: int) -> None:
    for offset in range(queue.end_offset, queue.end_offset + count):
        assert queue.append(offset, offset * SIZE, SIZE, offset)


def log_offsets(queue: ConsumeQueue, offset: int, count: int) -> list[int]:
    content = queue.entries(offset, count)
    assert content is not None
    assert content == queue.entries_from_disk(offset, count)
    return [entry[0] for entry in ENTRY.iter_unpack(content)]


def test_entries_are_seen_before_they_are_written(queue: ConsumeQueue) -> None:
    fill(queue, 3)

    assert log_offsets(queue, 0, 10) == [0, 100, 200]
    assert log_offsets(queue, 2, 1) == [200]
    assert queue.entries(3, 1) == b""
    assert queue.is_in_memory(0)


def test_an_entry_that_is_there_is_not_added_again(queue: ConsumeQueue) -> None:
    fill(queue, 3)

    assert not queue.append(1, 100, SIZE, 0)
    assert not queue.append(2, 200, SIZE, 0)
    assert not queue.append(1, 900, SIZE, 0)
    assert queue.end_offset == 3


def test_old_entries_leave_the_memory_once_they_are_written(queue: ConsumeQueue) -> None:
    count = 10 * TAIL_KEPT_MAX_BYTES // ENTRY_SIZE
    for _ in range(count // 100):
        fill(queue, 100)
        queue.write()

    assert not queue.is_in_memory(0)
    assert queue.is_in_memory(queue.end_offset - 1)
    assert log_offsets(queue, 0, count) == [offset * SIZE for offset in range(queue.end_offset)]


def test_nothing_leaves_the_memory_before_it_is_written(queue: ConsumeQueue) -> None:
    fill(queue, 4 * TAIL_KEPT_MAX_BYTES // ENTRY_SIZE)

    assert queue.is_in_memory(0)
    assert len(log_offsets(queue, 0, 10**6)) == queue.end_offset


def test_a_reader_between_disk_and_memory_gets_both(queue: ConsumeQueue) -> None:
    fill(queue, 50)
    queue.write()
    queue.release()
    fill(queue, 50)

    assert log_offsets(queue, 40, 20) == [offset * SIZE for offset in range(40, 60)]


def test_a_reading_thread_sees_what_moves_to_disk_meanwhile(
    queue: ConsumeQueue, files: QueueFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(queue, 10)
    queue.write()
    queue.release()
    fill(queue, 10)
    read = QueueFiles.read

    def read_then_move(self: QueueFiles, folder: Path, position: int, size: int) -> bytes:
        content = read(self, folder, position, size)
        queue.write()
        queue.release()
        return content

    monkeypatch.setattr(QueueFiles, "read", read_then_move)

    content = queue.entries_from_disk(5, 15)

    assert [entry[0] for entry in ENTRY.iter_unpack(content)] == [
        offset * SIZE for offset in range(5, 20)
    ]


def test_a_queue_that_begins_later_is_filled_from_its_file_s_start(
    queue: ConsumeQueue, files: QueueFiles
) -> None:
    queue.append(PER_FILE + 3, 7_000, SIZE, 5)
    queue.write()

    assert (queue.min_offset, queue.end_offset) == (PER_FILE + 3, PER_FILE + 4)
    assert files.starts(queue.folder) == [PER_FILE * ENTRY_SIZE]
    content = files.read(queue.folder, PER_FILE * ENTRY_SIZE, 4 * ENTRY_SIZE)
    assert content == FILLER * 3 + ENTRY.pack(7_000, SIZE, 5)


def test_a_hole_in_a_queue_leads_to_the_message_behind_it(queue: ConsumeQueue) -> None:
    fill(queue, 2)
    queue.append(4, 900, SIZE, 0)

    assert log_offsets(queue, 0, 9) == [0, 100, 900, 900, 900]


def test_truncation_reaches_memory_and_disk(queue: ConsumeQueue, files: QueueFiles) -> None:
    fill(queue, 2 * PER_FILE + 10)
    queue.write()

    queue.truncate(PER_FILE + 5, (PER_FILE + 5) * SIZE)

    assert queue.end_offset == queue.next_offset == PER_FILE + 5
    assert files.starts(queue.folder) == [0, PER_FILE * ENTRY_SIZE]
    behind = files.read(queue.folder, (PER_FILE + 5) * ENTRY_SIZE, PER_FILE * ENTRY_SIZE)
    assert not behind.strip(b"\0")
    fill(queue, 3)
    assert log_offsets(queue, PER_FILE, 20)[-1] == (PER_FILE + 7) * SIZE


def test_an_emptied_queue_still_knows_where_it_begins(
    queue: ConsumeQueue, files: QueueFiles
) -> None:
    queue.append(PER_FILE, 7_000, SIZE, 0)
    queue.write()

    queue.truncate(PER_FILE, -1)

    assert files.starts(queue.folder) == [PER_FILE * ENTRY_SIZE]
    assert queue.next_offset == PER_FILE


def test_files_of_deleted_records_go_and_the_minimum_rises(
    queue: ConsumeQueue, files: QueueFiles
) -> None:
    fill(queue, 3 * PER_FILE)
    queue.write()

    queue.raise_min_offset((PER_FILE + 10) * SIZE)

    assert queue.min_offset == PER_FILE + 10
    assert files.starts(queue.folder) == [PER_FILE * ENTRY_SIZE, 2 * PER_FILE * ENTRY_SIZE]


def test_a_queue_of_which_no_record_is_left_begins_where_it_ends(queue: ConsumeQueue) -> None:
    fill(queue, 10)
    queue.write()

    queue.raise_min_offset(10**9)

    assert (queue.min_offset, queue.end_offset) == (10, 10)
