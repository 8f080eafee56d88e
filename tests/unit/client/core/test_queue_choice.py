"""Choice of a queue: round robin, failed brokers, ordering keys."""

import pytest

from emberq.client.core.broker_faults import BrokerFaults
from emberq.client.core.queue_choice import RoundRobin, queue_by_key
from emberq.errors import ConfigError
from emberq.model.queue import MessageQueue

QUEUES = [MessageQueue(broker, number, "T") for broker in ("a", "b") for number in range(2)]


def test_every_queue_has_its_turn() -> None:
    robin = RoundRobin()

    assert {robin.choose(QUEUES) for _ in range(4)} == set(QUEUES)


def test_the_broker_that_failed_is_passed_over() -> None:
    robin = RoundRobin()

    assert {robin.choose(QUEUES, "a").broker_name for _ in range(8)} == {"b"}


def test_the_only_broker_is_tried_again_although_it_failed() -> None:
    assert RoundRobin().choose(QUEUES[:2], "a").broker_name == "a"


def test_a_slow_broker_is_avoided_for_its_time() -> None:
    faults, robin = BrokerFaults(), RoundRobin()
    faults.note("a", 600, now_ms=0, is_isolated=False, is_reachable=True)

    early = {robin.choose_healthy(QUEUES, faults, 1_999).broker_name for _ in range(8)}
    late = {robin.choose_healthy(QUEUES, faults, 2_000).broker_name for _ in range(8)}

    assert (early, late) == ({"b"}, {"a", "b"})


def test_with_all_brokers_slow_a_reachable_one_is_taken() -> None:
    faults, robin = BrokerFaults(), RoundRobin()
    faults.note("a", 0, now_ms=0, is_isolated=True, is_reachable=False)
    faults.note("b", 5_000, now_ms=0, is_isolated=False, is_reachable=True)

    assert {robin.choose_healthy(QUEUES, faults, 1).broker_name for _ in range(8)} == {"b"}


def test_with_no_broker_left_any_is_tried() -> None:
    faults, robin = BrokerFaults(), RoundRobin()
    for broker in ("a", "b"):
        faults.note(broker, 0, now_ms=0, is_isolated=True, is_reachable=False)

    assert robin.choose_healthy(QUEUES, faults, 1) in QUEUES


def test_an_isolated_broker_is_avoided_for_ten_seconds_and_a_good_answer_changes_nothing() -> None:
    faults = BrokerFaults()
    faults.note("a", 3, now_ms=0, is_isolated=True, is_reachable=True)
    faults.note("a", 3, now_ms=10, is_isolated=False, is_reachable=True)

    assert not faults.is_available("a", 9_999)
    assert faults.is_available("a", 10_000)
    assert faults.suspects(9_999) == ["a"]


def test_a_probe_makes_a_broker_reachable_and_forgetting_makes_it_new() -> None:
    faults = BrokerFaults()
    faults.note("a", 0, now_ms=0, is_isolated=True, is_reachable=False)
    faults.found_reachable("a")

    assert faults.is_reachable("a")
    faults.forget("a")
    assert faults.is_available("a", 1)


@pytest.mark.parametrize(
    ("key", "queue_id"),
    [
        ("TagA", 2598919 % 7),
        ("order-created", 392709271 % 7),  # its hash is negative
        ("", 0),
        (10, 3),
        (-10, 3),
        ((1 << 31), (1 << 31) % 7),
        (-(1 << 31), (1 << 31) % 7),
        (True, 1231 % 7),
    ],
)
def test_a_key_leads_to_the_queue_that_java_producers_choose(key: object, queue_id: int) -> None:
    queues = [MessageQueue("a", number, "T") for number in range(7)]

    assert queue_by_key(queues, key).queue_id == queue_id


def test_a_key_without_a_hash_in_common_is_refused() -> None:
    with pytest.raises(ConfigError, match="ordering key"):
        queue_by_key(QUEUES, 1.5)
