"""The ledger of the Spark sink on real brokers, of which one is away or none makes topics, and
batches whose driver is gone."""

import asyncio
import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from emberq import Producer
from emberq.client.aio import transactions
from emberq.client.aio.client import Client
from emberq.client.aio.producer import Producer as AioProducer
from emberq.client.core.message import Message, SendStatus
from emberq.errors import (
    BrokerError,
    BrokerNotFound,
    ClientError,
    MessageIllegal,
    MessageRefused,
    TopicNotFound,
)
from emberq.protocol.headers.transactions import EndTransaction
from emberq.spark import ledger_topic, links, row_sending, transactional_delivery
from emberq.spark.batch_lease import BatchLease, LeaseLost
from emberq.spark.batch_ledger import CommitDecision
from emberq.spark.ledger_place import LEDGER_TOPIC
from emberq.spark.ledger_topic import LedgerTopic
from emberq.spark.row_sending import Task
from emberq.spark.sink import _delivery
from emberq.spark.sink_options import parse_sink
from emberq.spark.staged_halves import Staged, parts_of
from emberq.spark.transactional_delivery import IN_FLIGHT_MAX, TransactionalDelivery, _Batches
from tests.spark.cluster import Cluster, running_cluster, until
from tests.spark.two_brokers import TwoBrokers, running_two_brokers
from tests.support import waiting
from tests.support.topic_content import bodies_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

AT_ONCE = {"retries": "0", "brokerWaitMs": "0"}


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[TwoBrokers]:
    with running_two_brokers(tmp_path) as running:
        yield running


@pytest.fixture
def closed_cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, autoCreateTopicEnable="false") as running:
        yield running


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """For tests that do nothing to the broker; each has a `name` for its topic and its query."""
    with running_cluster(tmp_path_factory.mktemp("shared")) as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)[:60]


@pytest.fixture
def restarted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Forgets what this process knows of ledgers, as one that begins."""
    return lambda: monkeypatch.setattr(transactional_delivery, "_deliveries", {})


def rows(bodies: Sequence[str], **columns: Sequence[Any]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"body": list(bodies), **columns})])


def sink(name_server: str, **options: str) -> TransactionalDelivery:
    given = {"nameServer": name_server, "delivery": "transactional", **AT_ONCE, **options}
    return TransactionalDelivery(parse_sink(given))


def counted(name_server: str, topic: str) -> Counter[str]:
    return Counter(body for own in bodies_of(name_server, topic) for body in own)


def holders(name_server: str) -> set[str]:
    """Brokers that have a ledger and are there."""
    with Producer("lookers", name_server=name_server) as producer:
        try:
            return {queue.broker_name for queue in producer.queues_of(LEDGER_TOPIC)}
        except TopicNotFound:
            return set()


def test_while_the_ledger_is_away_no_query_makes_another_and_nothing_comes_twice(
    brokers: TwoBrokers, restarted: Any
) -> None:
    name_server, bodies = brokers.name_server, [f"{number:02}" for number in range(40)]
    topic = brokers.make("orders")
    keys = [f"key-{number}" for number in range(40)]
    first = sink(name_server, topic=topic, producerGroup="first")
    first.commit([first.write(rows(bodies, shardingKey=keys), Task("first", 0, 0))])
    assert holders(name_server) == {"broker-a"}

    brokers.kill("broker-a")
    until(lambda: holders(name_server) == set())
    restarted()
    for writer, batch in (("second", 0), ("first", 0), ("first", 1)):
        with pytest.raises(BrokerNotFound, match=r"broker-a has EMBERQ_SPARK_LEDGER.* is away"):
            sink(name_server, topic=topic).write(rows(["new"]), Task(writer, batch, 0))
    brokers.start("broker-a")
    until(lambda: holders(name_server) == {"broker-a"})
    again = sink(name_server, topic=topic, producerGroup="first")
    again.commit([again.write(rows(bodies, shardingKey=keys), Task("first", 0, 0))])

    assert holders(name_server) == {"broker-a"}
    assert counted(name_server, topic) == Counter(bodies)


def test_rows_that_name_their_topics_need_no_topic_that_makes_others(
    closed_cluster: Cluster,
) -> None:
    name_server = closed_cluster.name_server
    with Producer("makers", name_server=name_server) as producer:
        for topic in ("one", "two"):
            producer.create_topic(topic, queues=1, template_topic="DefaultCluster")
    delivery = sink(name_server)

    staged = delivery.write(rows(["a", "b"], topic=["one", "two"]), Task("query", 0, 0))
    delivery.commit([staged])

    assert [counted(name_server, topic) for topic in ("one", "two")] == [{"a": 1}, {"b": 1}]


def test_a_query_that_was_not_transactional_so_far_is_told_what_to_do_and_goes_on(
    closed_cluster: Cluster,
) -> None:
    name_server = closed_cluster.name_server
    with Producer("makers", name_server=name_server) as producer:
        producer.create_topic("one", queues=1, template_topic="DefaultCluster")
        delivery = sink(name_server, topic="one")
        with pytest.raises(BrokerNotFound, match="was not transactional so far"):
            delivery.write(rows(["a"]), Task("query", 7, 0))

        producer.create_topic(LEDGER_TOPIC, queues=1, template_topic="DefaultCluster")
    delivery.commit([delivery.write(rows(["a"]), Task("query", 7, 0))])

    assert counted(name_server, "one") == {"a": 1}


# A topic on one of two brokers


@pytest.fixture
def begun_anew(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Forgets what this process knows of clusters, as one that begins."""

    def forget() -> None:
        monkeypatch.setattr(links, "_links", {})
        monkeypatch.setattr(row_sending, "_producers", {})
        monkeypatch.setattr(transactional_delivery, "_deliveries", {})

    return forget


