"""What a store directory has, what it lacks, and who is told."""

import logging
from pathlib import Path

import pytest

from emberq.errors import DataLost
from emberq.model.queue import MessageQueue
from emberq.model.system_topics import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from emberq.record.decode import iter_records
from emberq.spark.columns import chosen_columns
from emberq.spark.options import parse_source
from emberq.spark.planning import QueueSlice
from emberq.spark.reading import read_slices
from emberq.spark.store_place import BROKER_NAME, StorePlace
from tests.unit.spark.store_files import TOPIC, write_store

QUEUE = MessageQueue(BROKER_NAME, 0, TOPIC)


def place(root: Path, **options: str) -> StorePlace:
    what = {} if "subscribePattern" in options else {"subscribe": TOPIC}
    return StorePlace(parse_source({**what, "store": str(root), **options}))


def offsets(place: StorePlace, each: QueueSlice) -> list[int]:
    contents = place.contents(each)
    return [record.queue_offset for content in contents for record in iter_records(content)]


def with_a_gap(root: Path) -> None:
    """Of messages 0 to 8 the log lacks 3 to 5."""
    write_store(root, [b"x"] * 9, per_segment=3)[1].unlink()


def test_a_gap_in_the_log_stops_a_query(tmp_path: Path) -> None:
    with_a_gap(tmp_path)

    with pytest.raises(DataLost, match="messages 3 to 6 of orders store/0 are gone"):
        offsets(place(tmp_path), QueueSlice(QUEUE, 0, 9))


def test_or_is_passed_over_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with_a_gap(tmp_path)
    lenient = place(tmp_path, failOnDataLoss="false")

    with caplog.at_level(logging.WARNING):
        found = offsets(lenient, QueueSlice(QUEUE, 0, 9))

    assert found == [0, 1, 2, 6, 7, 8]
    assert "messages_gone messages 3 to 6 of orders store/0" in caplog.text
    assert offsets(lenient, QueueSlice(QUEUE, 3, 5)) == []


def unwritten(root: Path, *offsets: int) -> None:
    """Entries of queue 0 that a broker never wrote."""
    file = root / "consumequeue" / TOPIC / "0" / f"{0:020}"
    content = bytearray(file.read_bytes())
    for offset in offsets:
        content[20 * offset : 20 * offset + 20] = bytes(20)
    file.write_bytes(content)


