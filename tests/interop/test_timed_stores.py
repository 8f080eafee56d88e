"""A store with delayed and timed messages under way changes hands, and they come all the same."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from emberq.protocol.codes import RequestCode
from emberq.protocol.command import new_request
from emberq.record.decode import iter_records
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from tests.interop.harness.servers import Broker, start_emberq_broker, start_official_broker
from tests.interop.harness.sites import BROKER_NAME, NEWEST
from tests.interop.store_sizes import BROKER_CONFIG
from tests.interop.store_station import STOP_TIMEOUT_S, Ending

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

TOPIC = "Late"
CALL_TIMEOUT_S = 10.0
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
        self._offset = 0

    async def send(self, connection: Connection, stage: str) -> None:
        for number in range(EACH):
            for level, delay_ms in LEVEL_DELAYS_MS.items():
                await self._send(connection, f"{stage}-{number}", delay_ms, f"DELAY\x01{level}\x02")
            for delay_ms in TIMED_DELAYS_MS:
                text = f"TIMER_DELAY_MS\x01{delay_ms}\x02"
                await self._send(connection, f"{stage}-{number}", delay_ms, text)
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
        due_ms = max(int(body.split()[-1]) for body in self.recalled)
        while time.time_ns() // 1_000_000 < due_ms + 2_000:  # noqa: ASYNC110 - time has no event
            await asyncio.sleep(0.1)
        await self._read(connection)

    async def _read(self, connection: Connection) -> None:
        fields = {"consumerGroup": "Readers", "topic": TOPIC, "queueId": "0", "maxMsgNums": "32"}
        fields |= {"sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0"}
        fields |= {"subscription": "*", "subVersion": "0"}
        while True:
            fields["queueOffset"] = str(self._offset)
            request = new_request(RequestCode.PULL_MESSAGE, fields)
            answer = await connection.call(request, CALL_TIMEOUT_S)
            if answer.code != 0:
                return
            for record in iter_records(answer.body):
                body = bytes(record.body).decode()
                self.delivered[body] += 1
                if record.stored_at_ms < int(body.split()[-1]):
                    self.early.append(body)
            self._offset = int((answer.fields or {})["nextBeginOffset"])


@contextmanager
def broker_on(home: Path, ending: Ending, *, is_official: bool) -> Iterator[Broker]:
    broker = (
        start_official_broker(NEWEST, BROKER_NAME, home, [], port=None, java_options=(), **CONFIG)
        if is_official
        else start_emberq_broker(BROKER_NAME, home, [], **CONFIG)
    )
    try:
        broker.wait_for_boot()
        yield broker
        if ending is Ending.CLOSED:
            broker.process.ask_to_end()
            broker.process.wait_until_ended(STOP_TIMEOUT_S)
    finally:
        broker.process.kill()


async def stay(travellers: Travellers, broker: Broker, stage: str, *, is_last: bool) -> None:
    connection = await connect("127.0.0.1", broker.port, Endpoint())
    try:
        await travellers.recall(connection)
        if not is_last:
            await travellers.send(connection, stage)
            soon = {body for body in travellers.sent if body.startswith(f"{stage}-0 ")}
            first = min(soon, key=lambda body: int(body.split()[-1]))
            await travellers.until_delivered(connection, {first})
        else:
            await travellers.until_delivered(connection, travellers.sent - travellers.recalled)
            await travellers.until_due(connection)
    finally:
        connection.abort()


@pytest.mark.parametrize(
    ("first", "ending"),
    [
        pytest.param(
            first,
            ending,
            id=f"{first}-{ending.name.lower()}",
            # CI's part: our own store, killed; each of these takes a minute.
            marks=() if (first, ending) == ("emberq", Ending.KILLED) else pytest.mark.slow,
        )
        for first in ("official", "emberq")
        for ending in Ending
    ],
)
def test_waiting_messages_move_there_and_back(first: str, ending: Ending, home: Path) -> None:
    travellers = Travellers()
    other = "emberq" if first == "official" else "official"
    stages = [(first, "one"), (other, "two"), (first, "three")]

    for name, stage in stages:
        with broker_on(home, ending, is_official=name == "official") as broker:
            asyncio.run(stay(travellers, broker, stage, is_last=stage == "three"))

    assert not travellers.early
    assert travellers.sent - travellers.recalled <= travellers.delivered.keys()
    assert not travellers.recalled & travellers.delivered.keys()