@pytest.mark.parametrize("delivery", ["idempotent", "transactional"])
def test_rows_of_a_topic_whose_only_broker_is_away_go_to_no_other(
    brokers: TwoBrokers, begun_anew: Any, delivery: str
) -> None:
    name_server, bodies = brokers.name_server, [f"{number:02}" for number in range(40)]
    brokers.kill("broker-b")
    with Producer("one", name_server=name_server) as producer:
        until(lambda: {each.broker_name for each in producer.queues_of("TBW102")} == {"broker-a"})
        producer.create_topic("orders", queues=2)
    brokers.start("broker-b")
    given = {"nameServer": name_server, "topic": "orders", "delivery": delivery, **AT_ONCE}

    def write() -> None:
        begun_anew()
        one = _delivery(parse_sink(given))
        one.commit([one.write(rows(bodies), Task("query", 0, 0))])

    write()
    brokers.kill("broker-a")
    until(lambda: _holders_of(name_server, "orders") == set())
    with pytest.raises(BrokerNotFound, match=r"broker that is there has the topic orders|is away"):
        write()
    assert _holders_of(name_server, "orders") == set()  # no other broker has made it

    brokers.start("broker-a")
    until(lambda: _holders_of(name_server, "orders") == {"broker-a"})
    write()

    assert counted(name_server, "orders") == Counter(bodies)


def _holders_of(name_server: str, topic: str) -> set[str]:
    with Producer("lookers", name_server=name_server) as producer:
        try:
            return {queue.broker_name for queue in producer.queues_of(topic)}
        except TopicNotFound:
            return set()


@pytest.mark.parametrize("delivery", ["idempotent", "transactional"])
def test_a_topic_that_nobody_made_is_named(brokers: TwoBrokers, delivery: str) -> None:
    given = {"nameServer": brokers.name_server, "delivery": delivery, **AT_ONCE}
    plain = _delivery(parse_sink({**given, "delivery": "at-least-once", "topic": "made"}))
    plain.write(rows(["a"]), Task("query", 0, 0))  # at least once topics are made

    with pytest.raises(BrokerNotFound, match=r"has the topic orders\..* make it"):
        _delivery(parse_sink({**given, "topic": "orders"})).write(rows(["a"]), Task("w", 0, 0))
    assert set(counted(brokers.name_server, "made")) == {"a"}


