"""Brokers that leave, gathered for one turn of the loop.

Removing brokers means walking over all topics. When a rack goes dark its connections close
together; one walk removes them all.
"""

import asyncio
import logging
from collections.abc import Callable

from emberq.nameserver.route_table import RouteTable, Unregistration
from emberq.remoting.connection import Connection

log = logging.getLogger(__name__)


class Departures:
    def __init__(self, table: RouteTable, capacity: Callable[[], int]) -> None:
        self._table = table
        self._capacity = capacity
        self._leaving: list[Unregistration] = []

    def add(self, leaving: list[Unregistration], reason: str) -> bool:
        """Remove these brokers in the loop's next turn; False if too many wait already."""
        if len(self._leaving) + len(leaving) > self._capacity():
            return False
        self._gather(leaving, reason)
        return True

    def settle(self) -> None:
        """Remove those who are leaving now: who comes back in the same turn must stay."""
        if self._leaving:
            leaving, self._leaving = self._leaving, []
            self._table.unregister(leaving)

    def connection_closed(self, connection: Connection) -> None:
        """A broker's connection is its life; other connections are of no interest."""
        if connection.session is self:
            self._add_surely(self._table.connection_closed(connection), "connection_closed")

    def expire(self, now_ms: int) -> None:
        expired = self._table.expired(now_ms)
        connections = [self._table.connection_of(broker.key) for broker in expired]
        self._add_surely(expired, "expired")
        for connection in connections:
            if isinstance(connection, Connection):
                connection.close()

    def _add_surely(self, leaving: list[Unregistration], reason: str) -> None:
        """These are gone whether there is room to note it or not."""
        if not self.add(leaving, reason):
            self.settle()
            self._gather(leaving, reason)

    def _gather(self, leaving: list[Unregistration], reason: str) -> None:
        for broker in leaving:
            log.info(
                "broker_left name=%s id=%d address=%s cluster=%s reason=%s",
                broker.broker_name,
                broker.broker_id,
                broker.address,
                broker.cluster,
                reason,
            )
        if leaving and not self._leaving:
            asyncio.get_running_loop().call_soon(self.settle)
        self._leaving += leaving
