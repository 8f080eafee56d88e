"""How many queues are asked for the size of their messages."""

from collections.abc import Collection
from typing import Any

from emberq.model.queue import MessageQueue
from emberq.spark.planning import QueueSlice
from emberq.spark.record_sizes import ASKED_BYTES, ASKED_QUEUES, FEW_ROWS, RecordSizes

TYPICAL = 100.0


class Asked:
    """A place that remembers which queues it was asked for."""

    def __init__(self, sizes: dict[int, float] | None = None) -> None:
        self.queues: list[MessageQueue] = []
        self.calls = 0
        self._sizes = sizes or {}

    def record_sizes(self, slices: Collection[QueueSlice]) -> list[float]:
        self.calls += 1
        self.queues += [each.queue for each in slices]
        return [self._sizes.get(each.queue.queue_id, TYPICAL) for each in slices]


def slice_of(queue_id: int, count: int, topic: str = "orders") -> QueueSlice:
    return QueueSlice(MessageQueue("broker-a", queue_id, topic), 5, 5 + count)


def sizes_at(place: Any) -> RecordSizes:
    return RecordSizes(place)


def test_a_thousand_queues_with_a_little_each_are_not_all_asked() -> None:
    place = Asked()
    sizes = sizes_at(place)

    found = {sizes(slice_of(queue_id, 1_000)) for queue_id in range(1_000)}

    assert found == {TYPICAL}
    assert len(place.queues) == ASKED_QUEUES


def test_a_queue_that_holds_much_is_asked_itself() -> None:
    place = Asked({77: 9.0})
    sizes = sizes_at(place)
    for queue_id in range(ASKED_QUEUES):
        sizes(slice_of(queue_id, 10))
    count = int(ASKED_BYTES / TYPICAL) + 1

    assert sizes(slice_of(77, count)) == 9.0
    assert sizes(slice_of(78, count)) == TYPICAL
    assert len(place.queues) == ASKED_QUEUES + 2


def test_a_queue_is_asked_once() -> None:
    place = Asked()
    sizes = sizes_at(place)

    sizes(slice_of(0, 10))
    sizes(slice_of(0, 20))

    assert len(place.queues) == 1


def test_topics_are_not_taken_to_be_alike() -> None:
    place = Asked()
    sizes = sizes_at(place)
    for queue_id in range(ASKED_QUEUES + 1):
        sizes(slice_of(queue_id, 10))

    sizes(slice_of(0, 10, "invoices"))

    assert place.queues[-1].topic == "invoices"


def test_ranges_that_are_known_before_are_asked_about_together_with_the_same_answers() -> None:
    sizes = {queue_id: 10.0 + queue_id for queue_id in range(20)}
    slices = [
        slice_of(queue_id, count, topic)
        for topic in ("orders", "invoices")
        for queue_id, count in enumerate([10, 3_000_000] * 10)
    ]
    one_by_one, together = Asked(sizes), Asked(sizes)

    before = list(map(RecordSizes(one_by_one), slices))  # type: ignore[arg-type] # is a place here
    after = list(map(RecordSizes(together, slices), slices))  # type: ignore[arg-type] # the same

    assert after == before
    assert sorted(together.queues) == sorted(one_by_one.queues)
    assert together.calls == 1 + len(together.queues) - 2 * ASKED_QUEUES


def test_of_a_topic_with_a_few_rows_one_range_is_asked_about() -> None:
    place = Asked()
    slices = [
        slice_of(number, FEW_ROWS // 8, topic) for topic in ("a", "b", "c") for number in range(8)
    ]
    slices.append(slice_of(8, 1, "c"))  # which makes one row too many

    sizes = RecordSizes(place, slices)  # type: ignore[arg-type] # is a place here

    assert {sizes(each) for each in slices} == {TYPICAL}
    assert [queue.topic for queue in place.queues] == ["a", "b", *["c"] * ASKED_QUEUES]
    assert place.calls == 1