# Tasks that fail


class Halves:
    """Half messages of this process: those that are stored, and those that were ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stored: set[int] = set()
        self.rolled_back: set[int] = set()
        self.refused: str | None = None  # the body that no broker takes
        self.has_some = threading.Event()
        stage_one, end = _Batches._stage_one, _Batches._end

        async def staging(batches: _Batches, queue: Any, message: Message) -> tuple[int, int]:
            if message.body.decode() == self.refused:
                await waiting.until(lambda: len(self.stored) == IN_FLIGHT_MAX - 1)
                raise MessageIllegal(13, "not this one", "broker-a")
            place = await stage_one(batches, queue, message)
            self.stored.add(place[0])
            self.has_some.set()
            return place

        async def ending(
            batches: _Batches, queue: Any, log_offset: int, half_offset: int, is_commit: bool
        ) -> None:
            await end(batches, queue, log_offset, half_offset, is_commit)
            assert not is_commit
            self.rolled_back.add(log_offset)

        monkeypatch.setattr(_Batches, "_stage_one", staging)
        monkeypatch.setattr(_Batches, "_end", ending)


def test_what_a_failed_task_has_on_its_way_is_called_off_and_taken_back(
    shared_cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(shared_cluster.name_server, name)
    halves = Halves(monkeypatch)

    def failing() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"body": ["a"] * 100})
        yield pa.RecordBatch.from_pydict({"body": ["b"] * 4_000})
        assert halves.has_some.wait(10)
        raise ValueError("upstream")

    with pytest.raises(ValueError, match="upstream"):
        sink(shared_cluster.name_server, topic=name).write(failing(), Task(name, 0, 0))

    assert 0 < len(halves.stored) < 4_100
    assert halves.rolled_back == halves.stored


def test_a_queue_that_fails_half_way_leaves_nothing_open(
    shared_cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(shared_cluster.name_server, name)
    halves = Halves(monkeypatch)
    halves.refused = "0001"
    bodies = [f"{number:04}" for number in range(IN_FLIGHT_MAX)]

    with pytest.raises(MessageIllegal, match="not this one"):
        sink(shared_cluster.name_server, topic=name).write(rows(bodies), Task(name, 0, 0))

    assert len(halves.stored) == IN_FLIGHT_MAX - 1
    assert halves.rolled_back == halves.stored


def test_a_roll_back_that_fails_does_not_hide_why_the_task_failed(
    shared_cluster: Cluster,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    make(shared_cluster.name_server, name)
    batches = [{"body": ["a"]}, {"body": ["b"]}, {"body": [None]}]

    may_end = asyncio.Event()

    async def never(batches: _Batches, *place: Any) -> None:
        await may_end.wait()

    monkeypatch.setattr(_Batches, "_end", never)
    monkeypatch.setattr(row_sending, "CALL_OFF_MAX_S", 0.1)
    delivery = sink(shared_cluster.name_server, topic=name)
    link, _ = delivery._batches()
    monkeypatch.setattr(links, "CALL_MAX_S", 0.3)
    with pytest.raises(MessageRefused, match="body"):
        delivery.write(map(pa.RecordBatch.from_pydict, batches), Task(name, 0, 0))

    assert "halves_left_open reason=name servers and brokers have not answered" in caplog.text
    link.on_loop(may_end.set)


# Behind the decision

AGAIN = {"retries": "3"}
PUT_OFF = [
    (1, "OS page cache busy, please try another machine"),
    (1, "UNKNOWN_ERROR"),
    (14, "Service not available now."),
]


class Refusals:
    """What brokers answer to ends, by their number; all others they carry out."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, by_number: dict[int, tuple[int, str]]
    ) -> None:
        self.ends = 0
        call = Client.call_broker

        async def answering(
            client: Client, name: str, header: Any, *given: Any, **more: Any
        ) -> Any:
            if isinstance(header, EndTransaction):
                self.ends += 1
                if (refusal := by_number.get(self.ends)) is not None:
                    code, remark = refusal
                    raise BrokerError(code, remark, name)
            return await call(client, name, header, *given, **more)

        monkeypatch.setattr(Client, "call_broker", answering)


