import json
from pathlib import Path

import pytest

from emberq.broker.config import BrokerConfig
from emberq.broker.handlers.runtime import (
    RuntimeHandlers,
    StoreFacts,
    duration_text,
    ratio_text,
    size_text,
)
from emberq.broker.handlers.timers import timer_figures
from emberq.broker.statistics.broker_statistics import BrokerStatistics
from emberq.broker.timer_metrics import TimerMetrics
from emberq.protocol.codes import RequestCode
from emberq.remoting.registry import HandlerRegistry
from emberq.store.disk_space import DiskUsage
from tests.unit.broker.peers import Peer, ask

FACTS = StoreFacts(
    log_folder=Path("/store/commitlog"),
    log_min_offset=1024,
    log_end=5000,
    unflushed_bytes=1536,
    undispatched_bytes=7,
    begins_at_ms=1_700_000_000_000,
    disk=DiskUsage(
        commit_log_ratio=0.141,
        queues_ratio=0.2,
        index_ratio=0.2,
        total_bytes=252 << 30,
        free_bytes=200 << 30,
    ),
)
# All keys of a running official broker 5.5.0 beside those of its folders and delay levels.
OFFICIAL_KEYS_TEXT = """
    EndTransactionQueueSize EndTransactionThreadPoolQueueCapacity ackThreadPoolQueueCapacity
    ackThreadPoolQueueHeadWaitTimeMills ackThreadPoolQueueSize bootTimestamp brokerActive
    brokerVersionDesc commitLogDirCapacity commitLogDiskRatio commitLogMaxOffset
    commitLogMinOffset consumeQueueDiskRatio dispatchBehindBytes dispatchMaxBuffer
    earliestMessageTimeStamp getFoundTps getMessageEntireTimeMax getMissTps getTotalTps
    getTransferredTps litePullThreadPoolQueueCapacity litePullThreadPoolQueueHeadWaitTimeMills
    litePullThreadPoolQueueSize msgGetTotalTodayMorning msgGetTotalTodayNow
    msgGetTotalYesterdayMorning msgPutTotalTodayMorning msgPutTotalTodayNow
    msgPutTotalYesterdayMorning pageCacheLockTimeMills pullThreadPoolQueueCapacity
    pullThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueSize putLatency99 putLatency999
    putMessageAverageSize putMessageDistributeTime putMessageEntireTimeMax putMessageFailedTimes
    putMessageSizeTotal putMessageTimesTotal putTps queryThreadPoolQueueCapacity
    queryThreadPoolQueueHeadWaitTimeMills queryThreadPoolQueueSize remainHowManyDataToFlush
    remainTransientStoreBufferNumbs runtime sendThreadPoolQueueCapacity
    sendThreadPoolQueueHeadWaitTimeMills sendThreadPoolQueueSize
    startAcceptSendRequestTimeStamp timerCongestNum timerDequeueTps timerEnqueueTps
    timerOffsetBehind timerReadBehind
"""
OFFICIAL_KEYS = set(OFFICIAL_KEYS_TEXT.split())
# Of the 4.9 line; its tools look for them.
OLDER_KEYS = {"brokerVersion", "getTransferedTps"}


async def runtime(statistics: BrokerStatistics, **config: int) -> dict[str, str]:
    registry = HandlerRegistry()
    RuntimeHandlers(
        statistics=statistics,
        store_facts=lambda: FACTS,
        delay_levels=lambda: {1: (5, 9)},
        timer_figures=lambda: timer_figures(None, TimerMetrics(), 0, 0),
        config=lambda: BrokerConfig(**config),  # type: ignore[arg-type]  # numbers only
        now_ms=lambda: 90_061_000,
    ).add_to(registry)
    answer = await ask(registry, Peer(), RequestCode.GET_BROKER_RUNTIME_INFO)
    table: dict[str, str] = json.loads(answer.body)["table"]
    return table


@pytest.fixture
def statistics() -> BrokerStatistics:
    return BrokerStatistics("C1", is_system_topic=lambda topic: topic == "SYSTEM")


async def test_every_official_key_is_there(statistics: BrokerStatistics) -> None:
    table = await runtime(statistics)

    of_this_broker = {"commitLogDiskRatio_/store/commitlog", "scheduleMessageOffset_1"}
    assert set(table) == OFFICIAL_KEYS | OLDER_KEYS | of_this_broker


async def test_the_store_is_described(statistics: BrokerStatistics) -> None:
    table = await runtime(statistics)

    assert table["commitLogDirCapacity"] == "Total : 252.0 GiB, Free : 200.0 GiB."
    assert table["commitLogDiskRatio"] == "0.15"
    assert table["consumeQueueDiskRatio"] == "0.2"
    assert (table["commitLogMinOffset"], table["commitLogMaxOffset"]) == ("1024", "5000")
    assert table["remainHowManyDataToFlush"] == "1.5 KiB"
    assert table["dispatchBehindBytes"] == "7"
    assert table["earliestMessageTimeStamp"] == "1700000000000"
    assert table["scheduleMessageOffset_1"] == "5,9"


async def test_traffic_and_days_are_told(statistics: BrokerStatistics) -> None:
    statistics.count_put("T", 0, 3, 450)
    statistics.count_put_wait_ms("T", "0", 3)
    statistics.count_put("SYSTEM", 0, 2, 300)
    statistics.begin_day()
    statistics.count_put("T", 0, 1, 150)
    statistics.count_get("G", "T", 0, 2, 300)

    table = await runtime(statistics, start_accept_send_request_time_stamp=17)

    assert table["putMessageTimesTotal"] == "6"
    assert table["putMessageSizeTotal"] == "900"
    assert table["putMessageAverageSize"] == "150.0"
    assert table["putMessageEntireTimeMax"] == "3"
    assert table["putTps"] == "  "
    assert table["getTotalTps"] == "0.0 0.0 0.0"
    assert table["msgPutTotalTodayMorning"] == "3"
    assert table["msgPutTotalTodayNow"] == "4"
    assert table["msgGetTotalTodayNow"] == "2"
    assert table["startAcceptSendRequestTimeStamp"] == "17"
    assert table["brokerVersionDesc"] == "V5_5_0"


def test_durations_read_as_official_brokers_write_them() -> None:
    assert duration_text(90_061_999) == "[ 1 days, 1 hours, 1 minutes, 1 seconds ]"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 40, "5.0 TiB"), (3 << 60, "3.0 EiB")],
)
def test_sizes_are_for_people(size: int, text: str) -> None:
    assert size_text(size) == text


def test_ratios_are_whole_percents_rounded_up() -> None:
    assert [ratio_text(ratio) for ratio in (0.0, 0.1401, 0.5, 1.0)] == ["0.0", "0.15", "0.5", "1.0"]
