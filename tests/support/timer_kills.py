"""A broker that is killed while delayed and timed messages are under way, again and again.

Each body says when its producer wanted it delivered, so every delivery can be judged by itself.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from random import Random

from emberq.errors import RemotingError
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import new_request
from emberq.record.record import Record
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from emberq.testing.local_broker import LocalBroker, run_broker
from tests.support.send_load import CALL_TIMEOUT_S, QueueReader

TOPIC = "Late"
QUEUES = 4
IN_FLIGHT = 32
# So short that deliveries are under way whenever the broker dies.
LEVEL_DELAYS_MS = (1_000, 2_000)
TIMED_DELAY_MAX_MS = 3_000
# A kill happens at any time within this after the last answer that was waited for.
KILL_WITHIN_S = 1.5
DELIVERED_WITHIN_S = 60.0
CONFIG = {
    "messageDelayLevel": "1s 2s",
    "brokerFastFailureEnable": "false",  # a busy machine makes the broker no less right
    "flushDelayOffsetInterval": "200",
    "timerPrecisionMs": "500",
    "timerFlushIntervalMs": "100",
    # Small files and a short window: crashes also meet their ends, and messages that roll.
    "mappedFileSizeTimerLog": str(64 * 1024),
    "timerRollWindowSlot": "4",
}


class LateMessages:
    """A producer of delayed and timed messages that remembers what brokers answered, and judges
    what they deliver."""

    def __init__(
        self, random: Random, level_delays_ms: Sequence[int], timed_delay_max_ms: int
    ) -> None:
        self._random = random
        self._level_delays_ms = level_delays_ms
        self._timed_delay_max_ms = timed_delay_max_ms
        self._numbers = count()
        self.acknowledged: set[bytes] = set()
        self.delivered: Counter[bytes] = Counter()
        self.early: list[str] = []
        self._readers = [QueueReader(TOPIC, queue_id) for queue_id in range(QUEUES)]

    def waiting(self) -> set[bytes]:
        """What was acknowledged and not seen yet."""
        return self.acknowledged - self.delivered.keys()

    async def send_until(self, goal: int, connection: Connection) -> None:
        """Send until so many are acknowledged in all, or the broker is gone."""
        await asyncio.gather(*(self._lane(goal, connection) for _ in range(IN_FLIGHT)))

    async def read(self, connection: Connection) -> None:
        for reader in self._readers:
            for record in await reader.read(connection):
                self._judge(record)

    async def until_delivered(self, connection: Connection, within_s: float) -> None:
        """Wait until everything that was acknowledged is delivered."""
        try:
            async with asyncio.timeout(within_s):
                while self.waiting():
                    await self.read(connection)
                    await asyncio.sleep(0.05)
        except TimeoutError:
            lost = sorted(self.waiting())
            raise AssertionError(f"{len(lost)} messages are lost: {lost[:5]}") from None

    async def _lane(self, goal: int, connection: Connection) -> None:
        while len(self.acknowledged) < goal:
            body, fields = self._message()
            request = new_request(RequestCode.SEND_MESSAGE_V2, fields, body)
            try:
                response = await connection.call(request, CALL_TIMEOUT_S)
            except RemotingError:
                return
            assert response.code == 0, response
            self.acknowledged.add(body)

    def _message(self) -> tuple[bytes, dict[str, str]]:
        now_ms = time.time_ns() // 1_000_000
        kind = self._random.choice(("level", "time", "delay"))
        if kind == "level":
            level = self._random.randrange(len(self._level_delays_ms))
            due_ms, text = now_ms + self._level_delays_ms[level], f"DELAY\x01{level + 1}\x02"
        else:
            delay_ms = self._random.randint(1, self._timed_delay_max_ms)
            due_ms = now_ms + delay_ms
            text = f"TIMER_DELAY_MS\x01{delay_ms}\x02"
            if kind == "time":
                text = f"TIMER_DELIVER_MS\x01{due_ms}\x02"
        body = f"{next(self._numbers):08d} {kind} {due_ms}".encode()
        fields = dict(zip("abcdefghim", _FIELDS, strict=True))
        fields |= {"e": str(self._random.randrange(QUEUES)), "i": text, "g": str(now_ms)}
        return body, fields

    def _judge(self, record: Record) -> None:
        body = bytes(record.body)
        self.delivered[body] += 1
        due_ms = int(body.split()[2])
        if record.stored_at_ms < due_ms:
            self.early.append(f"{body.decode()}: {due_ms - record.stored_at_ms} ms early")


class TimerKills(LateMessages):
    """One store that lives through many brokers."""

    def __init__(self, home: Path, random: Random, **config: str) -> None:
        super().__init__(random, LEVEL_DELAYS_MS, TIMED_DELAY_MAX_MS)
        self._home = home
        self._config = {**CONFIG, **config}

    async def round(self, message_count: int) -> None:
        """Send messages until so many more are acknowledged, then kill the broker."""
        with self._broker() as broker:
            connection = await connect(broker.host, broker.port, Endpoint())
            await self.send_until(len(self.acknowledged) + message_count, connection)
            connection.abort()
            await asyncio.sleep(self._random.uniform(0, KILL_WITHIN_S))  # any moment will do
            await asyncio.to_thread(broker.kill)

    async def finish(self) -> None:
        """A last life in which everything is delivered."""
        with self._broker() as broker:
            connection = await connect(broker.host, broker.port, Endpoint())
            try:
                await self.until_delivered(connection, DELIVERED_WITHIN_S)
            finally:
                connection.abort()

    def _broker(self) -> AbstractContextManager[LocalBroker]:
        return run_broker(self._home, "--log-level", "error", config=self._config)


_FIELDS = ("PG", TOPIC, "TBW102", str(QUEUES), "0", "0", "0", "0", "", "false")
