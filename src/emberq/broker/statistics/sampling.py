"""Looks at the counters at the times at which official brokers look at them."""

import asyncio
import logging
from collections.abc import Callable
from datetime import date, datetime

from emberq.broker.statistics.broker_statistics import BrokerStatistics
from emberq.broker.statistics.cells import Window
from emberq.broker.statistics.traffic import SAMPLE_PERIOD_S

log = logging.getLogger(__name__)


class Sampling:
    """Call `tick` once per second."""

    def __init__(self, statistics: BrokerStatistics, now_ms: Callable[[], int]) -> None:
        self._statistics = statistics
        self._now_ms = now_ms
        self._tick_count = 0
        self._today = _day_of(now_ms())

    async def tick(self) -> None:
        now_ms = self._now_ms()
        self._statistics.sample_traffic(now_ms)
        today = _day_of(now_ms)
        if today != self._today:
            self._today = today
            self._statistics.begin_day()
        elapsed_ms = self._tick_count * SAMPLE_PERIOD_S * 1000
        self._tick_count += 1
        for window in Window:
            if elapsed_ms % window.period_ms == 0:
                for _ in self._statistics.sampling(window, now_ms):
                    await asyncio.sleep(0)  # with many queues a sample takes milliseconds

    async def run(self) -> None:
        """Until cancelled. Late ticks are not made up for."""
        loop = asyncio.get_running_loop()
        next_at_s = loop.time()
        while True:
            await self.tick()
            next_at_s = max(next_at_s + SAMPLE_PERIOD_S, loop.time())
            await asyncio.sleep(next_at_s - loop.time())


def _day_of(now_ms: int) -> date:
    """Days begin at local midnight."""
    return datetime.fromtimestamp(now_ms / 1000).astimezone().date()
