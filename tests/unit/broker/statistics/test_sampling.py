from datetime import datetime, timedelta

from emberq.broker.statistics.broker_statistics import BrokerStatistics
from emberq.broker.statistics.sampling import Sampling

# Local noon, whatever the zone: the next midnight is twelve hours away.
NOON = datetime(2026, 5, 4, 12).astimezone()


class Clock:
    def __init__(self) -> None:
        self.ms = int(NOON.timestamp() * 1000)

    def __call__(self) -> int:
        return self.ms


async def test_windows_are_sampled_at_the_start_and_then_at_their_own_pace() -> None:
    clock = Clock()
    statistics = BrokerStatistics("C1", is_system_topic=lambda _: False)
    sampling = Sampling(statistics, clock)
    statistics.count_put("T", 0, 6, 600)
    await sampling.tick()
    statistics.count_put("T", 0, 6, 600)
    for _ in range(10):
        clock.ms += 1000
        await sampling.tick()

    view = statistics.view("TOPIC_PUT_NUMS", "T")
    assert view is not None
    assert (view.minute.sum, view.hour.sum, view.day.sum) == (12, 6, 6)
    assert statistics.traffic.rates("put_count") == "0.6  "

    for _ in range(590):
        clock.ms += 1000
        await sampling.tick()
    view = statistics.view("TOPIC_PUT_NUMS", "T")
    assert view is not None
    assert (view.minute.sum, view.hour.sum, view.day.sum) == (0, 12, 6)


async def test_a_day_begins_at_local_midnight() -> None:
    clock = Clock()
    statistics = BrokerStatistics("C1", is_system_topic=lambda _: False)
    sampling = Sampling(statistics, clock)
    statistics.count_put("T", 0, 6, 600)
    clock.ms = int((NOON + timedelta(hours=11)).timestamp() * 1000)
    await sampling.tick()
    assert statistics.days.put_today_morning == 0

    clock.ms += 2 * 3600 * 1000
    await sampling.tick()
    await sampling.tick()

    assert statistics.days.put_today_morning == 6
    assert statistics.days.put_yesterday_morning == 0
