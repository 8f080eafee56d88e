"""The report on a store directory."""

import os
import shutil
import struct
from pathlib import Path

import pytest

from emberq.errors import StoreError
from emberq.store.inspection import Inspection, StoreReport
from emberq.store.view.directory import StoreView
from tests.support.store_builder import BORN_AT_MS, INDEX_NAME, StoreBuilder, overwrite

SEGMENT = 4096


@pytest.fixture
def builder(tmp_path: Path) -> StoreBuilder:
    builder = StoreBuilder(tmp_path / "store", segment_size=SEGMENT, entries_per_file=10)
    for number in range(60):
        builder.add("orders", number % 2, b"b" * 100, KEYS=f"k{number}")
    return builder


def inspect(root: Path, *, is_crc_checked: bool = False) -> StoreReport:
    view = StoreView(root)
    try:
        return Inspection(view, is_crc_checked=is_crc_checked).run()
    finally:
        view.close()


def log_file(root: Path, start: int = 0) -> Path:
    return root / "commitlog" / f"{start:020d}"


def test_segments_tell_their_use_and_times(builder: StoreBuilder) -> None:
    report = inspect(builder.write())

    assert report.records == 60
    assert sum(segment.records for segment in report.segments) == 60
    assert report.segment_size_bytes == SEGMENT
    assert report.segments[0].first_stored_at_ms == BORN_AT_MS + 1
    assert report.segments[-1].last_stored_at_ms == BORN_AT_MS + 60
    assert report.segments[-1].used_bytes == builder.end - report.segments[-1].start
    assert report.log_end_offset == builder.end


def test_queues_tell_their_bounds_and_times(builder: StoreBuilder) -> None:
    first, second = inspect(builder.write()).queues

    assert (first.topic, first.queue_id, first.min_offset, first.max_offset) == ("orders", 0, 0, 30)
    assert (first.first_stored_at_ms, first.last_stored_at_ms) == (BORN_AT_MS + 1, BORN_AT_MS + 59)
    assert first.files == 3
    assert second.queue_id == 1


def test_a_queue_begins_where_the_log_does(builder: StoreBuilder) -> None:
    root = builder.write()
    log_file(root, 0).unlink()
    kept = [placed for placed in builder.placed if placed.log_offset >= SEGMENT]

    report = inspect(root)

    assert report.log_min_offset == SEGMENT
    assert report.queues[0].min_offset == min(p.queue_offset for p in kept if p.queue_id == 0)
    assert report.problem_count == 0


def test_filler_entries_are_before_the_first_message(builder: StoreBuilder) -> None:
    root = builder.write()
    queue = root / "consumequeue" / "orders" / "0" / f"{0:020d}"
    overwrite(queue, 0, struct.pack(">qiq", 0, 0x7FFFFFFF, 0) * 4)

    assert inspect(root).queues[0].min_offset == 4


def test_an_empty_queue_file_is_an_empty_queue(builder: StoreBuilder) -> None:
    root = builder.write()
    empty = root / "consumequeue" / "empty" / "7" / f"{0:020d}"
    empty.parent.mkdir(parents=True)
    empty.write_bytes(bytes(200))

    queue = inspect(root).queues[0]

    assert (queue.topic, queue.min_offset, queue.max_offset) == ("empty", 0, 0)
    assert queue.first_stored_at_ms is None


def test_index_files_tell_their_entries_and_slots(builder: StoreBuilder) -> None:
    (index,) = inspect(builder.write()).index_files

    assert Path(index.path).name == INDEX_NAME
    assert (index.entries, index.slots) == (60, 50)
    assert (index.begin_at_ms, index.end_at_ms) == (BORN_AT_MS + 1, BORN_AT_MS + 60)
    assert index.end_log_offset == builder.placed[-1].log_offset


def test_checkpoint_values_are_times(builder: StoreBuilder) -> None:
    root = builder.write()
    overwrite(root / "checkpoint", 16, struct.pack(">qqqq", 5, 6, 7, 8))

    checkpoint = inspect(root).checkpoint

    assert checkpoint is not None
    assert checkpoint.log_at_ms == BORN_AT_MS + 60
    assert checkpoint.index_at_ms == 5
    assert (checkpoint.master_flushed_offset, checkpoint.confirmed_offset) == (6, 7)
    assert checkpoint.dispatched_offset == 8


