import pytest

from emberq.broker.statistics.broker_statistics import BrokerStatistics
from emberq.broker.statistics.cells import Window
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.bodies.statistics import StatsItem

SYSTEM = "SYSTEM_TOPIC"


@pytest.fixture
def statistics() -> BrokerStatistics:
    return new_statistics()


def new_statistics(*, has_queue_figures: bool = True) -> BrokerStatistics:
    return BrokerStatistics(
        "C1",
        is_system_topic=lambda topic: topic == SYSTEM,
        has_queue_figures=has_queue_figures,
    )


def minute(statistics: BrokerStatistics, name: str, key: str) -> tuple[int, float, float]:
    view = statistics.view(name, key)
    assert view is not None
    return view.minute.sum, view.minute.per_second, view.minute.average_per_call


def some_traffic(statistics: BrokerStatistics) -> None:
    statistics.count_put("T", 0, 1, 100)
    statistics.count_put("T", 1, 4, 500, time_ms=9)
    statistics.count_put(SYSTEM, 0, 10, 1000)
    statistics.count_get("G", "T", 0, 3, 300, time_ms=4)
    statistics.count_get("G", "T", 1, 1, 100)
    statistics.count_get("H", SYSTEM, 1, 6, 100)
    statistics.count_send_back("G", "T")


def test_official_counters_are_sums_over_queues(statistics: BrokerStatistics) -> None:
    some_traffic(statistics)
    statistics.sample(Window.MINUTE, 0)

    assert minute(statistics, "TOPIC_PUT_NUMS", "T") == (5, 0.5, 2.5)
    assert minute(statistics, "TOPIC_PUT_SIZE", "T") == (600, 60.0, 300.0)
    assert minute(statistics, "TOPIC_PUT_LATENCY", "1@T") == (9, 0.9, 9.0)
    assert minute(statistics, "QUEUE_PUT_NUMS", "T@1") == (4, 0.4, 4.0)
    assert minute(statistics, "GROUP_GET_NUMS", "T@G") == (4, 0.4, 2.0)
    assert minute(statistics, "GROUP_GET_SIZE", "T@G") == (400, 40.0, 200.0)
    assert minute(statistics, "GROUP_GET_LATENCY", "0@T@G") == (4, 0.4, 4.0)
    assert minute(statistics, "QUEUE_GET_NUMS", "T@0@G") == (3, 0.3, 3.0)
    assert minute(statistics, "SNDBCK_PUT_NUMS", "T@G") == (1, 0.1, 1.0)
    assert minute(statistics, "BROKER_PUT_NUMS", "C1") == (15, 1.5, 0.0)
    assert minute(statistics, "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "C1") == (5, 0.5, 0.0)
    assert minute(statistics, "BROKER_GET_NUMS", "C1") == (10, 1.0, 0.0)
    assert minute(statistics, "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", "C1") == (4, 0.4, 0.0)
    assert statistics.put_tps("T") == 0.5
    assert statistics.get_tps("G", "T") == 0.4
    assert statistics.put_tps("unknown") == 0.0


def test_a_counter_is_there_from_its_first_count_on(statistics: BrokerStatistics) -> None:
    assert statistics.view("TOPIC_PUT_NUMS", "T") is None
    assert statistics.view("BROKER_PUT_NUMS", "C1") is None

    statistics.count_put("T", 0, 1, 100)
    for name, key in (("TOPIC_PUT_NUMS", "T"), ("BROKER_PUT_NUMS", "C1")):
        view = statistics.view(name, key)
        assert view is not None
        assert encode_body(view) == (
            b'{"statsDay":{"avgpt":0.0,"sum":0,"tps":0.0},'
            b'"statsHour":{"avgpt":0.0,"sum":0,"tps":0.0},'
            b'"statsMinute":{"avgpt":0.0,"sum":0,"tps":0.0}}'
        )


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("TOPIC_PUT_NUMS", "U"),
        ("QUEUE_PUT_NUMS", "T@7"),
        ("QUEUE_PUT_NUMS", "T@x"),
        ("GROUP_GET_NUMS", "G@T"),
        ("BROKER_PUT_NUMS", "another-cluster"),
        ("NO_SUCH_NAME", "T"),
    ],
)
def test_what_was_never_counted_is_not_there(
    statistics: BrokerStatistics, name: str, key: str
) -> None:
    some_traffic(statistics)

    assert statistics.view(name, key) is None


