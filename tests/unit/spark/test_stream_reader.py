"""What the driver of a stream decides: where it starts, how far it goes, what it plans again."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from emberq.errors import BrokerNotFound, ConfigError, DataLost
from emberq.model.queue import MessageQueue
from emberq.spark.broker_place import BrokerPlace
from emberq.spark.offsets import Offsets
from emberq.spark.options import parse_stream
from emberq.spark.planning import QueueSlice
from emberq.spark.stream_reader import IDLE_REQUESTS_PER_S, QUIET_SHARE, Driver
from tests.unit.spark.fake_brokers import FakeBrokers, linked

A, A1, B = (MessageQueue(name, number, "t") for name, number in (("a", 0), ("a", 1), ("b", 0)))
NEW = MessageQueue("a", 0, "u")
KEPT = MessageQueue("a", 0, "kept")
LENIENT = {"failOnDataLoss": "false"}
PATTERN = {"subscribePattern": "[tu]"}


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBrokers]:
    monkeypatch.setattr("emberq.spark.stream_reader.ROUTES_EVERY_S", 0.0)
    made = FakeBrokers()
    made.add(KEPT)
    with linked(made):
        yield made


def query(**options: Any) -> Driver:
    """A process of a query's driver."""
    given = {"subscribe": "t", "retries": "0", "idlePollMs": "1", **options}
    chosen = parse_stream(given)
    return Driver(chosen, BrokerPlace(chosen), BrokerPlace(chosen, 0.05))


def ranges(driver: Driver, start: Offsets, end: Offsets) -> list[QueueSlice]:
    return [each for partition in driver.partitions(start, end) for each in partition]


def run(driver: Driver, start: Offsets) -> tuple[list[QueueSlice], Offsets]:
    """All batches until there is nothing new: what they read, and where they end."""
    read: list[QueueSlice] = []
    while (end := driver.next_end(start, is_all=False)) != start:
        read += ranges(driver, start, end)
        start = end
    return read, start


# Topics that are made anew, or gone


