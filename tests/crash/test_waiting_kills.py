"""A broker killed with delayed, timed and half messages under way together.

The full set: python -m tests.crash.waiting_rounds.
"""

from pathlib import Path
from random import Random

import pytest

from tests.support.waiting_kills import WaitingKills

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]

ROUNDS = 3
MESSAGES = 400
LONGEST_S = 12


async def test_all_that_is_under_way_survives_every_kill(tmp_path: Path) -> None:
    kills = WaitingKills(tmp_path, Random(8), LONGEST_S)

    for _ in range(ROUNDS):
        assert await kills.round(MESSAGES) >= MESSAGES

    await kills.finish()
