from emberq.broker.statistics.traffic import PutTimes, Traffic


def sampled(
    traffic: Traffic, seconds: int, *, puts_per_second: int = 0, put_calls: int = 0
) -> None:
    for second in range(seconds):
        traffic.sample(second * 1000, lambda: put_calls)
        traffic.put_count += puts_per_second


def test_rates_are_empty_until_their_time_has_passed() -> None:
    traffic = Traffic()
    assert traffic.rates("put_count") == "  "
    assert traffic.get_rates() == "0.0 0.0 0.0"

    sampled(traffic, 61, puts_per_second=3)
    assert traffic.rates("put_count") == "3.0 3.0 "
    assert traffic.rates("transferred_count") == "0.0 0.0 "

    sampled(traffic, 602, puts_per_second=3)
    assert traffic.rates("put_count") == "3.0 3.0 3.0"


def test_gets_are_found_or_missed() -> None:
    traffic = Traffic()
    sampled(traffic, 10)
    traffic.note_get(found=True, count=32)
    traffic.note_get(found=False, count=0)
    traffic.note_get_ms(7)
    traffic.sample(10_000, lambda: 0)

    assert traffic.rates("found_count") == "0.1  "
    assert traffic.rates("transferred_count") == "3.2  "
    assert traffic.get_rates() == "0.2 0.0 0.0"
    assert traffic.get_time_max_ms == 7


def test_put_times_are_told_minute_by_minute() -> None:
    traffic = Traffic()
    traffic.note_put_ms(12)
    sampled(traffic, 59, put_calls=33)
    assert traffic.put_times.count_by_ms == {}

    sampled(traffic, 1, put_calls=33)
    assert traffic.put_times.count_by_ms == {12: 1, 0: 32}

    traffic.note_put_ms(3)
    sampled(traffic, 60, put_calls=34)
    assert traffic.put_times.count_by_ms == {3: 1}
    assert traffic.put_time_max_ms == 12


def test_put_times_are_grouped_as_tools_show_them() -> None:
    times = PutTimes()
    times.count_by_ms = {0: 5, 1: 1, 9: 1, 10: 1, 999: 2, 1000: 1, 9999: 1, 10_000: 4}

    assert times.text() == (
        "[<=0ms]:5 [0~10ms]:2 [10~50ms]:1 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 "
        "[500ms~1s]:2 [1~2s]:1 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:1 [10s~]:4 "
    )
    assert times.percentile(0.5) == 10
    assert times.percentile(0.99) == 10_000
    assert PutTimes().percentile(0.99) == 0


def test_a_clock_that_is_set_back_gives_no_negative_rates() -> None:
    traffic = Traffic()
    for at_ms in (100_000, *range(11)):
        traffic.sample(at_ms, lambda: 0)
    traffic.put_count += 5
    for _ in range(11):
        traffic.sample(50, lambda: 5)

    assert traffic.rates("put_count") == "0.0  "
