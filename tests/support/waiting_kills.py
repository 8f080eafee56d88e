"""A broker that is killed while delayed, timed and half messages are under way together.

As many as asked for are under way at every kill: what came due, or was ended, is made up for in
the next life before that is killed too.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random

from emberq.errors import RemotingError
from emberq.remoting.connection import Connection
from emberq.testing.local_broker import LocalBroker, run_broker
from tests.support.timer_kills import KILL_WITHIN_S, LateMessages
from tests.support.transaction_kills import KINDS, Half, Payer

# Of four messages under way one is half of a transaction.
HALVES_SHARE = 4
LANES = 16
# More than is missing is sent: others come due meanwhile.
MARGIN = 1.05
ENDED_WITHIN_S = 120.0  # after the last one is due
LOG_SHOWN = 2_000
FLUSHES = ("ASYNC_FLUSH", "SYNC_FLUSH")


class WaitingKills:
    """One store directory, and everything that was promised about it."""

    def __init__(self, home: Path, random: Random, longest_s: int) -> None:
        """No message waits for longer than `longest_s`."""
        assert longest_s % 4 == 0, "levels are whole seconds"
        self._home = home
        self._random = random
        self._longest_s = longest_s
        levels_s = (longest_s // 4, longest_s // 2, longest_s)
        self._config = {
            "brokerFastFailureEnable": "false",
            "messageDelayLevel": " ".join(f"{level_s}s" for level_s in levels_s),
            "transactionTimeOut": str(longest_s * 500),
            "transactionCheckInterval": "2000",
        }
        self.late = LateMessages(random, [level * 1000 for level in levels_s], longest_s * 1000)
        self.payer = Payer()
        self._halves: list[Half] = []  # of those that are not forgotten
        self._numbers = count()

    def under_way(self) -> int:
        return len(self.late.waiting()) + len(self.payer.open())

    async def round(self, message_count: int) -> int:
        """One life of the broker, ended in the midst of sends, deliveries and ends of transactions;
        returns how many messages were under way."""
        with self._broker() as broker:
            connection = await self.payer.connected(broker.host, broker.port)
            beating = asyncio.ensure_future(self.payer.beat(connection))
            await self._fill_up(message_count, connection)
            under_way = self.under_way()
            lanes = [asyncio.ensure_future(self._lane(connection)) for _ in range(LANES)]
            await asyncio.sleep(self._random.uniform(0, KILL_WITHIN_S))  # any moment will do
            await asyncio.to_thread(broker.kill)
            await asyncio.gather(*lanes)
            beating.cancel()
            connection.abort()
        return under_way

    async def finish(self) -> None:
        """A last life in which everything is delivered, ended or asked about; all is as it was
        promised."""
        within_s = self._longest_s + ENDED_WITHIN_S
        with self._broker() as broker:
            connection = await self.payer.connected(broker.host, broker.port)
            beating = asyncio.ensure_future(self.payer.beat(connection))
            await self.late.until_delivered(connection, within_s)
            self.payer.check(await self.payer.until_settled(connection, within_s))
            beating.cancel()
            connection.abort()
        assert not self.late.early, self.late.early[:5]

    async def _fill_up(self, message_count: int, connection: Connection) -> None:
        halves = message_count // HALVES_SHARE
        while True:
            await self.late.read(connection)
            await self.payer.delivered(connection)
            missing_halves = halves - len(self.payer.open())
            missing = message_count - halves - len(self.late.waiting())
            if missing <= 0 and missing_halves <= 0:
                return
            goal = len(self.payer.stored) + int(max(missing_halves, 0) * MARGIN)
            await asyncio.gather(*(self._prepare_until(goal, connection) for _ in range(LANES)))
            goal = len(self.late.acknowledged) + int(max(missing, 0) * MARGIN)
            await self.late.send_until(goal, connection)

    async def _prepare_until(self, goal: int, connection: Connection) -> None:
        while len(self.payer.stored) < goal:
            await self._prepare(connection)

    async def _prepare(self, connection: Connection) -> None:
        number = next(self._numbers)
        kind = KINDS[number % len(KINDS)]
        half = await self.payer.prepare(connection, f"{kind}:{number:08d}".encode())
        if kind != "forgotten":
            self._halves.append(half)

    async def _lane(self, connection: Connection) -> None:
        """Begin and end transactions, and send, until the broker is gone."""
        try:
            while True:
                await self._prepare(connection)
                await self._end_any(connection)
                await self.late.send_until(len(self.late.acknowledged) + 1, connection)
        except RemotingError:
            return

    async def _end_any(self, connection: Connection) -> None:
        if self._halves:
            half = self._halves.pop(self._random.randrange(len(self._halves)))
            if half.body not in self.payer.answered:
                await self.payer.end(connection, half)

    @contextmanager
    def _broker(self) -> Iterator[LocalBroker]:
        """Now and then the disk is waited for."""
        (self._home / "broker.conf").unlink(missing_ok=True)
        config = self._config | {"flushDiskType": self._random.choice(FLUSHES)}
        with run_broker(self._home, "--log-level", "warning", config=config) as broker:
            try:
                yield broker
            except RemotingError as error:
                raise AssertionError(f"{error}\n{broker.log()[-LOG_SHOWN:]}") from error