def test_an_entry_that_was_never_written_costs_its_message_only(tmp_path: Path) -> None:
    write_store(tmp_path, [b"x"] * 9)
    unwritten(tmp_path, 3)
    lenient = place(tmp_path, failOnDataLoss="false")
    each = QueueSlice(QUEUE, 0, 9)

    with pytest.raises(DataLost, match="messages 3 to 4 of orders store/0 are gone"):
        offsets(place(tmp_path), each)
    assert offsets(lenient, each) == [0, 1, 2, 4, 5, 6, 7, 8]
    found = [(first, len(content) // 20) for first, content in lenient.entries(each)]
    assert found == [(0, 3), (4, 5)]


def test_so_does_a_file_of_a_queue_that_is_missing(tmp_path: Path) -> None:
    write_store(tmp_path, [b"x"] * 9)
    file = tmp_path / "consumequeue" / TOPIC / "0" / f"{0:020}"
    content = file.read_bytes()
    file.write_bytes(content[:60])
    file.with_name(f"{120:020}").write_bytes(content[120:])

    lenient = place(tmp_path, failOnDataLoss="false")

    assert offsets(lenient, QueueSlice(QUEUE, 0, 9)) == [0, 1, 2, 6, 7, 8]


def test_a_hole_that_leads_to_the_next_message_is_a_loss(tmp_path: Path) -> None:
    write_store(tmp_path, [b"x"] * 9)
    file = tmp_path / "consumequeue" / TOPIC / "0" / f"{0:020}"
    content = file.read_bytes()
    file.write_bytes(content[:60] + 2 * content[80:100] + content[100:])
    columns = parse_source({"subscribe": TOPIC, "store": str(tmp_path), "columns": "queueOffset"})
    each = QueueSlice(QUEUE, 0, 9)

    with pytest.raises(DataLost, match="8 of the 9 messages 0 to 9 of orders store/0"):
        list(read_slices((each,), chosen_columns(columns), columns))


def test_entries_that_are_missing_are_an_error_or_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_store(tmp_path, [b"x"] * 9)
    beyond = QueueSlice(QUEUE, 0, 12)

    with pytest.raises(DataLost, match="messages 9 to 12 of orders store/0 are gone"):
        list(place(tmp_path).entries(beyond))
    with caplog.at_level(logging.WARNING):
        found = list(place(tmp_path, failOnDataLoss="false").entries(beyond))

    assert [(first, len(content) // 20) for first, content in found] == [(0, 9)]
    assert "messages_gone messages 9 to 12" in caplog.text


def test_a_pattern_leaves_the_topics_of_brokers_out(tmp_path: Path) -> None:
    write_store(tmp_path, [b"x"])
    queues = tmp_path / "consumequeue"
    for topic in (HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, "%RETRY%shop", "orders-2"):
        folder = queues / topic / "0"
        folder.mkdir(parents=True)
        (folder / f"{0:020}").write_bytes(bytes(20))

    found = place(tmp_path, subscribePattern=".*").queues()

    assert sorted(queue.topic for queue in found) == ["%RETRY%shop", "orders", "orders-2"]


# Times

FIRST_MS = 1_000


def write_timed(root: Path) -> list[Path]:
    """Messages 0 to 99, stored at 1,000 to 1,099 ms, in files of the log of twenty each."""
    return write_store(root, [b"x"] * 100, per_segment=20, first_time_ms=FIRST_MS)


def by_time(place: StorePlace, number: int, *, is_end: bool = False) -> int:
    """The offset for the time of a message."""
    return place.offsets_by_time({QUEUE: FIRST_MS + number}, is_end=is_end)[QUEUE]


def test_times_are_found_in_a_whole_log(tmp_path: Path) -> None:
    write_timed(tmp_path)
    whole = place(tmp_path)

    for is_end in (False, True):
        assert [by_time(whole, number, is_end=is_end) for number in (-5, 0, 55, 99, 100)] == [
            *(0, 0, 55, 99, 100)
        ]


def test_a_start_is_found_though_the_copy_lacks_the_end_of_the_log(tmp_path: Path) -> None:
    """Files that were not copied are no reason to read nothing, without a word."""
    segments = write_timed(tmp_path)
    segments[-1].unlink()
    segments[-2].unlink()
    cut = place(tmp_path)

    assert [by_time(cut, number) for number in (30, 55, 59, 60, 90)] == [30, 55, 59, 60, 60]
    assert [by_time(cut, number, is_end=True) for number in (55, 60, 90)] == [55, 100, 100]
    with pytest.raises(DataLost, match="messages 60 to 100 of orders store/0 are gone"):
        offsets(cut, QueueSlice(QUEUE, by_time(cut, 55), 100))


def test_so_is_one_in_a_log_that_was_copied_while_it_was_written(tmp_path: Path) -> None:
    """Its last file has its size, and zeros where nothing was written yet."""
    last = write_timed(tmp_path)[-1]
    last.write_bytes(bytes(last.stat().st_size))

    assert by_time(place(tmp_path), 55) == 55
    assert by_time(place(tmp_path), 85) == 80


def test_a_gap_beside_a_time_belongs_to_the_range_that_begins_or_ends_there(
    tmp_path: Path,
) -> None:
    write_timed(tmp_path)[2].unlink()  # 40 to 59
    gapped = place(tmp_path)

    assert [by_time(gapped, number) for number in (39, 50, 60, 61)] == [39, 40, 40, 61]
    ends = [by_time(gapped, number, is_end=True) for number in (39, 50, 60, 61)]
    assert ends == [39, 60, 60, 61]


def test_a_damaged_record_moves_no_other_time(tmp_path: Path) -> None:
    segment = write_timed(tmp_path)[2]
    content = bytearray(segment.read_bytes())
    size = len(content) // 20
    content[10 * size : 11 * size] = bytes(size)  # message 50, the first one that is looked at
    segment.write_bytes(content)

    assert [by_time(place(tmp_path), number) for number in (30, 49, 51)] == [30, 49, 50]
    assert [by_time(place(tmp_path), number) for number in (52, 70)] == [52, 70]