def test_single_queues_can_be_left_out() -> None:
    statistics = new_statistics(has_queue_figures=False)
    some_traffic(statistics)
    statistics.sample(Window.MINUTE, 0)

    assert statistics.view("QUEUE_PUT_NUMS", "T@1") is None
    assert minute(statistics, "GROUP_GET_LATENCY", "T@G") == (4, 0.4, 2.0)


def test_windows_are_sampled_on_their_own(statistics: BrokerStatistics) -> None:
    some_traffic(statistics)
    statistics.sample(Window.DAY, 0)

    view = statistics.view("TOPIC_PUT_NUMS", "T")
    assert view is not None
    assert view.day == StatsItem(sum=5, per_second=5 / 3600, average_per_call=2.5)
    assert view.minute == StatsItem()


def test_a_deleted_topic_is_forgotten_but_not_what_the_broker_did(
    statistics: BrokerStatistics,
) -> None:
    some_traffic(statistics)

    statistics.forget_topics(["T", SYSTEM])

    assert statistics.view("TOPIC_PUT_NUMS", "T") is None
    assert statistics.view("GROUP_GET_NUMS", "T@G") is None
    assert statistics.view("SNDBCK_PUT_NUMS", "T@G") is None
    statistics.sample(Window.MINUTE, 0)
    assert minute(statistics, "BROKER_PUT_NUMS", "C1")[0] == 15
    assert (statistics.put_total(), statistics.get_total()) == (5, 4)


def test_a_deleted_group_is_forgotten(statistics: BrokerStatistics) -> None:
    some_traffic(statistics)

    statistics.forget_group("G")

    assert statistics.view("TOPIC_PUT_NUMS", "T") is not None
    assert statistics.view("GROUP_GET_NUMS", "T@G") is None
    assert statistics.view("SNDBCK_PUT_NUMS", "T@G") is None
    assert statistics.get_total() == 4


def test_traffic_is_what_was_put_whoever_put_it(statistics: BrokerStatistics) -> None:
    some_traffic(statistics)
    statistics.count_put_wait_ms("T", "0", 9)
    statistics.forget_topics(["T"])
    for second in range(60):
        statistics.sample_traffic(second * 1000)

    assert statistics.traffic.put_count == 15
    assert statistics.put_size() == 1600
    assert statistics.traffic.put_times.count_by_ms == {0: 2, 9: 1}


def test_days_begin_with_what_was_counted_until_then(statistics: BrokerStatistics) -> None:
    some_traffic(statistics)
    statistics.begin_day()
    statistics.count_put("T", 0, 1, 100)
    statistics.begin_day()

    days = statistics.days
    assert (days.put_yesterday_morning, days.put_today_morning) == (5, 6)
    assert (days.get_yesterday_morning, days.get_today_morning) == (4, 4)


def test_waits_for_the_disk_are_latencies_of_the_queue() -> None:
    statistics = new_statistics()
    statistics.count_put("T", 3, 1, 100)
    statistics.count_put_wait_ms("T", "3", 7)
    statistics.count_put_wait_ms("T", "4", 7)
    statistics.count_put_wait_ms("T", "x", 7)
    statistics.count_get("g", "T", 3, 1, 100, 5)
    statistics.sample(Window.MINUTE, 10_000)

    put = statistics.view("TOPIC_PUT_LATENCY", "3@T")
    got = statistics.view("GROUP_GET_LATENCY", "3@T@g")

    assert put is not None
    assert got is not None
    assert (put.minute.sum, got.minute.sum) == (7, 5)
