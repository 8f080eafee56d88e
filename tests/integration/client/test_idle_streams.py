"""What a stream of Spark that has nothing to read costs an official broker."""

import asyncio
from pathlib import Path

import pytest

from emberq.protocol.codes import RequestCode
from emberq.spark import stream_reader
from emberq.spark.broker_place import BrokerPlace
from emberq.spark.offsets import Offsets
from emberq.spark.options import parse_stream
from emberq.spark.stream_reader import IDLE_REQUESTS_PER_S, Driver
from tests.integration.client.scanning import scanned
from tests.unit.spark.test_stream_reader import Clock, idle

pytestmark = pytest.mark.integration

WITHIN_S = 60.0


async def test_an_idle_stream_asks_few_questions_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(stream_reader, "time", clock)
    async with scanned(tmp_path, is_official=True) as it:
        await it.put(7)
        options = parse_stream({"subscribe": "T", "nameServer": it.cluster.name_server})

        def driven() -> tuple[Driver, Offsets]:
            driver = Driver(options, BrokerPlace(options), BrokerPlace(options))
            start = driver.start()
            end = driver.next_end(start, is_all=False)
            idle(driver, end, clock, clock.now_s + 10)
            return driver, end

        driver, end = await asyncio.to_thread(driven)
        codes = it.counted()
        await asyncio.to_thread(idle, driver, end, clock, clock.now_s + WITHIN_S)

    highs = [code for code in codes if code == RequestCode.GET_MAX_OFFSET]
    lows = [code for code in codes if code == RequestCode.GET_MIN_OFFSET]
    assert 0 < len(highs) <= IDLE_REQUESTS_PER_S * WITHIN_S
    assert lows == []  # where queues begin is known for a minute
