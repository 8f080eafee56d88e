"""How many queues are asked for the size of their messages."""

from typing import Any

from emberq.model.queue import MessageQueue
from emberq.spark.planning import QueueSlice
from emberq.spark.record_sizes import ASKED_BYTES, ASKED_QUEUES, RecordSizes

TYPICAL = 100.0


class Asked:
    """A place that remembers which queues it was asked for."""

    def __init__(self, sizes: dict[int, float] | None = None) -> None:
        self.queues: list[MessageQueue] = []
        self._sizes = sizes or {}

    def record_size(self, each: QueueSlice) -> float:
        self.queues.append(each.queue)
        return self._sizes.get(each.queue.queue_id, TYPICAL)


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