def test_ends_that_a_broker_puts_off_are_sent_again(
    shared_cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(shared_cluster.name_server, name)
    delivery = sink(shared_cluster.name_server, topic=name, **AGAIN)
    bodies = [f"{number:04}" for number in range(50)]
    staged = delivery.write(rows(bodies), Task(name, 0, 0))
    Refusals(monkeypatch, dict(zip((20, 45, 70), PUT_OFF, strict=True)))

    delivery.commit([staged])

    assert bodies_of(shared_cluster.name_server, name) == [bodies]


def test_ends_that_a_broker_refuses_for_good_fail_at_once(
    shared_cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(shared_cluster.name_server, name)
    delivery = sink(shared_cluster.name_server, topic=name, **AGAIN)
    staged = delivery.write(rows(["a"]), Task(name, 0, 0))
    refusals = Refusals(monkeypatch, {1: (1, "Find prepared transaction message failed")})

    with pytest.raises(BrokerError, match="Find prepared"):
        delivery.commit([staged])

    assert refusals.ends == 1


def test_a_decision_that_is_not_safe_in_time_is_written_again(
    shared_cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(shared_cluster.name_server, name)
    delivery = sink(shared_cluster.name_server, topic=name, **AGAIN)
    staged = delivery.write(rows(["a"]), Task(name, 0, 0))
    send, tags = AioProducer.send, list[str]()

    async def slow_once(producer: Any, message: Message, **how: Any) -> Any:
        result = await send(producer, message, **how)
        tags.append(message.tags or "")
        is_first = tags.count(message.tags or "") == 1
        return replace(result, status=SendStatus.FLUSH_DISK_TIMEOUT) if is_first else result

    monkeypatch.setattr(AioProducer, "send", slow_once)
    delivery.commit([staged])

    assert tags == ["part", "part", "commit", "commit", "done", "done"]
    assert counted(shared_cluster.name_server, name) == {"a": 1}


def test_a_batch_that_is_visible_has_not_failed_because_that_is_not_written_down(
    shared_cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(shared_cluster.name_server, name)
    delivery = sink(shared_cluster.name_server, topic=name)

    async def away(ledger: LedgerTopic, *what: Any) -> None:
        raise BrokerNotFound("broker-a is away")

    monkeypatch.setattr(LedgerTopic, "note_done", away)
    delivery.commit([delivery.write(rows(["a"]), Task(name, 0, 0))])

    assert counted(shared_cluster.name_server, name) == {"a": 1}


def test_a_stream_that_went_back_in_its_batches_is_told_what_it_has_lost(
    shared_cluster: Cluster, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    make(shared_cluster.name_server, name)
    delivery = sink(shared_cluster.name_server, topic=name)

    for bodies in (["a", "b"], ["a", "b"], ["c"]):
        delivery.commit([delivery.write(rows(bodies), Task(name, 0, 0))])

    [told] = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert told == (
        f"batch_is_another {name}-0 was committed with 2 rows for {name}, "
        f"and this write has 1 rows for {name}: none of these is written"
    )
    assert counted(shared_cluster.name_server, name) == {"a": 1, "b": 1}


# Drivers that are gone, and clocks that differ


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Cluster]:
    """A broker that soon asks what became of half messages, and gives them up after five times."""
    keys = {"transactionTimeOut": "500", "transactionCheckInterval": "1000"}
    with running_cluster(tmp_path, **keys, transactionCheckMax="5") as running:
        yield running


def make(name_server: str, topic: str, queues: int = 1) -> None:
    with Producer("makers", name_server=name_server) as producer:
        producer.create_topic(topic, queues=queues, template_topic="DefaultCluster")


def decided(delivery: TransactionalDelivery, staged: Staged) -> CommitDecision:
    """As by a driver that dies behind its decision."""
    link, known = delivery._batches()
    key, ledger = staged.batch_key, known.ledger
    decision = link.wait(
        ledger.commit(key, staged.writes, list(parts_of([staged])), Counter[str]())
    )
    found = link.wait(ledger.outcome_after(key, decision.id))
    assert found.commit is not None
    return found.commit


def claimed(
    delivery: TransactionalDelivery, batch_key: str, commit: CommitDecision, lease_s: float
) -> None:
    """As by a process that is asked when the driver has not worked on it for long."""
    link, known = delivery._batches()
    progress = link.wait(known.ledger.progress(batch_key, commit, lease_s))
    until(lambda: time.time() * 1000 - progress.worked_at_ms > lease_s * 1000)
    assert link.wait(known.ledger.claim(batch_key, commit, 0, lease_s))


def test_a_large_batch_is_finished_however_few_of_its_messages_a_broker_asks_about_in_time(
    asking: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactional_delivery, "LEASE_S", 1.0)
    monkeypatch.setattr(transactions, "CHECKS_WAITING_MAX", 2)
    make(asking.name_server, "orders", queues=4)
    delivery = sink(asking.name_server, topic="orders")
    bodies = [f"{number:04}" for number in range(3000)]

    decided(delivery, delivery.write(rows(bodies), Task("query", 0, 0)))

    until(lambda: len(counted(asking.name_server, "orders")) == len(bodies))
    assert counted(asking.name_server, "orders") == Counter(bodies)


def test_of_those_who_would_finish_a_batch_the_first_does(asking: Cluster) -> None:
    make(asking.name_server, "orders")
    delivery = sink(asking.name_server, topic="orders")
    commit = decided(delivery, delivery.write(rows(["a"]), Task("query", 0, 0)))
    link, known = delivery._batches()

    def claim(lease_s: float) -> bool:
        return link.wait(known.ledger.claim("query-0", commit, 0, lease_s))

    assert not claim(60.0)  # the driver has decided just now
    assert claim(0.0)
    assert not claim(60.0)


@pytest.fixture
def lease_s(monkeypatch: pytest.MonkeyPatch) -> float:
    """A short one."""
    monkeypatch.setattr(transactional_delivery, "OTHER_HANDS_LOOK_S", 0.05)
    monkeypatch.setattr(transactional_delivery, "LEASE_S", 1.5)
    return 1.5


def test_a_driver_waits_for_a_process_that_carries_its_batch_out(
    shared_cluster: Cluster,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    lease_s: float,
) -> None:
    make(shared_cluster.name_server, name)
    delivery = sink(shared_cluster.name_server, topic=name)
    staged = delivery.write(rows(["a", "b"]), Task(name, 0, 0))
    commit = decided(delivery, staged)
    link, known = delivery._batches()
    claimed(delivery, f"{name}-0", commit, lease_s)
    refusals = Refusals(monkeypatch, {})
    caplog.set_level(logging.INFO, logger=transactional_delivery.__name__)

    with ThreadPoolExecutor() as threads:
        driver = threads.submit(delivery.commit, [staged])
        until(lambda: f"batch_in_other_hands batch={name}-0" in caplog.text or driver.done())
        assert refusals.ends == 0  # so no half message is ended twice at once
        link.wait(known._carry_out(f"{name}-0", commit, signed_at_s=time.monotonic()))
        driver.result(timeout=30)

    assert refusals.ends == 2
    assert counted(shared_cluster.name_server, name) == {"a": 1, "b": 1}


def test_a_driver_goes_on_when_the_process_that_has_its_batch_is_gone_as_well(
    shared_cluster: Cluster, name: str, caplog: pytest.LogCaptureFixture, lease_s: float
) -> None:
    caplog.set_level(logging.INFO, logger=transactional_delivery.__name__)
    make(shared_cluster.name_server, name)
    delivery = sink(shared_cluster.name_server, topic=name)
    staged = delivery.write(rows(["a"]), Task(name, 0, 0))
    claimed(delivery, f"{name}-0", decided(delivery, staged), lease_s)

    delivery.commit([staged])

    assert "batch_in_other_hands" in caplog.text
    assert counted(shared_cluster.name_server, name) == {"a": 1}


def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Half messages that are looked at before they are ended."""
    looked: list[int] = []
    is_visible = _Batches._is_visible

    async def looking(batches: _Batches, queue: Any, log_offset: int) -> bool:
        looked.append(log_offset)
        return await is_visible(batches, queue, log_offset)

    monkeypatch.setattr(_Batches, "_is_visible", looking)
    return looked


def test_a_driver_that_loses_its_lease_within_a_part_looks_at_what_is_left(
    shared_cluster: Cluster,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    make(shared_cluster.name_server, name)
    delivery = sink(shared_cluster.name_server, topic=name)
    staged = delivery.write(rows(["a", "b", "c"]), Task(name, 0, 0))
    looked, asked = looks(monkeypatch), itertools.count(1)

    def check(_: BatchLease) -> None:
        if next(asked) == 2:
            raise LeaseLost

    monkeypatch.setattr(BatchLease, "check", check)
    delivery.commit([staged])

    assert f"lease_lost batch={name}-0" in caplog.text
    assert len(looked) == 3
    assert counted(shared_cluster.name_server, name) == {"a": 1, "b": 1, "c": 1}


def test_a_driver_that_stood_still_looks_at_each_message_before_it_ends_it(
    shared_cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(shared_cluster.name_server, name)
    delivery = sink(shared_cluster.name_server, topic=name)
    staged = delivery.write(rows(["a", "b"]), Task(name, 0, 0))
    commit = decided(delivery, staged)
    link, known = delivery._batches()
    looked = looks(monkeypatch)
    long_ago_s = time.monotonic() - 2 * transactional_delivery.LEASE_S
    parts = list(parts_of([staged]))
    link.wait(known._carry_out(f"{name}-0", commit, parts, signed_at_s=long_ago_s))

    assert len(looked) == 2
    assert counted(shared_cluster.name_server, name) == {"a": 1, "b": 1}


def test_a_clock_that_is_behind_the_brokers_is_no_reason_to_wait(
    closed_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_server, now_ns = closed_cluster.name_server, time.time_ns
    with Producer("makers", name_server=name_server) as producer:
        producer.create_topic("one", queues=1, template_topic="DefaultCluster")
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() - 100 * 10**9)
    monkeypatch.setattr(ledger_topic, "VISIBLE_WITHIN_S", 5.0)
    delivery = sink(name_server, topic="one")

    for batch in range(2):
        delivery.commit([delivery.write(rows(["a"]), Task("query", batch, 0))])

    assert counted(name_server, "one") == {"a": 2}


def test_a_decision_that_is_not_found_in_time_is_named_and_stands(
    closed_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_server = closed_cluster.name_server
    with Producer("makers", name_server=name_server) as producer:
        producer.create_topic("one", queues=1, template_topic="DefaultCluster")
    delivery = sink(name_server, topic="one")
    staged = delivery.write(rows(["a"]), Task("query", 0, 0))

    async def nothing(self: LedgerTopic, key: str, end: Any) -> list[Any]:
        return []

    with monkeypatch.context() as patched:
        patched.setattr(ledger_topic, "VISIBLE_WITHIN_S", 0.05)
        patched.setattr(LedgerTopic, "_query", nothing)
        with pytest.raises(ClientError, match=r"about batch query-0 is stored in EMBERQ_SPARK_L"):
            delivery.commit([staged])
    delivery.commit([staged])

    assert counted(name_server, "one") == {"a": 1}
