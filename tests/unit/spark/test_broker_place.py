"""What a place makes of messages, queues and topics that are gone, and of names that never were."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from emberq.errors import BrokerNotFound, ConfigError, DataLost, TopicNotFound
from emberq.model.queue import MessageQueue
from emberq.spark.broker_place import SAMPLED_ENTRIES, SAMPLED_RECORDS, BrokerPlace
from emberq.spark.options import PartitionLimits, parse_source
from emberq.spark.planning import QueueSlice, plan_partitions
from emberq.spark.record_sizes import RecordSizes
from tests.unit.spark.fake_brokers import FakeBrokers, linked

A, B = MessageQueue("broker-a", 0, "t"), MessageQueue("broker-b", 0, "t")
KEPT = MessageQueue("broker-a", 0, "kept")  # that a broker is there without the topic
ASSIGNED = '{"t": {"broker-a": [0, 99]}}'


@pytest.fixture(params=[False, True], ids=["own", "official"])
def brokers(request: pytest.FixtureRequest) -> Iterator[FakeBrokers]:
    made = FakeBrokers(is_official=request.param)
    made.add(KEPT)
    with linked(made):
        yield made


@pytest.fixture
def own() -> Iterator[FakeBrokers]:
    made = FakeBrokers()
    made.add(KEPT)
    with linked(made):
        yield made


def place(wait_s: float = 0.0, **options: Any) -> BrokerPlace:
    given = {"subscribe": "t", "retries": "0", **options}
    if "assign" in given:
        del given["subscribe"]
    return BrokerPlace(parse_source(given), wait_s)


# How large messages are


def size_at(asking: BrokerPlace, each: QueueSlice) -> float:
    [size] = asking.record_sizes([each])
    return size


def test_messages_behind_a_range_do_not_count_for_its_size(brokers: FakeBrokers) -> None:
    queue = brokers.add(A, count=11)
    before = size_at(place(), QueueSlice(A, 0, 11))

    queue.put(200, size=1_000_000)

    assert size_at(place(), QueueSlice(A, 0, 11)) == before


def test_a_range_is_cut_into_the_same_tasks_when_larger_messages_have_come(
    brokers: FakeBrokers,
) -> None:
    """Ids of the sink are query, batch, partition and row."""
    queue = brokers.add(A, count=12)
    slices = (QueueSlice(A, 0, 12),)
    limits = PartitionLimits(bytes_max=500)

    def plan() -> list[Any]:
        return plan_partitions(slices, limits, RecordSizes(place()))

    before = plan()
    queue.put(100, size=2_000)

    assert plan() == before
    assert len(before) > 1


def test_sizes_are_those_of_so_many_messages_however_few_come_at_a_time(
    brokers: FakeBrokers,
) -> None:
    """Brokers send less of what has to be read from the disk."""
    queue = brokers.add(A, count=5)
    queue.put(1_000, size=5_000)
    whole = size_at(place(), QueueSlice(A, 0, 1_005))

    brokers.per_part = 3

    assert size_at(place(), QueueSlice(A, 0, 1_005)) == whole


def test_the_size_of_messages_that_are_gone_is_that_of_those_that_are_left(
    brokers: FakeBrokers,
) -> None:
    queue = brokers.add(A, count=900)
    left = size_at(place(), QueueSlice(A, 500, 900))

    queue.expire_to(500)

    assert size_at(place(), QueueSlice(A, 0, 900)) == left > 0
    assert size_at(place(), QueueSlice(A, 0, 500)) == 0.0
    assert size_at(place(), QueueSlice(A, 950, 960)) == 0.0  # made anew, and shorter


def test_the_size_of_messages_whose_topic_is_gone_is_nothing(brokers: FakeBrokers) -> None:
    asking = place()

    assert size_at(asking, QueueSlice(A, 0, 500)) == 0.0
    assert asking.know([A, KEPT]) == [KEPT]
    brokers.queues_there.clear()  # no address is known any more
    assert size_at(asking, QueueSlice(A, 0, 500)) == 0.0


def test_a_broker_that_is_away_is_no_answer_to_how_large_messages_are(
    brokers: FakeBrokers,
) -> None:
    """Else the tasks would be cut otherwise than those before."""
    brokers.add(A, count=9)
    brokers.away.add("broker-a")

    with pytest.raises(BrokerNotFound):
        size_at(place(), QueueSlice(A, 0, 9))


def test_no_more_is_looked_at_than_it_takes(own: FakeBrokers) -> None:
    own.add(A, count=10_000)

    size_at(place(), QueueSlice(A, 0, 10_000))

    assert own.asked == [("entries", A, 0, SAMPLED_ENTRIES)]
    assert SAMPLED_RECORDS < SAMPLED_ENTRIES


# Entries


def offsets_of(each: QueueSlice, **options: Any) -> list[int]:
    return [
        first + number
        for first, content in place(**options).entries(each)
        for number in range(len(content) // 20)
    ]


def test_entries_that_are_gone_are_passed_over_or_an_error(brokers: FakeBrokers) -> None:
    queue = brokers.add(A, count=10)
    queue.expire_to(4)

    assert offsets_of(QueueSlice(A, 2, 8), failOnDataLoss="false") == [4, 5, 6, 7]
    with pytest.raises(DataLost, match=r"messages 2 to 4 of t broker-a/0 are gone .*=false"):
        offsets_of(QueueSlice(A, 2, 8))


def test_so_are_entries_behind_the_end_and_those_of_a_topic_that_is_gone(
    brokers: FakeBrokers,
) -> None:
    brokers.add(A, count=5)
    gone = MessageQueue("broker-a", 0, "gone")

    assert offsets_of(QueueSlice(A, 3, 8), failOnDataLoss="false") == [3, 4]
    assert offsets_of(QueueSlice(gone, 0, 8), failOnDataLoss="false") == []
    with pytest.raises(DataLost, match="messages 5 to 8 of t broker-a/0 are gone"):
        offsets_of(QueueSlice(A, 3, 8))
    with pytest.raises(DataLost, match="messages 0 to 8 of gone broker-a/0 are gone"):
        offsets_of(QueueSlice(gone, 0, 8))


# Which queues there are


def test_a_queue_that_is_assigned_and_not_there_is_told_with_those_that_are(
    own: FakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    own.add(A, MessageQueue("broker-a", 1, "t"), B)

    with pytest.raises(ConfigError) as error:
        place(assign=ASSIGNED).queues()
    lenient = place(assign=ASSIGNED, failOnDataLoss="false")
    found = [lenient.queues(), lenient.queues()]

    text = "assign: there is no t broker-a/99; there is t broker-a/0,1, t broker-b/0"
    assert str(error.value) == text
    assert found == [[A], [A]]
    assert [each.getMessage() for each in caplog.records] == [f"names_unknown {text}"]


def test_a_queue_that_was_read_before_is_not_misspelt(own: FakeBrokers) -> None:
    """What became of it is told as a loss."""
    own.add(A)

    known = [A, MessageQueue("broker-a", 99, "t")]

    assert place(assign=ASSIGNED).queues(known) == [A]


def test_brokers_of_assigned_queues_are_waited_for(own: FakeBrokers) -> None:
    own.add(A)
    own.add(B)
    own.away.add("broker-b")
    assign = '{"t": {"broker-a": [0], "broker-b": [0]}}'

    with pytest.raises(BrokerNotFound, match=r"after 0\.01 s \(brokerWaitMs\): broker-b is away"):
        place(0.01, assign=assign).queues([A, B])


def test_a_topic_that_was_read_and_is_gone_stops_a_query_only_if_it_matters(
    own: FakeBrokers,
) -> None:
    with pytest.raises(TopicNotFound):
        place().queues([A])
    with pytest.raises(TopicNotFound):  # a wrong name
        place(failOnDataLoss="false").queues()

    assert place(failOnDataLoss="false").queues([A]) == []


def test_a_topic_is_not_gone_because_its_broker_is_away(own: FakeBrokers) -> None:
    own.add(A)
    own.away.add("broker-a")

    with pytest.raises(BrokerNotFound):
        place(failOnDataLoss="false").queues([A])


def test_a_topic_that_is_gone_is_told_once(
    own: FakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    asking = place()

    with caplog.at_level(logging.WARNING):
        assert [asking.know([A]), asking.know([A])] == [[], []]
    own.add(A)

    assert asking.know([A]) == [A]
    assert [each.getMessage() for each in caplog.records] == ["topic_gone topic=t"]


# Topics of a pattern


def test_topics_that_a_pattern_no_longer_finds_are_asked_about_no_more(
    own: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["t", "u"]

    async def matching(_place: BrokerPlace, _pattern: str) -> list[str]:
        return names

    monkeypatch.setattr(BrokerPlace, "_matching", matching)
    own.add(A, MessageQueue("broker-a", 0, "u"))
    asking = BrokerPlace(parse_source({"subscribePattern": "[tu]"}))
    asking.queues()
    assert own.forgotten == []

    names.remove("u")
    asking.queues()

    assert own.forgotten == ["u"]