@pytest.mark.parametrize(("is_clean", "state"), [(True, "stopped"), (False, "killed")])
def test_the_abort_file_tells_a_kill_from_a_stop(
    builder: StoreBuilder, is_clean: bool, state: str
) -> None:
    report = inspect(builder.write(is_clean=is_clean))

    assert (report.state, report.has_abort, report.lock) == (state, not is_clean, "free")


def test_bodies_are_checked_only_on_request(builder: StoreBuilder) -> None:
    root = builder.write()
    overwrite(log_file(root), builder.placed[3].log_offset + 95, b"\xff")

    assert inspect(root).problem_count == 0
    (problem,) = inspect(root, is_crc_checked=True).problems
    assert (problem.kind, problem.log_offset) == ("checksum", builder.placed[3].log_offset)


def test_holes_and_damage_are_problems(builder: StoreBuilder) -> None:
    root = builder.write()
    hole, damaged = builder.placed[2], builder.placed[8]
    overwrite(log_file(root), hole.log_offset, bytes(hole.size))
    overwrite(log_file(root), damaged.log_offset, b"\xff" * damaged.size)

    report = inspect(root)

    assert [(p.kind, p.log_offset, p.size_bytes) for p in report.problems] == [
        ("hole", hole.log_offset, hole.size),
        ("damaged", damaged.log_offset, damaged.size),
    ]
    assert report.records == 58


def test_a_torn_tail_is_a_problem_only_after_a_clean_stop(builder: StoreBuilder) -> None:
    root = builder.write(is_clean=False)
    last = builder.placed[-1]
    position = last.log_offset % SEGMENT
    overwrite(log_file(root, last.log_offset - position), position + 20, bytes(last.size - 20))

    killed = inspect(root)
    (root / "abort").unlink()
    stopped = inspect(root)

    assert killed.problem_count == 0
    assert "recovery cuts it off" in killed.notes[0]
    assert [problem.kind for problem in stopped.problems] == ["damaged"]


def test_a_segment_of_another_size_is_a_problem(builder: StoreBuilder) -> None:
    root = builder.write()
    os.truncate(log_file(root, SEGMENT), 3000)

    kinds = [problem.kind for problem in inspect(root).problems]

    assert kinds[0] == "size"


def test_segments_in_several_folders_are_one_log(builder: StoreBuilder, tmp_path: Path) -> None:
    root = builder.write()
    other = tmp_path / "other"
    other.mkdir()
    log_file(root, SEGMENT).rename(other / f"{SEGMENT:020d}")

    view = StoreView(root, log_folders=(root / "commitlog", other))
    report = Inspection(view).run()
    view.close()

    assert report.records == 60
    assert report.problem_count == 0


def test_nothing_in_the_directory_is_touched(builder: StoreBuilder) -> None:
    root = builder.write(is_clean=False)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}

    inspect(root, is_crc_checked=True)

    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_stray_files_are_left_alone(builder: StoreBuilder) -> None:
    root = builder.write()
    (root / "commitlog" / "notes.txt").write_text("mine")
    (root / "commitlog" / f"{9 * SEGMENT:020d}").write_bytes(b"")
    (root / "consumequeue" / "README").write_text("mine")
    (root / "consumequeue" / "orders" / "x").mkdir()
    (root / "index" / "short").write_text("mine")

    report = inspect(root)

    assert report.problem_count == 0
    assert len(report.queues) == 2


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("nowhere", "does not exist"),
        ("file", "is not a directory"),
        ("empty", "neither commitlog nor consumequeue"),
        ("store/commitlog", "try"),
        ("", "try"),
    ],
)
def test_what_is_no_store_is_refused_with_a_reason(
    builder: StoreBuilder, tmp_path: Path, folder: str, reason: str
) -> None:
    builder.write()
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()

    with pytest.raises(StoreError, match=reason):
        StoreView(tmp_path / folder)


def test_a_store_without_queues_and_index_is_inspected(builder: StoreBuilder) -> None:
    root = builder.write()
    for part in ("consumequeue", "index"):
        shutil.rmtree(root / part)
    (root / "checkpoint").unlink()

    report = inspect(root)

    assert (report.queues, report.index_files, report.checkpoint) == ([], [], None)
    assert report.records == 60
