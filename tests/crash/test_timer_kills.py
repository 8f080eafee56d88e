"""A broker killed while messages wait for their time: each comes at least once, none early.

The full set: python -m tests.crash.timer_rounds.
"""

from pathlib import Path
from random import Random

import pytest

from tests.support.timer_kills import TimerKills

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
