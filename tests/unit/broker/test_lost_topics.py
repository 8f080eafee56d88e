"""Topics that only the log still knows."""

from emberq.broker.config import BrokerConfig
from emberq.broker.lost_topics import restore_lost_topics
from emberq.broker.topics import Topics

SAVED_AT_MS = 1_000


class Store:
    """Queues and when the last message of each was stored."""

    def __init__(self, queues: dict[tuple[str, int], int]) -> None:
        self._queues = queues

    def queue_ids(self) -> list[tuple[str, int]]:
        return list(self._queues)

    def max_offset(self, topic: str, queue_id: int) -> int:
        return 1

    def stored_at_ms(self, topic: str, queue_id: int, offset: int) -> int:
        assert offset == 0
        return self._queues[topic, queue_id]


def restored(queues: dict[tuple[str, int], int]) -> dict[str, int]:
    """Names and numbers of queues of what was made again."""
    topics = Topics(BrokerConfig(broker_name="b"), now_ms=lambda: 5_000)
    names = restore_lost_topics(topics, Store(queues), saved_at_ms=SAVED_AT_MS, queue_count=8)
    found = {name: topics.get(name) for name in names}
    return {name: topic.write_queue_count for name, topic in found.items() if topic is not None}


def test_a_topic_with_messages_since_the_file_was_written_is_made_again() -> None:
    assert restored({("orders", 1): 1_001}) == {"orders": 8}


def test_a_topic_without_messages_since_then_was_deleted() -> None:
    assert restored({("orders", 1): 1_000, ("orders", 2): 900, ("empty", 0): -1}) == {}


def test_no_queue_with_messages_is_left_out() -> None:
    assert restored({("orders", 15): 2_000}) == {"orders": 16}


def test_retries_and_dead_letters_have_the_queues_that_brokers_give_them() -> None:
    assert restored({("%RETRY%g", 0): 2_000, ("%DLQ%g", 0): 2_000}) == {"%DLQ%g": 1, "%RETRY%g": 1}


def test_known_topics_and_names_that_are_none_are_left_alone() -> None:
    assert restored({("SCHEDULE_TOPIC_XXXX", 2): 2_000, ("a b", 0): 2_000}) == {}