def test_a_topic_that_was_made_anew_is_read_from_its_first_message(
    brokers: FakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    """Also by a query that began at the end, and whatever another queue may take of a batch."""
    brokers.add(A, count=550)
    brokers.add(A1, count=1_000)
    driver = query(**LENIENT, maxOffsetsPerTrigger="200")

    with caplog.at_level(logging.WARNING):
        read, end = run(driver, {A: 900, A1: 0})

    assert [each.stop for each in read if each.queue == A][-1] == end[A] == 550
    assert sum(each.count for each in read if each.queue == A) == 550
    assert "t a/0 was read up to 900, but the queue ends at 550" in caplog.text


def test_a_batch_of_it_that_is_planned_again_reads_the_same(brokers: FakeBrokers) -> None:
    brokers.add(A, count=550)
    first = query(**LENIENT).next_end({A: 900}, is_all=False)

    assert first == {A: 0}
    assert ranges(query(**LENIENT), {A: 900}, first) == []
    # By an older release, which read in the batch that noticed it.
    assert ranges(query(**LENIENT), {A: 900}, {A: 550}) == [QueueSlice(A, 0, 550)]


def test_a_topic_that_was_made_anew_is_a_loss(brokers: FakeBrokers) -> None:
    brokers.add(A, count=550)

    with pytest.raises(DataLost, match="was read up to 900, but the queue ends at 550"):
        query().next_end({A: 900}, is_all=False)


def test_a_first_batch_that_is_planned_again_stays_empty(brokers: FakeBrokers) -> None:
    """It ended where the query found the end, and is started where it finds it now."""
    queue = brokers.add(A, count=100)
    driver = query(**LENIENT)
    start = driver.start()
    end = driver.next_end(start, is_all=False)
    queue.put(50)

    again = query(**LENIENT)

    assert start == end == {A: 100}
    assert ranges(again, again.start(), end) == []
    assert run(again, end) == ([QueueSlice(A, 100, 150)], {A: 150})


def test_messages_that_expired_fail_no_plan(brokers: FakeBrokers) -> None:
    """Tasks read, and tell what is gone."""
    brokers.add(A, count=900).expire_to(500)

    for options in ({}, LENIENT):
        driver = query(**options, maxBytesPerTrigger="1g", maxBytesPerPartition="1k")
        end = driver.next_end({A: 0}, is_all=False)

        assert end == {A: 900}
        assert sum(each.count for each in ranges(driver, {A: 0}, end)) == 900


def test_a_topic_that_is_gone_fails_no_plan_and_no_commit(brokers: FakeBrokers) -> None:
    driver = query(**LENIENT, consumerGroup="g")
    start = {A: 5}

    assert ranges(driver, start, {A: 9}) == [QueueSlice(A, 5, 9)]
    assert driver.next_end({A: 9}, is_all=False) == {A: 9}
    driver.commit({A: 9})
    assert driver.known_heads() == {}
    assert brokers.committed == {}


def test_a_broker_that_is_gone_for_good_keeps_no_query_from_its_commits(
    brokers: FakeBrokers,
) -> None:
    brokers.add(A, count=9)
    driver = query(**LENIENT, consumerGroup="g")

    end = driver.next_end({A: 5, B: 5}, is_all=False)
    driver.commit(end)

    assert end == {A: 9, B: 5}
    assert brokers.committed == {A: 9}


def test_offsets_of_a_topic_are_not_those_of_its_successor(brokers: FakeBrokers) -> None:
    """The batch before is done when this one has noticed that its topic was made anew."""
    brokers.add(A, count=55)
    brokers.add(A1, count=9)
    driver = query(**LENIENT, consumerGroup="g")
    before = {A: 90, A1: 5}

    end = driver.next_end(before, is_all=False)
    driver.commit(before)

    assert end == {A: 0, A1: 9}
    assert brokers.committed == {A1: 5}


# Queues that are new


def test_where_a_new_queue_begins_is_stored_before_it_is_read(brokers: FakeBrokers) -> None:
    """A batch that is planned again must not begin later, when messages have expired."""
    brokers.add(A, count=10)
    queue = brokers.add(NEW, count=10, first=3)
    first = query(subscribe="t,u").next_end({A: 5}, is_all=False)
    queue.expire_to(8)
    again = query(subscribe="t,u")

    assert first == {A: 10, NEW: 3}
    assert ranges(again, {A: 5}, first) == [QueueSlice(A, 5, 10)]
    assert run(again, first) == ([QueueSlice(NEW, 3, 13)], {A: 10, NEW: 13})


def test_a_new_queue_that_has_lost_messages_is_an_error_only_if_that_matters(
    brokers: FakeBrokers,
) -> None:
    brokers.add(A, count=10)
    brokers.add(A1, count=10, first=4)

    with pytest.raises(DataLost, match="t a/1 is new, but messages 0 to 4 of it are gone"):
        query().next_end({A: 10}, is_all=False)
    assert query(**LENIENT).next_end({A: 10}, is_all=False) == {A: 10, A1: 4}
    # Whoever names queues may add old ones.
    assign = '{"t": {"a": [0, 1]}}'
    named = parse_stream({"assign": assign, "retries": "0"})
    driver = Driver(named, BrokerPlace(named), BrokerPlace(named))
    assert driver.next_end({A: 10}, is_all=False) == {A: 10, A1: 4}


def test_a_new_topic_and_a_new_broker_may_have_a_history(brokers: FakeBrokers) -> None:
    brokers.add(A, count=10)
    brokers.add(B, NEW, count=10, first=4)

    end = query(subscribe="t,u").next_end({A: 10}, is_all=False)

    assert end == {A: 10, B: 4, NEW: 4}


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({"consumerGroup": "g"}, 6),
        ({"consumerGroup": "g", "startingOffsets": "group"}, 6),
        ({"startingTimestamp": "7"}, 7),
        ({"startingOffsetsByTimestamp": '{"t": 7}'}, 7),
        ({"consumerGroup": "g", "startingOffsets": "latest"}, 0),
        ({}, 0),
    ],
)
def test_a_broker_that_was_away_at_the_start_is_read_from_where_the_start_says(
    brokers: FakeBrokers, options: dict[str, str], first: int
) -> None:
    brokers.add(A, B, count=10)
    brokers.committed = {A: 5, B: 6}
    brokers.away.add("b")
    start = query(**options).start()
    brokers.away.clear()

    read, end = run(query(**options), start)

    assert [each for each in read if each.queue == B] == [QueueSlice(B, first, 10)]
    assert end == {A: 10, B: 10}


