"""Clients that go: their connection ends, or they are silent for too long."""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from emberq.broker.members import Consumers
from emberq.broker.order_locks import OrderLocks
from emberq.broker.producers import Producers
from emberq.remoting.connection import Connection

log = logging.getLogger(__name__)

SCAN_INTERVAL_MAX_S = 10.0


class Departures:
    def __init__(
        self,
        consumers: Consumers,
        producers: Producers,
        locks: OrderLocks,
        *,
        silence_max_ms: Callable[[], int],
        steady_ms: Callable[[], int],
    ) -> None:
        self._consumers = consumers
        self._producers = producers
        self._locks = locks
        self._silence_max_ms = silence_max_ms
        self._steady_ms = steady_ms

    def connection_closed(self, connection: Connection) -> None:
        """Order locks stay: the client may come back before they expire."""
        left = self._consumers.connection_closed(connection)
        left += self._producers.connection_closed(connection)
        if left:
            log.info("client_left peer=%s groups=%d reason=closed", connection.peer, len(left))

    def expire(self) -> None:
        """Remove clients without heartbeats, and hang up on them."""
        now, silence_max_ms = self._steady_ms(), self._silence_max_ms()
        silent = self._consumers.expire(now, silence_max_ms)
        silent += self._producers.expire(now, silence_max_ms)
        for connection in {cast(Connection, member.connection) for member in silent}:
            log.warning("client_left peer=%s reason=silent", connection.peer)
            connection.close()
        self._locks.expire(now)

    async def watch(self) -> None:
        """Look for silent clients for ever."""
        while True:
            interval_s = min(SCAN_INTERVAL_MAX_S, self._silence_max_ms() / 4000)
            await asyncio.sleep(interval_s)
            self.expire()
