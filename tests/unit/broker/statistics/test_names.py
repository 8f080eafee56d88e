import pytest

from emberq.broker.statistics.names import COUNTERS, COUNTERS_WITHOUT_QUEUES, CounterKey, parse_key


@pytest.mark.parametrize(
    ("name", "key", "parsed"),
    [
        ("TOPIC_PUT_NUMS", "T", CounterKey("T", None, None)),
        ("TOPIC_PUT_LATENCY", "3@T", CounterKey("T", None, 3)),
        ("QUEUE_PUT_SIZE", "T@3", CounterKey("T", None, 3)),
        ("GROUP_GET_NUMS", "T@G", CounterKey("T", "G", None)),
        ("GROUP_GET_LATENCY", "3@T@G", CounterKey("T", "G", 3)),
        ("QUEUE_GET_NUMS", "T@3@G", CounterKey("T", "G", 3)),
        ("TOPIC_PUT_NUMS", "T@G", None),
        ("GROUP_GET_NUMS", "T", None),
        ("QUEUE_PUT_SIZE", "T@-1", None),
        ("QUEUE_PUT_SIZE", "T@", None),
    ],
)
def test_keys_are_taken_apart(name: str, key: str, parsed: CounterKey | None) -> None:
    assert parse_key(COUNTERS[name], key) == parsed


def test_without_queue_figures_no_counter_is_about_one_queue_of_a_group() -> None:
    assert "QUEUE_PUT_NUMS" not in COUNTERS_WITHOUT_QUEUES
    assert COUNTERS_WITHOUT_QUEUES["GROUP_GET_LATENCY"].key_parts == ("topic", "group")