# A broker that is away


def test_a_run_that_ends_waits_for_the_brokers_of_its_checkpoint(brokers: FakeBrokers) -> None:
    brokers.add(A, B, count=10)
    brokers.away.add("b")
    driver = query()
    driver.freeze()

    with pytest.raises(BrokerNotFound, match=r"after 0\.05 s \(brokerWaitMs\): b is away"):
        driver.next_end({A: 5, B: 5}, is_all=False)
    brokers.away.clear()

    assert driver.next_end({A: 5, B: 5}, is_all=False) == {A: 10, B: 10}
    brokers.queues_there[A].put(5)
    assert driver.next_end({A: 10, B: 10}, is_all=False) == {A: 10, B: 10}


@pytest.fixture
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Routes are not asked for while a test runs, as between two looks at them."""
    monkeypatch.setattr("emberq.spark.stream_reader.ROUTES_EVERY_S", 1e9)


def test_a_query_goes_on_without_a_broker_that_goes_away_between_looks_at_routes(
    brokers: FakeBrokers, seldom: None, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.add(A, B, count=10)
    driver = query(**LENIENT, consumerGroup="g", startingOffsets="earliest")
    first = driver.next_end(driver.start(), is_all=False)
    brokers.queues_there[A].put(5)
    brokers.away.add("b")

    driver.commit(first)  # knows nothing of it yet
    end = driver.next_end(first, is_all=False)
    planned = ranges(driver, first, end)
    driver.commit(end)

    assert (first, end) == ({A: 10, B: 10}, {A: 15, B: 10})
    assert planned == [QueueSlice(A, 10, 15)]
    assert brokers.committed == {A: 15}
    assert "offsets_not_stored group=g" in caplog.text
    assert "broker_away" in caplog.text


def test_a_broker_that_is_too_busy_to_answer_is_left_out_for_the_moment_too(
    brokers: FakeBrokers, seldom: None
) -> None:
    brokers.add(A, B, count=10)
    driver = query(**LENIENT, startingOffsets="earliest")
    first = driver.next_end(driver.start(), is_all=False)
    brokers.queues_there[A].put(5)
    brokers.busy.add("b")

    assert driver.next_end(first, is_all=False) == {A: 15, B: 10}


def test_if_losses_matter_it_waits_and_fails(brokers: FakeBrokers, seldom: None) -> None:
    brokers.add(A, B, count=10)
    driver = query(startingOffsets="earliest")
    first = driver.next_end(driver.start(), is_all=False)
    brokers.away.add("b")

    with pytest.raises(BrokerNotFound, match=r"after 0\.05 s \(brokerWaitMs\)"):
        driver.next_end(first, is_all=False)


def test_a_query_waits_while_all_of_its_brokers_are_away(
    brokers: FakeBrokers, seldom: None
) -> None:
    brokers.add(A, count=10)
    driver = query(**LENIENT, startingOffsets="earliest")
    first = driver.next_end(driver.start(), is_all=False)
    brokers.away.add("a")

    with pytest.raises(BrokerNotFound, match=r"after 0\.05 s \(brokerWaitMs\)"):
        driver.next_end(first, is_all=False)


def test_starts_of_a_broker_that_was_away_are_forgotten_when_it_is_back(
    brokers: FakeBrokers,
) -> None:
    brokers.add(A, B, count=10)
    driver = query(**LENIENT, consumerGroup="g", startingOffsets="earliest")
    first = driver.next_end(driver.start(), is_all=False)
    brokers.away.add("b")
    driver.next_end(first, is_all=False)
    driver.commit(first)
    assert brokers.pins == {B: 0}

    brokers.away.clear()
    driver.next_end(first, is_all=False)
    driver.commit(first)

    assert brokers.pins == {}


# How often brokers are asked


class Clock:
    """Of the driver; it goes on when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("emberq.spark.stream_reader.time", made)
    return made


def idle(driver: Driver, start: Offsets, clock: Clock, until_s: float) -> int:
    """Have Spark ask again and again; how often it did."""
    looks = 0
    while clock.now_s < until_s:
        assert driver.next_end(start, is_all=False) == start
        looks += 1
    return looks


