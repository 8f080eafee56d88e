"""What a store finds when it opens."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from emberq.errors import StoreDamaged
from emberq.store.consume_queue import ENTRY_SIZE
from emberq.store.log_scan import ScanStop
from emberq.store.message_store import MessageStore
from emberq.store.recovery import Recovered
from emberq.store.results import PutStatus
from tests.support.stores import (
    ENTRIES_PER_FILE,
    SEGMENT_SIZE,
    TOPIC,
    bodies_of,
    crashing,
    new_store,
    opened,
    put,
    put_many,
    queue_path,
    read_all,
    segment_path,
)


def reopened(root: Path, **changes: Any) -> tuple[MessageStore, Recovered]:
    store = new_store(root, **changes)
    return store, store.open()


def abort(root: Path) -> None:
    (root / "abort").write_text("1")


def overwrite(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


def flip(path: Path, position: int) -> None:
    content = path.read_bytes()
    overwrite(path, position, bytes([content[position] ^ 0x10]))


def test_a_new_directory_is_an_empty_store(tmp_path: Path) -> None:
    store, recovered = reopened(tmp_path / "new" / "store")

    assert recovered.was_clean
    assert recovered.log_end == 0
    assert put(store).queue_offset == 0
    store.close()


def test_after_a_clean_stop_everything_is_as_it_was(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        bodies = put_many(store, 200)
        end = store.log.end
    assert not (tmp_path / "abort").exists()

    store, recovered = reopened(tmp_path)

    assert recovered.was_clean
    assert recovered.log_end == end
    assert recovered.records_dispatched == 0
    assert recovered.scanned_from > 0, "only the last segment is walked again"
    assert bodies_of(store) == bodies
    assert put(store).queue_offset == 200
    store.close()


def test_after_a_kill_everything_that_was_put_is_there(tmp_path: Path) -> None:
    with crashing(tmp_path) as store:
        bodies = put_many(store, 100)
    assert (tmp_path / "abort").exists()

    store, recovered = reopened(tmp_path)

    assert not recovered.was_clean
    assert bodies_of(store) == bodies
    store.close()


def test_a_recovery_that_is_cut_short_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        bodies = put_many(store, 10)
    monkeypatch.setattr("emberq.store.recovery.LogScan.__iter__", lambda _scan: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        reopened(tmp_path)
    monkeypatch.undo()

    store, recovered = reopened(tmp_path)

    assert not recovered.was_clean
    assert bodies_of(store) == bodies
    store.close()


def test_a_wrong_segment_size_is_named_and_costs_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        bodies = put_many(store, 10)

    with pytest.raises(StoreDamaged, match="mappedFileSizeCommitLog is 32768"):
        reopened(tmp_path, mapped_file_size_commit_log=32 * 1024)

    store, recovered = reopened(tmp_path)
    assert recovered.was_clean
    assert bodies_of(store) == bodies
    store.close()


@pytest.mark.parametrize("is_clean", [True, False])
def test_lost_queues_are_rebuilt_from_the_log(tmp_path: Path, is_clean: bool) -> None:
    with opened(tmp_path) as store:
        bodies = put_many(store, 200, tags="A")
        put(store, b"other", queue_id=1)
    before = queue_path(tmp_path).read_bytes()
    shutil.rmtree(tmp_path / "consumequeue")
    if not is_clean:
        abort(tmp_path)

    with opened(tmp_path) as store:
        assert bodies_of(store) == bodies
        assert bodies_of(store, queue_id=1) == [b"other"]
    assert queue_path(tmp_path).read_bytes() == before


def test_one_lost_queue_is_rebuilt_although_its_records_lie_far_back(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        bodies = put_many(store, 200)
        put_many(store, 200, queue_id=1)
        put(store, b"last")
    shutil.rmtree(tmp_path / "consumequeue" / TOPIC / "0")

    with opened(tmp_path) as store:
        assert bodies_of(store) == [*bodies, b"last"]
        assert len(read_all(store, queue_id=1)) == 200


def test_a_deleted_topic_does_not_come_back_with_a_clean_start(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_many(store, 5, topic="Gone")
        put_many(store, 5)
    shutil.rmtree(tmp_path / "consumequeue" / "Gone")

    with opened(tmp_path) as store:
        assert store.queues.topics() == {TOPIC}


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_topic_that_was_deleted_and_made_again_keeps_its_new_messages(
    tmp_path: Path, is_clean: bool
) -> None:
    with opened(tmp_path) as store:
        put_many(store, 4)
        queue = store.queues.get(TOPIC, 0)
        assert queue is not None
        store.queues.remove(queue)
        bodies = [b"new %d" % number for number in range(3)]
        for body in bodies:
            put(store, body)
        assert bodies_of(store) == bodies
    if not is_clean:
        abort(tmp_path)
        (tmp_path / "checkpoint").unlink()

    with opened(tmp_path) as store:
        assert bodies_of(store) == bodies
        assert put(store).queue_offset == 3


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (0, "short"),
        (0, "void"),
        (1, "missing"),
        (1, "short"),
        (1, "void"),
        (2, "short"),
        (2, "void"),
    ],
)
def test_a_damaged_queue_file_is_found_after_a_clean_stop_and_rebuilt(
    tmp_path: Path, number: int, kind: str
) -> None:
    with opened(tmp_path) as store:
        bodies = put_many(store, ENTRIES_PER_FILE * 3)
        put_many(store, 100, queue_id=1)
    path = queue_path(tmp_path, number=number)
    if kind == "missing":
        path.unlink()
    elif kind == "short":
        with path.open("r+b") as file:
            file.truncate(300)
    else:
        overwrite(path, 100, bytes(200))

    with opened(tmp_path) as store:
        assert bodies_of(store) == bodies
        assert put(store).queue_offset == len(bodies)


def test_stale_entries_behind_the_end_are_erased_after_a_crash(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_many(store, 10)
    stale = (10**6).to_bytes(8, "big") + (100).to_bytes(4, "big") + bytes(8)
    overwrite(queue_path(tmp_path), 20 * ENTRY_SIZE, stale)
    abort(tmp_path)

    with opened(tmp_path) as store:
        put_many(store, 10)
    content = queue_path(tmp_path).read_bytes()

    assert not content[20 * ENTRY_SIZE :].strip(b"\0")
    with opened(tmp_path) as store:
        assert len(read_all(store)) == 20


def test_entries_behind_the_end_of_the_log_are_cut_off(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        results = [put(store, b"%d" % number * 1000) for number in range(40)]
    for path in sorted((tmp_path / "commitlog").iterdir())[1:]:
        path.unlink()
    (tmp_path / "checkpoint").unlink()
    kept = sum(result.log_offset < SEGMENT_SIZE for result in results)

    store, recovered = reopened(tmp_path)

    assert recovered.queues_cut == 1
    assert len(read_all(store)) == kept
    assert put(store).queue_offset == kept
    store.close()


def test_empty_segments_made_ahead_are_removed(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        bodies = put_many(store, 10)
        end = store.log.end
    for number in (1, 2):
        segment_path(tmp_path, number).write_bytes(bytes(SEGMENT_SIZE))
    abort(tmp_path)

    store, recovered = reopened(tmp_path)

    assert (recovered.log_end, recovered.stop) == (end, ScanStop.UNWRITTEN)
    assert store.log.starts == [0]
    assert bodies_of(store) == bodies
    store.close()


def test_an_empty_segment_behind_a_full_one_is_where_the_log_goes_on(tmp_path: Path) -> None:
    with crashing(tmp_path) as store:
        put(store, bytes(SEGMENT_SIZE - 500))
        put(store, bytes(600))
        cut = store.log.starts[1]
    overwrite(segment_path(tmp_path, 1), 0, bytes(SEGMENT_SIZE))

    store, recovered = reopened(tmp_path)

    assert recovered.log_end == cut
    assert put(store, b"next").log_offset == cut
    assert len(read_all(store)) == 2
    store.close()


def test_a_torn_tail_is_cut_and_written_over(tmp_path: Path) -> None:
    with crashing(tmp_path) as store:
        put_many(store, 5)
        torn = put(store, b"torn")
        stale = put(store, b"stale")
    overwrite(segment_path(tmp_path), torn.log_offset + 91, b"TORN")

    store, recovered = reopened(tmp_path)

    assert (recovered.log_end, recovered.stop) == (torn.log_offset, ScanStop.DAMAGED)
    assert put(store, b"tor2").log_offset == torn.log_offset
    assert store.log.end == stale.log_offset
    store.close()
    abort(tmp_path)
    store, recovered = reopened(tmp_path)
    assert bodies_of(store)[5:] == [b"tor2"], "what stood behind the torn record is gone for good"
    store.close()


# Damage


def test_damage_after_a_clean_stop_costs_the_damaged_message_only(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        results = [put(store, b"%03d" % number * 100) for number in range(30)]
    flip(segment_path(tmp_path), results[7].log_offset + 120)
    last = results[-1].log_offset
    flip(segment_path(tmp_path, last // SEGMENT_SIZE), last % SEGMENT_SIZE + 120)

    store, recovered = reopened(tmp_path)

    assert [record.queue_offset for record in read_all(store)] == [*range(7), *range(8, 29)]
    assert recovered.log_end == results[-1].end_offset
    assert put(store, b"next").queue_offset == 30, "the damaged message keeps its offset"
    store.close()


def test_damage_that_the_checkpoint_vouches_for_is_stepped_over_after_a_crash(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as store:
        results = [put(store, b"%03d" % number * 10) for number in range(30)]
    with crashing(tmp_path) as store:
        put(store, b"later")
    flip(segment_path(tmp_path), results[7].log_offset + 100)

    store, recovered = reopened(tmp_path)

    assert [damage.offset for damage in recovered.damages] == [results[7].log_offset]
    offsets = [record.queue_offset for record in read_all(store)]
    assert offsets == [*range(7), *range(8, 31)]
    store.close()


def test_a_rebuilt_queue_has_a_hole_where_a_message_is_damaged(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        results = [put(store, b"%03d" % number * 10) for number in range(20)]
    flip(segment_path(tmp_path), results[7].log_offset)
    flip(segment_path(tmp_path), results[8].log_offset)
    shutil.rmtree(tmp_path / "consumequeue")

    with opened(tmp_path) as store:
        queue = store.queues.get(TOPIC, 0)
        assert queue is not None
        assert queue.end_offset == 20
        offsets = [record.queue_offset for record in read_all(store)]

    assert offsets == [*range(7), *range(9, 20)]


@pytest.mark.parametrize("value", [0, 3, 9, 1_000, 2**40, 2**63 - 1, -5])
def test_a_rebuilt_queue_believes_no_impossible_queue_offset(tmp_path: Path, value: int) -> None:
    with opened(tmp_path) as store:
        results = [put(store, b"%03d" % number) for number in range(20)]
    position = results[7].log_offset + 20
    overwrite(segment_path(tmp_path), position, value.to_bytes(8, "big", signed=True))
    shutil.rmtree(tmp_path / "consumequeue")

    with opened(tmp_path) as store:
        assert [record.queue_offset for record in read_all(store)] == [*range(7), *range(8, 20)]
        assert put(store).queue_offset == 20


@pytest.mark.parametrize("topic", [b"../../", b"Ord/rs", b"Ord\xff\xffs", b"Ordxrs"])
def test_a_damaged_topic_name_reaches_no_other_folder(tmp_path: Path, topic: bytes) -> None:
    root = tmp_path / "a" / "b" / "c" / "d"
    with opened(root) as store:
        results = [put(store, b"%03d" % number) for number in range(5)]
    overwrite(segment_path(root), results[2].log_offset + 88 + 3 + 1, topic)
    shutil.rmtree(root / "consumequeue")

    with opened(root) as store:
        assert [record.queue_offset for record in read_all(store)] == [0, 1, 3, 4]
    assert {path.name for path in root.iterdir() if path.is_dir()} == {
        "commitlog",
        "consumequeue",
        "index",
    }
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]
    assert {path.name for path in (root / "consumequeue").iterdir()} <= {TOPIC, "Ordxrs"}


def test_everything_a_crash_left_unsynced_is_synced_before_it_counts_as_durable(
    tmp_path: Path,
) -> None:
    with crashing(tmp_path) as store:
        put_many(store, 50)

    store, recovered = reopened(tmp_path)

    assert store.flushed_offset == recovered.log_end
    store.close()


def test_progress_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emberq.store.recovery.WRITE_AFTER_RECORDS", 10)
    with opened(tmp_path) as store:
        put_many(store, 100)
    abort(tmp_path)
    (tmp_path / "checkpoint").unlink()
    told: list[tuple[int, int]] = []

    store = new_store(tmp_path)
    store.open(lambda at, end: told.append((at, end)))
    store.close()

    assert len(told) == 10
    assert told == sorted(told)


def test_messages_go_on_with_the_next_offset_after_all_of_them_expired(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_many(store, 120)
        for number in range(20):
            put(store, bytes(3_000), queue_id=1)
            assert number >= 0
    first = segment_path(tmp_path, 0)
    first.unlink()
    abort(tmp_path)

    with opened(tmp_path) as store:
        result = put(store, b"next")
        assert result.status is PutStatus.PUT_OK
        assert result.queue_offset >= 100


@pytest.mark.parametrize("kept_bytes", [0, 6])
def test_a_torn_entry_is_not_taken_for_one_of_a_deleted_message(
    kept_bytes: int, tmp_path: Path
) -> None:
    """Without its first bytes it leads to the log's beginning, which is gone."""
    quiet: dict[str, Any] = {"flush_interval_consume_queue": 3_600_000}
    bodies = [b"%03d" % number + bytes(1_000) for number in range(40)]
    with opened(tmp_path, **quiet) as store:
        for body in bodies:
            put(store, body)
        store.log.remove_first()
    with crashing(tmp_path, **quiet) as store:
        first = store.min_offset(TOPIC, 0)
        for body in (b"one", b"two"):
            put(store, body)
        store.durability.write_side_files(lambda: None)
    overwrite(queue_path(tmp_path), 40 * ENTRY_SIZE, bytes(8 - kept_bytes))

    with opened(tmp_path, **quiet) as store:
        assert first > 0
        assert bodies_of(store) == [*bodies[first:], b"one", b"two"]
        assert put(store, b"three").queue_offset == 42
