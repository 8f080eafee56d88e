"""Keeps groups that read far behind the end of the log from reading at all."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups
from emberq.broker.members import Consumers

log = logging.getLogger(__name__)

CHECK_INTERVAL_S = 180.0


class NextPull(NamedTuple):
    """Where a group will read next."""

    group: str
    topic: str
    queue_id: int
    offset: int


class PullOffsets(Protocol):
    def next_pulls(self) -> Iterable[tuple[str, str, int, int]]:
        """Group, topic, queue and offset of every queue that is pulled."""


class LogDistance(Protocol):
    def bytes_behind(self, topic: str, queue_id: int, offset: int) -> int:
        """From a message to the end of the log. May wait for the disk."""


class SlowConsumers:
    """Old messages come from the disk; a group that reads many of them slows down all others.

    Only with `disableConsumeIfConsumerReadSlowly`; an administrator must allow the group again.
    Official brokers note the distance at every pull; here it is looked up when it is needed.
    """

    def __init__(
        self,
        *,
        store: LogDistance,
        offsets: PullOffsets,
        consumers: Consumers,
        groups: Groups,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._consumers = consumers
        self._groups = groups
        self._config = config

    async def check(self) -> None:
        config = self._config()
        if not config.disable_consume_if_consumer_read_slowly:
            return
        threshold = config.consumer_fallbehind_threshold
        online = set(self._consumers.names())
        pulls = [NextPull(*pull) for pull in self._offsets.next_pulls() if pull[0] in online]
        slow = await asyncio.to_thread(self._far_behind, pulls, threshold)
        for name, behind_bytes in slow.items():
            log.warning(
                "slow_consumer_disabled group=%s behind_bytes=%d threshold_bytes=%d",
                name,
                behind_bytes,
                threshold,
            )
            self._groups.disable_consume(name)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            await self.check()

    def _far_behind(self, pulls: list[NextPull], threshold: int) -> dict[str, int]:
        slow: dict[str, int] = {}
        for group, topic, queue_id, offset in pulls:
            behind_bytes = self._store.bytes_behind(topic, queue_id, offset)
            if behind_bytes > threshold:
                slow[group] = max(behind_bytes, slow.get(group, 0))
        return slow
