"""A broker that is killed while delayed and timed messages are under way, again and again.

Each body says when its producer wanted it delivered, so every delivery can be judged by itself.
"""

import asyncio
import time
from collections import Counter
from itertools import count
from pathlib import Path
from random import Random

from emberq.errors import RemotingError
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import new_request
from emberq.record.decode import iter_records
from emberq.record.record import Record
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from emberq.testing.local_broker import LocalBroker, run_broker

TOPIC = "Late"
QUEUES = 4
IN_FLIGHT = 32
CALL_TIMEOUT_S = 10.0
# So short that deliveries are under way whenever the broker dies.
LEVEL_DELAYS_MS = {1: 1_000, 2: 2_000}
TIMED_DELAY_MAX_MS = 3_000
# A kill happens at any time within this after the last answer that was waited for.
KILL_WITHIN_S = 1.5
DELIVERED_WITHIN_S = 60.0
CONFIG = {
    "messageDelayLevel": "1s 2s",
    "flushDelayOffsetInterval": "200",
    "timerPrecisionMs": "500",
    "timerFlushIntervalMs": "100",
    # Small files and a short window: crashes also meet their ends, and messages that roll.
    "mappedFileSizeTimerLog": str(64 * 1024),
    "timerRollWindowSlot": "4",
}


class TimerKills:
    """One store that lives through many brokers."""

    def __init__(self, home: Path, random: Random, **config: str) -> None:
        self._home = home
        self._random = random
        self._config = {**CONFIG, **config}
        self._numbers = count()
        self.acknowledged: set[bytes] = set()
        self.delivered: Counter[bytes] = Counter()
        self.early: list[str] = []
        self._offsets = dict.fromkeys(range(QUEUES), 0)

    async def round(self, message_count: int) -> None:
        """Send messages until so many more are acknowledged, then kill the broker."""
        with run_broker(self._home, "--log-level", "error", config=self._config) as broker:
            goal = len(self.acknowledged) + message_count
            lanes = asyncio.ensure_future(self._send_until(goal, broker))
            await lanes
            await asyncio.sleep(self._random.uniform(0, KILL_WITHIN_S))  # any moment will do
            await asyncio.to_thread(broker.kill)

    async def finish(self) -> None:
        """Wait until everything that was acknowledged is delivered."""
        with run_broker(self._home, "--log-level", "error", config=self._config) as broker:
            connection = await connect(broker.host, broker.port, Endpoint())
            try:
                async with asyncio.timeout(DELIVERED_WITHIN_S):
                    while not self.acknowledged <= self.delivered.keys():
                        for queue_id in self._offsets:
                            await self._read(connection, queue_id)
                        await asyncio.sleep(0.05)
            except TimeoutError:
                lost = sorted(self.acknowledged - self.delivered.keys())
                raise AssertionError(f"{len(lost)} messages are lost: {lost[:5]}") from None
            finally:
                connection.abort()

    async def _send_until(self, goal: int, broker: LocalBroker) -> None:
        connection = await connect(broker.host, broker.port, Endpoint())
        try:
            await asyncio.gather(*(self._lane(goal, connection) for _ in range(IN_FLIGHT)))
        finally:
            connection.abort()

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
            level = self._random.choice(tuple(LEVEL_DELAYS_MS))
            due_ms, text = now_ms + LEVEL_DELAYS_MS[level], f"DELAY\x01{level}\x02"
        else:
            delay_ms = self._random.randint(1, TIMED_DELAY_MAX_MS)
            due_ms = now_ms + delay_ms
            text = f"TIMER_DELAY_MS\x01{delay_ms}\x02"
            if kind == "time":
                text = f"TIMER_DELIVER_MS\x01{due_ms}\x02"
        body = f"{next(self._numbers):08d} {kind} {due_ms}".encode()
        fields = dict(zip("abcdefghim", _FIELDS, strict=True))
        fields |= {"e": str(self._random.randrange(QUEUES)), "i": text, "g": str(now_ms)}
        return body, fields

    async def _read(self, connection: Connection, queue_id: int) -> None:
        while True:
            fields = {**_PULL, "queueId": str(queue_id)}
            fields["queueOffset"] = str(self._offsets[queue_id])
            request = new_request(RequestCode.PULL_MESSAGE, fields)
            response = await connection.call(request, CALL_TIMEOUT_S)
            if response.code != 0:
                return
            assert response.fields is not None
            for record in iter_records(response.body):
                self._judge(record)
            self._offsets[queue_id] = int(response.fields["nextBeginOffset"])

    def _judge(self, record: Record) -> None:
        body = bytes(record.body)
        self.delivered[body] += 1
        due_ms = int(body.split()[2])
        if record.stored_at_ms < due_ms:
            self.early.append(f"{body.decode()}: {due_ms - record.stored_at_ms} ms early")


_FIELDS = ("PG", TOPIC, "TBW102", str(QUEUES), "0", "0", "0", "0", "", "false")
_PULL = {
    "consumerGroup": "Readers",
    "topic": TOPIC,
    "maxMsgNums": "32",
    "sysFlag": "4",
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subscription": "*",
    "subVersion": "0",
}
