"""A listener that commits what batches reached, and says how far behind they are."""

import json
import logging
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from emberq.errors import CallTimeout
from emberq.model.queue import MessageQueue
from emberq.spark.offsets import Offsets, write_offsets
from emberq.spark.options import ConnectionOptions, SourceOptions
from emberq.spark.query_metrics import QueryMetrics
from emberq.spark.tracking import NAMED_MAX, OffsetTracker
from tests.unit.spark.fake_brokers import FakeBrokers, linked

A, A1, B = (MessageQueue(name, number, "t") for name, number in (("a", 0), ("a", 1), ("b", 0)))


@pytest.fixture
def brokers() -> Iterator[FakeBrokers]:
    made = FakeBrokers()
    made.add(A, A1, count=100)
    with linked(made):
        yield made


def tracker(query: str | None = None, metrics: QueryMetrics | None = None) -> OffsetTracker:
    return OffsetTracker(SourceOptions(connection=ConnectionOptions(), group="g"), query, metrics)


def progress(
    end: Offsets, latest: Offsets | None = None, *, name: str = "lake", is_waiting: bool = False
) -> Any:
    """Of a batch that took two seconds, or of a query that waits for one."""
    parts = {"triggerExecution": 2_000} | ({} if is_waiting else {"addBatch": 1_500})
    source = SimpleNamespace(
        endOffset=_text(end), latestOffset="" if latest is None else _text(latest)
    )
    return SimpleNamespace(
        name=name,
        batchId=3,
        numInputRows=0 if is_waiting else 50,
        batchDuration=2_000,
        durationMs=parts,
        sources=[source],
    )


def _text(offsets: Offsets) -> str:
    return json.dumps(write_offsets(offsets))


def test_a_batch_has_lag_by_queue_and_pace(
    brokers: FakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    one = tracker()

    with caplog.at_level(logging.INFO, "emberq.spark.tracking"):
        one.take(progress({A: 40, A1: 100}, {A: 100, A1: 100}))

    assert (one.lag, one.lag_by_queue) == (60, {A: 60, A1: 0})
    assert (one.rows, one.batch_s, one.rows_per_s) == (50, 2.0, 25.0)
    assert brokers.committed == {A: 40, A1: 100}
    assert caplog.messages == [
        "batch_done query=lake batch=3 rows=50 seconds=2.000 rows_per_s=25 lag=60 behind=t a/0: 60"
    ]


def test_the_line_of_a_batch_names_those_that_are_furthest_behind(
    brokers: FakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    queues = [MessageQueue("a", number, "t") for number in range(NAMED_MAX + 5)]
    brokers.add(*queues, count=100)

    with caplog.at_level(logging.INFO, "emberq.spark.tracking"):
        tracker().take(progress({q: 50 - q.queue_id for q in queues}, dict.fromkeys(queues, 100)))

    behind = caplog.messages[0].partition("behind=")[2]
    assert behind.startswith("t a/14: 64, t a/13: 63, ")
    assert behind.endswith(", t a/5: 55, and 5 more")


def test_queues_that_are_gone_keep_no_others_from_their_offsets(brokers: FakeBrokers) -> None:
    """Spark keeps them in the offsets of a query as long as it lives."""
    one = tracker()

    one.take(progress({A: 40, B: 7}, {A: 100}))

    assert brokers.committed == {A: 40}
    assert one.lag_by_queue == {A: 60, B: 0}


def test_where_spark_does_not_say_what_is_there_all_is_committed(brokers: FakeBrokers) -> None:
    tracker().take(progress({A: 40, A1: 7}))

    assert brokers.committed == {A: 40, A1: 7}


def test_no_query_fails_by_brokers_that_do_not_answer(
    brokers: FakeBrokers, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def commit(*_: Any) -> None:
        raise CallTimeout("no answer in time")

    monkeypatch.setattr(brokers, "commit", commit)
    one = tracker()

    one.take(progress({A: 40}, {A: 100}))

    assert one.lag == 60
    assert "offsets_not_committed group=g reason=no answer in time" in caplog.text


def test_another_query_of_the_session_does_not_count(brokers: FakeBrokers) -> None:
    one = tracker("lake")

    one.take(progress({A: 40}, name="other"))

    assert (one.lag, brokers.committed) == (None, {})


class Noted:
    """Metrics that can be looked at."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float, dict[str, str]]] = []

    def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
        self.told.append((name, amount, dict(labels)))

    def time(self, name: str, seconds: float, labels: Mapping[str, str]) -> None:
        self.told.append((name, seconds, dict(labels)))

    def gauge(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        self.told.append((name, value, dict(labels)))


def test_a_batch_is_measured_with_its_rows_its_time_and_what_each_queue_has_left(
    brokers: FakeBrokers,
) -> None:
    noted, of_query = Noted(), {"group": "g", "query": "lake"}

    tracker(metrics=noted).take(progress({A: 40, A1: 100}, {A: 100, A1: 100}))

    of_topic = {**of_query, "topic": "t", "broker": "a"}
    assert noted.told == [
        ("query_batches", 1, of_query),
        ("query_rows", 50, of_query),
        ("query_batch_seconds", 2.0, of_query),
        ("query_lag", 60, {**of_topic, "queue": "0"}),
        ("query_lag", 0, {**of_topic, "queue": "1"}),
    ]


def test_a_query_that_waits_has_done_no_batch_and_may_be_behind(brokers: FakeBrokers) -> None:
    noted = Noted()

    tracker(metrics=noted).take(progress({A: 40}, {A: 100}, is_waiting=True))

    assert [(name, value) for name, value, _ in noted.told] == [("query_lag", 60)]


def test_metrics_that_fail_keep_no_offsets_from_being_committed(
    brokers: FakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Noted):
        def gauge(self, name: str, value: float, labels: Mapping[str, str]) -> None:
            raise OSError("no room")

    one = tracker(metrics=Broken())
    for _ in range(2):
        one.take(progress({A: 40}, {A: 100}))

    assert brokers.committed == {A: 40}
    assert caplog.text.count("metrics_failed") == 1
