"""A broker killed while messages wait for their time: each comes at least once, none early.

The full set: python -m tests.crash.timer_rounds.
"""

import asyncio
import time
from pathlib import Path
from random import Random

import pytest

from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.bodies.timers import TimerMetricsTable
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import new_request
from emberq.remoting.client import connect
from emberq.remoting.endpoint import Endpoint
from emberq.testing.local_broker import LocalBroker, run_broker
from tests.support.send_load import CALL_TIMEOUT_S
from tests.support.timer_kills import TimerKills
from tests.support.waiting import until

pytestmark = pytest.mark.crash

ROUNDS = 3
MESSAGES_PER_ROUND = 700


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_waiting_messages_survive_every_kill_and_none_is_early(
    tmp_path: Path, flush: str
) -> None:
    kills = TimerKills(tmp_path, Random(flush), flushDiskType=flush)

    for _ in range(ROUNDS):
        await kills.round(MESSAGES_PER_ROUND)
    await kills.finish()

    assert not kills.early


async def test_waiting_messages_are_counted_anew_after_a_kill(tmp_path: Path) -> None:
    config = {"timerFlushIntervalMs": "100"}
    with run_broker(tmp_path, config=config) as broker:
        file = broker.store / "config" / "timermetrics"
        await send_timed(broker, Early=10)
        await until(lambda: counts_in(file) == {"Early": 10})
        older = file.read_bytes()
        await send_timed(broker, Early=5, Later=20)
        await until(lambda: counts_in(file) == {"Early": 15, "Later": 20})
        await asyncio.to_thread(broker.kill)
    file.write_bytes(older)  # as if the kill had come before it was written

    with run_broker(tmp_path) as broker:
        await send_timed(broker, Later=1)

        await until(lambda: counts_in(file) == {"Early": 15, "Later": 21})


async def send_timed(broker: LocalBroker, **counts: int) -> None:
    """Messages to topics, due in an hour."""
    connection = await connect(broker.host, broker.port, Endpoint())
    for topic, count in counts.items():
        fields = dict.fromkeys("efhj", "0") | {"a": "PG", "b": topic, "c": "TBW102", "d": "1"}
        fields |= {"g": str(time.time_ns() // 1_000_000), "i": "TIMER_DELAY_SEC\x013600\x02"}
        for _ in range(count):
            request = new_request(RequestCode.SEND_MESSAGE_V2, fields, b"late")
            answer = await connection.call(request, CALL_TIMEOUT_S)
            assert answer.code == 0, answer
    connection.abort()


def counts_in(file: Path) -> dict[str, int]:
    if not file.exists():
        return {}
    table = decode_body(TimerMetricsTable, file.read_bytes())
    return {topic: known.count for topic, known in table.counts.items()}