def test_messages_that_wait_for_more_keep_nobody_busy(brokers: FakeBrokers, clock: Clock) -> None:
    brokers.add(A, count=10)
    driver = query(minOffsetsPerTrigger="100", maxTriggerDelay="1h", idlePollMs="200")

    looks = idle(driver, {A: 0}, clock, clock.now_s + 10)
    brokers.queues_there[A].put(90)

    assert looks <= 51
    assert driver.next_end({A: 0}, is_all=False) == {A: 100}


def test_an_idle_stream_asks_an_official_broker_seldom_and_news_are_soon_found(
    clock: Clock,
) -> None:
    official = FakeBrokers(is_official=True)
    queues = [MessageQueue("a", number, "t") for number in range(8)]
    official.add(*queues, count=10)
    with linked(official):
        driver = query(idlePollMs="200")
        end = driver.next_end(dict.fromkeys(queues, 0), is_all=False)
        idle(driver, end, clock, clock.now_s + 10)
        official.asked_for_heads = 0

        looks = idle(driver, end, clock, clock.now_s + 60)
        asked = official.asked_for_heads
        official.queues_there[queues[0]].put(1)
        put_at_s = clock.now_s
        while driver.next_end(end, is_all=False) == end:
            pass

    assert looks >= 300  # Spark is never kept waiting
    assert len(queues) * asked <= IDLE_REQUESTS_PER_S * 60
    assert clock.now_s - put_at_s <= len(queues) / IDLE_REQUESTS_PER_S + 0.2


def test_a_stream_that_was_quiet_for_a_moment_looks_away_for_less(clock: Clock) -> None:
    official = FakeBrokers(is_official=True)
    queues = [MessageQueue("a", number, "t") for number in range(1_000)]
    official.add(*queues, count=1)
    with linked(official):
        driver = query(idlePollMs="200")
        end = driver.next_end(dict.fromkeys(queues, 0), is_all=False)
        idle(driver, end, clock, clock.now_s + 10)
        official.queues_there[queues[0]].put(1)
        put_at_s = clock.now_s
        while driver.next_end(end, is_all=False) == end:
            pass

    assert clock.now_s - put_at_s <= 10 * QUIET_SHARE + 0.2


def test_ours_are_asked_at_every_look(brokers: FakeBrokers, clock: Clock) -> None:
    brokers.add(A, A1, count=10)
    driver = query(idlePollMs="200")
    end = driver.next_end({A: 0, A1: 0}, is_all=False)

    brokers.asked_for_heads = 0
    looks = idle(driver, end, clock, clock.now_s + 10)

    assert looks == brokers.asked_for_heads


# Starts


@pytest.mark.parametrize("options", [{}, {"startingOffsets": "group"}])
def test_messages_that_expired_behind_its_group_are_told_to_a_new_query(
    brokers: FakeBrokers, caplog: pytest.LogCaptureFixture, options: dict[str, str]
) -> None:
    brokers.add(A, count=100).expire_to(30)
    brokers.committed[A] = 10

    with pytest.raises(DataLost, match="messages 10 to 30 of t a/0 are gone"):
        query(consumerGroup="g", **options).start()
    with caplog.at_level(logging.WARNING):
        assert query(consumerGroup="g", **options, **LENIENT).start() == {A: 30}
    assert "messages_gone messages 10 to 30 of t a/0 are gone" in caplog.text


def test_a_broker_that_is_found_later_is_read_from_its_group_on_whatever_has_expired(
    brokers: FakeBrokers,
) -> None:
    """So its tasks tell what is gone."""
    brokers.add(A, B, count=10)
    brokers.committed = {A: 5, B: 2}
    brokers.away.add("b")
    start = query(consumerGroup="g").start()
    brokers.away.clear()
    brokers.queues_there[B].expire_to(6)

    read, _ = run(query(consumerGroup="g"), start)

    assert [each for each in read if each.queue == B] == [QueueSlice(B, 2, 10)]


# Starts that were written down


