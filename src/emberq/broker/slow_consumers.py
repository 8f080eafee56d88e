"""Keeps groups that read far behind the end of the log from reading at all."""

import asyncio
import logging
from collections.abc import Callable

from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups
from emberq.broker.statistics.broker_statistics import BrokerStatistics

log = logging.getLogger(__name__)

CHECK_INTERVAL_S = 180.0


class SlowConsumers:
    """Old messages come from the disk; a group that reads many of them slows down all others.

    Only with `disableConsumeIfConsumerReadSlowly`; an administrator must allow the group again.
    """

    def __init__(
        self,
        statistics: BrokerStatistics,
        groups: Groups,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._statistics = statistics
        self._groups = groups
        self._config = config

    def check(self) -> None:
        config = self._config()
        if not config.disable_consume_if_consumer_read_slowly:
            return
        slow = self._statistics.groups_behind(config.consumer_fallbehind_threshold)
        for name, behind in slow.items():
            log.warning(
                "slow_consumer_disabled group=%s behind_bytes=%d threshold_bytes=%d",
                name,
                behind.size_bytes,
                config.consumer_fallbehind_threshold,
            )
            self._groups.disable_consume(name)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            self.check()
