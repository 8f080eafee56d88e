"""What a store directory has, what it lacks, and who is told."""

import logging
from pathlib import Path

import pytest

from emberq.errors import DataLost
from emberq.model.queue import MessageQueue
from emberq.model.system_topics import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from emberq.record.decode import iter_records
from emberq.spark.options import parse_source
from emberq.spark.planning import QueueSlice
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
