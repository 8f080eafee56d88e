"""Which segments go when, and what goes with them."""

import errno
import time
from pathlib import Path
from typing import Any

import pytest

from emberq.store.consume_queue import ConsumeQueue
from emberq.store.reader import ReadLimits
from emberq.store.results import ReadStatus
from emberq.store.retention import MANUAL_RUNS, Retention
from emberq.testing.disk_history import Operation
from emberq.testing.faulty_disk import Fault, FaultyDisk
from tests.support.stores import (
    SEGMENT_SIZE,
    START_MS,
    TOPIC,
    Clock,
    bodies_of,
    new_store,
    opened,
    put,
    records_of,
    segment_path,
)

HOUR_MS = 3_600_000
BODY = bytes(1_000)
PER_SEGMENT = 14
SEGMENTS = 5
FORCED = 0.88  # enough to delete young segments, not to refuse messages


class Kept:
    """A store of five segments on a disk whose fill, clock and file times can be set."""

    def __init__(self, root: Path, **changes: Any) -> None:
        self.root = root
        self.disk = FaultyDisk(root)
        self.clock = Clock()
        hour = time.localtime(START_MS / 1000).tm_hour
        changes = {"delete_when": f"{(hour + 12) % 24:02d}", "max_index_num": 20} | changes
        self.store = new_store(root, self.disk, self.clock, **changes)
        self.store.open()
        for number in range(SEGMENTS):
            for _ in range(PER_SEGMENT):
                put(self.store, BODY, keys=f"key{number}")
            self.disk.modified_ms[segment_path(root, number)] = START_MS
        self.make_durable()

    def make_durable(self) -> None:
        flusher = self.store.durability._flusher
        assert flusher is not None
        self.store.durability.sync_side_files(flusher._sync_whole_log, lambda: None)

    @property
    def retention(self) -> Retention:
        return self.store._cleaner._retention

    @property
    def segments(self) -> list[int]:
        """Numbers of the segments that are left."""
        return [start // SEGMENT_SIZE for start in self.store.log.starts]


@pytest.fixture
def kept(tmp_path: Path) -> Any:
    kept = Kept(tmp_path)
    yield kept
    kept.store.close()


# When


def test_nothing_goes_before_its_time(kept: Kept) -> None:
    kept.clock.now_ms += 71 * HOUR_MS
    kept.disk.used = 0.80

    assert kept.retention.run() == 0
    assert kept.segments == [0, 1, 2, 3, 4]


def test_expired_segments_go_in_the_hour_of_delete_when_and_the_last_one_stays(
    kept: Kept,
) -> None:
    kept.clock.now_ms += 73 * HOUR_MS
    assert kept.retention.run() == 0, "another hour"

    kept.clock.now_ms += 11 * HOUR_MS

    assert kept.retention.run() == 4
    assert kept.segments == [4]


def test_expired_segments_go_at_any_hour_when_the_disk_fills(kept: Kept) -> None:
    kept.clock.now_ms += 73 * HOUR_MS
    kept.disk.used = 0.76

    assert kept.retention.run() == 4


def test_expired_segments_go_when_the_fill_cannot_be_told(kept: Kept) -> None:
    kept.clock.now_ms += 73 * HOUR_MS
    kept.disk.used = -1.0

    assert kept.retention.run() == 4


def test_segments_go_also_when_a_queue_cannot_be_cut(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.clock.now_ms += 73 * HOUR_MS
    kept.disk.used = 0.76

    def broken(queue: ConsumeQueue, log_min: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(ConsumeQueue, "raise_min_offset", broken)
    with pytest.raises(OSError, match="broken"):
        kept.retention.run()

    assert kept.segments == [4]


def test_segments_go_from_the_front_and_not_past_one_that_is_young(kept: Kept) -> None:
    kept.clock.now_ms += 73 * HOUR_MS
    kept.disk.modified_ms[segment_path(kept.root, 2)] = kept.clock.now_ms
    kept.disk.used = 0.76

    assert kept.retention.run() == 2
    assert kept.segments == [2, 3, 4]


def test_a_command_deletes_expired_segments_now_and_in_the_next_rounds(kept: Kept) -> None:
    assert kept.store.delete_expired_segments() == 0
    kept.clock.now_ms += 73 * HOUR_MS

    assert kept.retention.run() == 4
    for _ in range(MANUAL_RUNS - 2):
        assert kept.retention._is_armed()
    assert not kept.retention._is_armed()


def test_a_fuller_disk_deletes_young_segments_until_it_is_less_full(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.disk.used = 0.86
    usage = kept.retention._usage
    seen: list[float] = []

    def emptying() -> Any:
        kept.disk.used = 0.86 if len(seen) < 2 else 0.85
        seen.append(kept.disk.used)
        return usage()

    kept.retention._usage = emptying

    assert kept.retention.run() == 2
    assert kept.segments == [2, 3, 4]
    kept.store.close()


def test_forced_deletion_can_be_switched_off(tmp_path: Path) -> None:
    kept = Kept(tmp_path, clean_file_forcibly_enable=False)
    kept.disk.used = 0.95

    assert kept.retention.run() == 0
    kept.store.close()


def test_one_round_deletes_no_more_than_delete_file_batch_max(tmp_path: Path) -> None:
    kept = Kept(tmp_path, delete_file_batch_max=3)
    kept.disk.used = FORCED

    assert kept.retention.run() == 3
    assert kept.segments == [3, 4]
    kept.store.close()


def test_what_is_not_durable_yet_is_never_deleted(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.disk.used = FORCED
    kept.store.durability.durable_offset = lambda: 2 * SEGMENT_SIZE  # type: ignore[method-assign]

    assert kept.retention.run() == 2
    assert kept.segments == [2, 3, 4]
    kept.store.close()


def test_a_segment_that_cannot_be_removed_stays_and_so_do_those_behind_it(kept: Kept) -> None:
    kept.disk.used = FORCED
    removals = frozenset({Operation.REMOVE})
    kept.disk.fault = Fault(0, is_lasting=False, operations=removals)

    with pytest.raises(OSError, match="Input/output"):
        kept.retention.run()

    assert kept.segments == [0, 1, 2, 3, 4]
    assert kept.retention.run() == 4


# What goes with them


def test_queue_offsets_queue_files_and_index_files_follow(kept: Kept) -> None:
    queue_files = kept.root / "consumequeue" / TOPIC / "0"
    index_files = kept.root / "index"
    before = len(kept.disk.list(queue_files)), len(kept.disk.list(index_files))
    kept.disk.used = FORCED

    kept.retention.run()

    assert kept.store.min_offset(TOPIC, 0) == 4 * PER_SEGMENT
    assert kept.store.max_offset(TOPIC, 0) == SEGMENTS * PER_SEGMENT
    assert len(kept.disk.list(queue_files)) < before[0]
    assert len(kept.disk.list(index_files)) < before[1]
    result = kept.store.read_waiting(TOPIC, 0, 0, ReadLimits())
    assert (result.status, result.next_offset) == (ReadStatus.OFFSET_TOO_SMALL, 4 * PER_SEGMENT)
    assert kept.store.find_by_key(TOPIC, "key1", 64, 0, 2 * START_MS).records == []
    assert kept.store.find_by_key(TOPIC, "key4", 64, 0, 2 * START_MS).records


def test_queues_follow_each_segment_and_not_all_of_a_round(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round pauses between segments: readers that ask where a queue begins would be told of
    messages that are gone."""
    queue = kept.store.queues.get(TOPIC, 0)
    assert queue is not None
    begins: list[int] = []

    def paused(_milliseconds: int) -> bool:
        begins.append(queue.min_offset)
        return False

    monkeypatch.setattr(kept.retention, "_pause", paused)
    kept.clock.now_ms += 84 * HOUR_MS

    assert kept.retention.run() == 4
    assert begins == [PER_SEGMENT, 2 * PER_SEGMENT, 3 * PER_SEGMENT, 4 * PER_SEGMENT]


def test_a_queue_of_which_all_messages_went_is_empty_and_goes_on_at_its_end(
    tmp_path: Path,
) -> None:
    kept = Kept(tmp_path)
    old = new_store_with_old_queue(kept)
    kept.disk.used = FORCED

    kept.retention.run()

    assert kept.store.min_offset("Old", 0) == kept.store.max_offset("Old", 0) == old
    assert put(kept.store, b"new", topic="Old").queue_offset == old
    kept.store.close()
    with opened(tmp_path, kept.disk, kept.clock) as store:
        assert store.min_offset("Old", 0) == old
        assert bodies_of(store, "Old") == [b"new"]


def new_store_with_old_queue(kept: Kept) -> int:
    """Messages of another topic, and enough others behind them that their segment can go."""
    for _ in range(3):
        put(kept.store, b"old", topic="Old")
    for _ in range(3 * PER_SEGMENT):
        put(kept.store, BODY)
    kept.make_durable()
    return 3


def test_a_reader_keeps_what_it_holds(kept: Kept) -> None:
    result = kept.store.read(TOPIC, 0, 0, ReadLimits(count_max=3))
    assert result is not None
    kept.disk.used = FORCED

    kept.retention.run()

    assert [bytes(record.body) for record in records_of(result)] == [BODY] * 3


def test_a_store_that_lost_its_oldest_segments_opens_again(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.disk.used = FORCED
    kept.retention.run()
    kept.store.close()

    with opened(tmp_path, kept.disk, kept.clock) as store:
        assert store.min_offset(TOPIC, 0) == 4 * PER_SEGMENT
        assert len(bodies_of(store)) == PER_SEGMENT
