import pytest

from emberq.broker.assignment import readable_queues, share_of
from emberq.model.queue import MessageQueue
from emberq.model.route import QueueData, TopicRoute

QUEUES = [MessageQueue("brk", queue_id, "T") for queue_id in range(5)]


def shares(strategy: str, *client_ids: str, count: int = 5) -> list[list[int] | None]:
    found = [share_of(each, client_ids, QUEUES[:count], strategy) for each in client_ids]
    return [None if each is None else [queue.queue_id for queue in each] for each in found]


def test_queues_are_dealt_in_blocks_or_in_circles() -> None:
    assert shares("AVG", "a", "b") == [[0, 1, 2], [3, 4]]
    assert shares("AVG_BY_CIRCLE", "a", "b") == [[0, 2, 4], [1, 3]]


def test_the_order_of_ids_decides_not_the_order_of_arrival() -> None:
    assert shares("AVG", "b", "a") == [[3, 4], [0, 1, 2]]


@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE"])
def test_whoever_comes_late_gets_nothing_when_there_are_more_members_than_queues(
    strategy: str,
) -> None:
    assert shares(strategy, "a", "b", "c", count=2) == [[0], [1], []]


def test_strangers_get_nothing_and_what_cannot_be_decided_is_left_open() -> None:
    assert share_of("x", ["a"], QUEUES, "AVG") == []
    assert share_of("", ["a"], QUEUES, "AVG") is None
    assert share_of("a", ["a"], QUEUES, "MACHINE_ROOM") is None
    assert share_of("a", ["a"], QUEUES, None) is None


def test_queues_of_all_brokers_count_if_they_may_be_read() -> None:
    route = TopicRoute(
        queues=[
            QueueData(broker_name="b", permission=6, read_queue_count=1, write_queue_count=4),
            QueueData(broker_name="a", permission=4, read_queue_count=2, write_queue_count=4),
            QueueData(broker_name="c", permission=2, read_queue_count=4, write_queue_count=4),
        ]
    )

    assert readable_queues("T", route) == [
        MessageQueue("a", 0, "T"),
        MessageQueue("a", 1, "T"),
        MessageQueue("b", 0, "T"),
    ]
