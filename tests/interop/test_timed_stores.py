"""A store with delayed and timed messages under way changes hands, and they come all the same."""

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from emberq.protocol.codes import RequestCode
from emberq.protocol.command import new_request
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from tests.interop.harness.artifacts import Line
from tests.interop.harness.servers import Broker
from tests.interop.store_sizes import BROKER_CONFIG
from tests.interop.store_station import Ending, broker_on, there_and_back
from tests.support.send_load import CALL_TIMEOUT_S, QueueReader

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

TOPIC = "Late"
DELIVERED_WITHIN_S = 90.0
LEVEL_DELAYS_MS = {1: 1_000, 2: 15_000}
# Due while this broker runs, the next one, and the one after that.
TIMED_DELAYS_MS = (1_000, 9_000, 20_000, 35_000)
# Long enough for the next broker to start on a busy machine.
RECALLED_DELAY_MS = 75_000
EACH = 20
CONFIG = BROKER_CONFIG | {"messageDelayLevel": "1s 15s", "recallMessageEnable": "true"}


class Travellers:
    """Messages that are sent at one broker and may come at another."""

    def __init__(self) -> None:
        self.sent: set[str] = set()
        self.recalled: set[str] = set()
        self.handles: dict[str, str] = {}
        self.delivered: Counter[str] = Counter()
        self.early: list[str] = []
        self._reader = QueueReader(TOPIC, 0)

    async def send(self, connection: Connection, stage: str, *, is_timed: bool) -> None:
        for number in range(EACH):
            for level, delay_ms in LEVEL_DELAYS_MS.items():
                await self._send(connection, f"{stage}-{number}", delay_ms, f"DELAY\x01{level}\x02")
            for delay_ms in TIMED_DELAYS_MS if is_timed else ():
                text = f"TIMER_DELAY_MS\x01{delay_ms}\x02"
                await self._send(connection, f"{stage}-{number}", delay_ms, text)
        if is_timed:
            text = f"TIMER_DELAY_MS\x01{RECALLED_DELAY_MS}\x02"
            await self._send(connection, f"{stage}-recalled", RECALLED_DELAY_MS, text)

    async def _send(self, connection: Connection, name: str, delay_ms: int, text: str) -> None:
        now_ms = time.time_ns() // 1_000_000
        body = f"{name} {text[:7]} {now_ms + delay_ms}"
        fields = dict.fromkeys("dfhj", "0") | {"a": "PG", "b": TOPIC, "c": "TBW102", "e": "0"}
        fields |= {"d": "1", "g": str(now_ms), "i": text, "m": "false"}
        request = new_request(RequestCode.SEND_MESSAGE_V2, fields, body.encode())
        answer = await connection.call(request, CALL_TIMEOUT_S)
        assert answer.code == 0, answer
        self.sent.add(body)
        if name.endswith("recalled"):
            self.handles[body] = (answer.fields or {})["recallHandle"]

    async def recall(self, connection: Connection) -> None:
        """Take back, at this broker, what was sent at the one before."""
        for body, handle in self.handles.items():
            fields = {"producerGroup": "PG", "topic": TOPIC, "recallHandle": handle}
            request = new_request(RequestCode.RECALL_MESSAGE, fields)
            answer = await connection.call(request, CALL_TIMEOUT_S)
            assert answer.code == 0, answer
            self.recalled.add(body)
        self.handles.clear()

    async def until_delivered(self, connection: Connection, wanted: set[str]) -> None:
        async with asyncio.timeout(DELIVERED_WITHIN_S):
            while not wanted <= self.delivered.keys():
                await self._read(connection)
                await asyncio.sleep(0.1)

    async def until_due(self, connection: Connection) -> None:
        """Until what was recalled would have come."""
        due_ms = max((int(body.split()[-1]) for body in self.recalled), default=0)
        while time.time_ns() // 1_000_000 < due_ms + 2_000:  # noqa: ASYNC110 - time has no event
            await asyncio.sleep(0.1)
        await self._read(connection)

    async def _read(self, connection: Connection) -> None:
        for record in await self._reader.read(connection):
            body = bytes(record.body).decode()
            self.delivered[body] += 1
            if record.stored_at_ms < int(body.split()[-1]):
                self.early.append(body)


class Stage(NamedTuple):
    """One broker of the way: which, and what it can be given."""

    name: str
    line: Line | None  # None: one of ours
    is_timed: bool
    is_last: bool

    @property
    def has_timers(self) -> bool:
        return self.line is None or self.line.is_v5


def stages(first: str, line: Line) -> list[Stage]:
    """There and back. Nobody is given timed messages that the last broker could not deliver."""
    one, two = (line, None) if first == "official" else (None, line)
    comes_to_timers = one is None or one.is_v5
    return [
        Stage("one", one, comes_to_timers, is_last=False),
        Stage("two", two, comes_to_timers and (two is None or two.is_v5), is_last=False),
        Stage("three", one, comes_to_timers, is_last=True),
    ]


async def stay(travellers: Travellers, broker: Broker, stage: Stage) -> None:
    connection = await connect("127.0.0.1", broker.port, Endpoint())
    try:
        if stage.has_timers:
            await travellers.recall(connection)
        if not stage.is_last:
            await travellers.send(connection, stage.name, is_timed=stage.is_timed)
            soon = {body for body in travellers.sent if body.startswith(f"{stage.name}-0 ")}
            first = min(soon, key=lambda body: int(body.split()[-1]))
            await travellers.until_delivered(connection, {first})
        else:
            await travellers.until_delivered(connection, travellers.sent - travellers.recalled)
            await travellers.until_due(connection)
    finally:
        connection.abort()


@there_and_back
def test_waiting_messages_move_there_and_back(
    line: Line, first: str, ending: Ending, home: Path
) -> None:
    travellers = Travellers()

    for stage in stages(first, line):
        with broker_on(home, stage.line, ending, CONFIG) as broker:
            asyncio.run(stay(travellers, broker, stage))

    assert not travellers.early
    assert travellers.sent - travellers.recalled <= travellers.delivered.keys()
    assert not travellers.recalled & travellers.delivered.keys()
