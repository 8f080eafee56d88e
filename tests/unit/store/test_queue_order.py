"""Records whose offset is not the next of their queue."""

from pathlib import Path

import pytest

from emberq.kernel.scan import ScannedRecord
from emberq.store.consume_queue import ConsumeQueue
from emberq.store.log_scan import Damage
from emberq.store.queue_files import QueueFiles
from emberq.store.queue_order import QueueLacksRecords, QueueOrder
from emberq.testing.faulty_disk import FaultyDisk

SIZE = 100


class Replay:
    """A queue that is given records in log order, as recovery does."""

    def __init__(self, root: Path, *, is_from_start: bool = True, is_complete: bool = True) -> None:
        self.queue = ConsumeQueue("T", 0, root / "T" / "0", QueueFiles(FaultyDisk(root), 1_000))
        self.damages: list[Damage] = []
        self.order = QueueOrder(self.damages, is_from_start=is_from_start, is_complete=is_complete)
        self._log_end = 0

    def give(self, *queue_offsets: int) -> None:
        for queue_offset in queue_offsets:
            record = ScannedRecord(
                self._log_end, SIZE, b"T", 0, queue_offset, 0, 0, memoryview(b""), 0, 0
            )
            self._log_end += SIZE
            for accepted in self.order.accepted(record, self.queue):
                self._append(accepted)

    def end(self) -> None:
        for _, record in self.order.rest():
            self._append(record)

    def _append(self, record: ScannedRecord) -> None:
        assert self.queue.append(record.queue_offset, record.log_offset, record.size, 0)

    def damaged(self) -> list[int]:
        return [damage.offset // SIZE for damage in self.damages]


def test_records_in_order_are_accepted(tmp_path: Path) -> None:
    replay = Replay(tmp_path)
    replay.give(0, 1, 2, 3)

    assert replay.queue.end_offset == 4
    assert replay.damages == []


@pytest.mark.parametrize("wrong", [1, 9, 2**50, -3])
def test_one_wrong_offset_costs_one_message(tmp_path: Path, wrong: int) -> None:
    replay = Replay(tmp_path)
    replay.give(0, 1, 2, wrong, 4, 5)

    assert replay.queue.end_offset == 6
    assert replay.damaged() == [3]


def test_a_wrong_offset_of_0_is_told_from_a_new_beginning_by_the_next_record(
    tmp_path: Path,
) -> None:
    replay = Replay(tmp_path)
    replay.give(0, 1, 0, 3, 4)

    assert replay.queue.end_offset == 5
    assert replay.damaged() == [2]


@pytest.mark.parametrize("old", [1, 2, 3, 8])
def test_a_queue_that_begins_anew_is_emptied_first(tmp_path: Path, old: int) -> None:
    replay = Replay(tmp_path)
    replay.give(*range(old), 0, 1, 2)

    assert replay.queue.end_offset == 3
    assert replay.queue.log_end_offset == (old + 3) * SIZE
    assert replay.damages == []


def test_a_new_beginning_with_a_single_record_counts(tmp_path: Path) -> None:
    replay = Replay(tmp_path)
    replay.give(0, 1, 2, 0)
    replay.end()

    assert replay.queue.end_offset == 1


def test_a_gap_is_believed_where_as_much_was_damaged(tmp_path: Path) -> None:
    replay = Replay(tmp_path)
    replay.give(0, 1)
    replay.damages.append(Damage(10_000, 2 * SIZE, "unreadable"))
    replay.give(4, 5)

    assert replay.queue.end_offset == 6


def test_a_log_that_lost_its_beginning_has_queues_that_begin_anywhere(tmp_path: Path) -> None:
    replay = Replay(tmp_path, is_complete=False)
    replay.give(700, 701, 702)

    assert (replay.queue.min_offset, replay.queue.end_offset) == (700, 703)
    assert replay.damages == []


def test_a_wrong_first_offset_of_such_a_queue_is_corrected_by_the_second(tmp_path: Path) -> None:
    replay = Replay(tmp_path, is_complete=False)
    replay.give(5_000, 701, 702)

    assert (replay.queue.min_offset, replay.queue.end_offset) == (701, 703)


@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_gap_asks_for_a_walk_over_the_whole_log(tmp_path: Path, first: int) -> None:
    replay = Replay(tmp_path, is_from_start=False)
    replay.give(*range(first))

    with pytest.raises(QueueLacksRecords):
        replay.give(first + 3)
