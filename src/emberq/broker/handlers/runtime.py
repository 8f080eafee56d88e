"""How the broker is doing, in the words that tools look for (28)."""

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from emberq.broker.config import BrokerConfig
from emberq.broker.statistics.broker_statistics import BrokerStatistics
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.bodies.routes import KeyValueTable
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, answer
from emberq.protocol.fastjson_writer import java_double
from emberq.protocol.versions import CURRENT, version_name
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry
from emberq.store.disk_space import DiskUsage

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1000, 60_000, 3_600_000, 86_400_000
# What official brokers say when they have no pool of buffers.
NO_BUFFER_POOL = 2**31 - 1
# EmberQ has no thread pools and no queues before them: these keys have the official capacities.
QUEUE_CAPACITIES = {
    "sendThreadPoolQueue": 10_000,
    "pullThreadPoolQueue": 100_000,
    "litePullThreadPoolQueue": 100_000,
    "ackThreadPoolQueue": 100_000,
    "queryThreadPoolQueue": 20_000,
}


class StoreFacts(NamedTuple):
    """What 28 tells of the store."""

    log_folder: Path
    log_min_offset: int
    log_end: int
    unflushed_bytes: int
    undispatched_bytes: int
    begins_at_ms: int
    disk: DiskUsage


class RuntimeHandlers:
    def __init__(
        self,
        *,
        statistics: BrokerStatistics,
        store_facts: Callable[[], StoreFacts],
        delay_levels: Callable[[], dict[int, tuple[int, int]]],
        timer_figures: Callable[[], dict[str, str]],
        config: Callable[[], BrokerConfig],
        now_ms: Callable[[], int],
    ) -> None:
        self._statistics = statistics
        self._store_facts = store_facts
        self._delay_levels = delay_levels
        self._timer_figures = timer_figures
        self._config = config
        self._now_ms = now_ms
        self._started_at_ms = now_ms()

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(RequestCode.GET_BROKER_RUNTIME_INFO, self.get)

    async def get(self, command: Command, _: Connection) -> Command:
        size_bytes = await asyncio.to_thread(self._statistics.put_size)
        of_store = await asyncio.to_thread(lambda: _of_store(self._store_facts()))
        of_traffic = self._of_traffic(size_bytes)
        table = {**of_traffic, **self._of_days(), **of_store, **self._of_broker()}
        return answer(command, body=encode_body(KeyValueTable(table=dict(sorted(table.items())))))

    def _of_traffic(self, size_bytes: int) -> dict[str, str]:
        traffic = self._statistics.traffic
        count = max(1, traffic.put_count)  # so that the average can be had
        transferred = traffic.rates("transferred_count")
        return {
            "bootTimestamp": str(self._started_at_ms),
            "runtime": duration_text(self._now_ms() - self._started_at_ms),
            "putMessageEntireTimeMax": str(traffic.put_time_max_ms),
            "putMessageTimesTotal": str(count),
            "putMessageFailedTimes": str(traffic.put_failed_count),
            "putMessageSizeTotal": str(size_bytes),
            "putMessageDistributeTime": traffic.put_times.text(),
            "putMessageAverageSize": java_double(size_bytes / count),
            "putLatency99": f"{traffic.put_times.percentile(0.99):.2f}",
            "putLatency999": f"{traffic.put_times.percentile(0.999):.2f}",
            "dispatchMaxBuffer": "0",
            "getMessageEntireTimeMax": str(traffic.get_time_max_ms),
            "putTps": traffic.rates("put_count"),
            "getFoundTps": traffic.rates("found_count"),
            "getMissTps": traffic.rates("missed_count"),
            "getTotalTps": traffic.get_rates(),
            "getTransferredTps": transferred,
            "getTransferedTps": transferred,  # the name that tools of 4.9 look for
        }

    def _of_days(self) -> dict[str, str]:
        days = self._statistics.days
        return {
            "msgPutTotalYesterdayMorning": str(days.put_yesterday_morning),
            "msgPutTotalTodayMorning": str(days.put_today_morning),
            "msgPutTotalTodayNow": str(self._statistics.put_total()),
            "msgGetTotalYesterdayMorning": str(days.get_yesterday_morning),
            "msgGetTotalTodayMorning": str(days.get_today_morning),
            "msgGetTotalTodayNow": str(self._statistics.get_total()),
        }

    def _of_broker(self) -> dict[str, str]:
        started = self._config().start_accept_send_request_time_stamp
        table = {
            "brokerActive": "true",
            "brokerVersion": str(CURRENT),
            "brokerVersionDesc": version_name(CURRENT),
            "startAcceptSendRequestTimeStamp": str(started),
            "EndTransactionQueueSize": "0",
            "EndTransactionThreadPoolQueueCapacity": "100000",
            "pageCacheLockTimeMills": "0",
            "remainTransientStoreBufferNumbs": str(NO_BUFFER_POOL),
            **self._timer_figures(),
        }
        for name, capacity in QUEUE_CAPACITIES.items():
            table[f"{name}Capacity"] = str(capacity)
            table[f"{name}Size"] = "0"
            table[f"{name}HeadWaitTimeMills"] = "0"
        for level, (delivered, end) in self._delay_levels().items():
            table[f"scheduleMessageOffset_{level}"] = f"{delivered},{end}"
        return table


def _of_store(facts: StoreFacts) -> dict[str, str]:
    disk = facts.disk
    log_ratio = ratio_text(disk.commit_log_ratio)
    return {
        "commitLogDirCapacity": (
            f"Total : {size_text(disk.total_bytes)}, Free : {size_text(disk.free_bytes)}."
        ),
        "commitLogDiskRatio": log_ratio,
        f"commitLogDiskRatio_{facts.log_folder}": log_ratio,
        "consumeQueueDiskRatio": ratio_text(disk.queues_ratio),
        "commitLogMinOffset": str(facts.log_min_offset),
        "commitLogMaxOffset": str(facts.log_end),
        "dispatchBehindBytes": str(facts.undispatched_bytes),
        "earliestMessageTimeStamp": str(facts.begins_at_ms),
        "remainHowManyDataToFlush": size_text(facts.unflushed_bytes),
    }


def ratio_text(ratio: float) -> str:
    """Whole percents, rounded up, as a fraction."""
    return java_double(math.ceil(ratio * 100) / 100)


def duration_text(duration_ms: int) -> str:
    days, rest = divmod(duration_ms, DAY_MS)
    hours, rest = divmod(rest, HOUR_MS)
    minutes, rest = divmod(rest, MINUTE_MS)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {rest // SECOND_MS} seconds ]"


def size_text(size_bytes: int) -> str:
    """For people, for instance `1.5 KiB`."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} EiB"