def test_a_start_that_a_query_left_behind_puts_nothing_off(
    brokers: FakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.add(A, A1, count=1_000)
    query(consumerGroup="g", startingOffsets="latest").start()
    assert brokers.pins == {A: 1_000, A1: 1_000}

    with caplog.at_level(logging.WARNING):
        start = query(consumerGroup="g", startingOffsets="earliest").start()

    assert start == brokers.pins == {A: 0, A1: 0}
    assert [each.getMessage() for each in caplog.records] == [
        "start_of_group group=g queues=2: begins at 0 of t a/0, and not at 1000 as written down "
        "before"
    ]


def test_a_first_batch_begins_again_where_it_was_written_down_and_says_so(
    brokers: FakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    queue = brokers.add(A, count=1_000)
    options = {"consumerGroup": "g", "startingOffsets": "latest"}
    first = query(**options).start()
    queue.put(500)

    with caplog.at_level(logging.WARNING):
        again = query(**options).start()

    assert first == again == {A: 1_000}
    assert [each.getMessage() for each in caplog.records] == [
        "start_of_group group=g queues=1: begins at 1000 of t a/0, as written down before its "
        "first batch, and not at 1500"
    ]


def test_it_does_so_though_messages_have_expired(brokers: FakeBrokers) -> None:
    """That they are gone is for its tasks to tell."""
    queue = brokers.add(A, count=1_000)
    options = {"consumerGroup": "g", "startingOffsets": "earliest"}
    query(**options).start()

    queue.expire_to(300)

    assert query(**options).start() == {A: 0}


@pytest.mark.parametrize("options", [{}, {"startingOffsets": "group"}])
def test_a_new_topic_beside_written_starts_keeps_no_query_from_starting(
    brokers: FakeBrokers, options: dict[str, str]
) -> None:
    brokers.add(A, count=10)
    brokers.committed[A] = 5
    options = {"subscribe": "t,u", "consumerGroup": "g", **options}
    brokers.pins[A] = 5
    brokers.add(NEW, count=7)

    assert query(**options).start() == {A: 5, NEW: 0}


def test_a_group_that_was_forgotten_behind_its_start_keeps_it(brokers: FakeBrokers) -> None:
    brokers.add(A, count=10)
    brokers.pins[A] = 5

    assert query(consumerGroup="g", startingOffsets="group").start() == {A: 5}
    brokers.pins.clear()
    with pytest.raises(ConfigError, match="the group has no offsets here"):
        query(consumerGroup="g", startingOffsets="group").start()


def test_written_starts_are_forgotten_behind_the_first_batch_that_is_done(
    brokers: FakeBrokers,
) -> None:
    brokers.add(A, count=10)
    driver = query(consumerGroup="g", startingOffsets="earliest")
    end = driver.next_end(driver.start(), is_all=False)
    assert brokers.pins == {A: 0}

    driver.commit(end)

    assert (brokers.pins, brokers.committed) == ({}, {A: 10})


def test_queues_of_a_first_batch_whose_broker_is_away_when_it_is_planned_again_are_waited_for(
    brokers: FakeBrokers,
) -> None:
    brokers.add(A, B, count=10)
    options = {"consumerGroup": "g", "startingOffsets": "latest"}
    query(**options).start()
    for queue in (A, B):
        brokers.queues_there[queue].put(5)
    brokers.away.add("b")
    again = query(**options)
    start = again.start()
    brokers.away.clear()

    planned = ranges(again, start, {A: 15, B: 15})

    assert start == {A: 10}
    assert planned == [QueueSlice(A, 10, 15), QueueSlice(B, 10, 15)]


# Names


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"startingOffsets": '{"t": {"a": {"9": 0}}}'},
            "startingOffsets: there is no t a/9; there is t a/0",
        ),
        (
            {"startingOffsetsByTimestamp": '{"typo": 5}'},
            "startingOffsetsByTimestamp: there is no typo; there is t a/0",
        ),
    ],
)
def test_a_start_that_names_what_is_not_there_is_an_error(
    brokers: FakeBrokers,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, str],
    text: str,
) -> None:
    brokers.add(A, count=10)

    with pytest.raises(ConfigError) as error:
        query(**options).start()
    assert query(**options, **LENIENT).start() == {A: 0}

    assert str(error.value) == text
    assert [each.getMessage() for each in caplog.records] == [f"names_unknown {text}"]
