"""`emberq.broker.timer_metrics`: how many wait, and how fast they come and go."""

from emberq.broker.timer_metrics import TimerMetrics
from emberq.protocol.bodies.timers import WaitingCount
from emberq.protocol.fastjson import write_json


def test_counts_are_kept_by_topic_and_every_change_is_a_version() -> None:
    metrics = TimerMetrics(None, 100)
    changes: list[int] = []
    metrics.on_change(lambda: changes.append(1))

    metrics.add("a", 1, 200)
    metrics.add("b", 1, 300)
    metrics.add("a", -1, 400)

    table = metrics.table()
    assert table.counts == {
        "a": WaitingCount(count=0, changed_at_ms=400),
        "b": WaitingCount(count=1, changed_at_ms=300),
    }
    assert table.data_version is not None
    assert (table.data_version.counter, table.data_version.timestamp_ms) == (3, 400)
    assert len(changes) == 3


def test_a_table_is_taken_up_again() -> None:
    metrics = TimerMetrics()
    metrics.add("a", 2, 200)

    again = TimerMetrics(metrics.table(), 900)
    again.add("a", 1, 1000)
    again.forget("a")
    again.add("b", 1, 1100)

    assert again.table().counts == {"b": WaitingCount(count=1, changed_at_ms=1100)}


def test_the_file_is_written_as_official_brokers_do() -> None:
    metrics = TimerMetrics(None, 100)
    metrics.add("T1", 2, 200)

    assert write_json(metrics.table()) == (
        b'{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":200},'
        b'"timingCount":{"T1":{"count":2,"timeStamp":200}}}'
    )


def test_rates_are_those_of_the_last_sample() -> None:
    metrics = TimerMetrics(None, 1_000)
    metrics.enqueued_count, metrics.dequeued_count = 30, 10

    metrics.sample(3_000)

    assert metrics.rates == (15.0, 5.0)
    metrics.sample(3_000)  # a clock that stands still
    assert metrics.rates == (15.0, 5.0)
    metrics.sample(4_000)
    assert metrics.rates == (0.0, 0.0)


def test_a_correction_counts_from_where_it_began_not_from_what_has_happened_since() -> None:
    metrics = TimerMetrics(is_doubtful=True)
    metrics.add("a", 5, 100)
    metrics.add("right", 1, 100)
    before = metrics.counts()
    metrics.add("a", 1, 200)

    wrong = metrics.correct(before, {"a": 3, "right": 1, "new": 2}, 300)

    assert wrong == 2
    assert metrics.counts() == {"a": 4, "right": 1, "new": 2}
    assert not metrics.is_doubtful
