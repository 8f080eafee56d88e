"""Brokers killed in the middle of transactions; all rounds: tests/crash/transaction_rounds.py."""

from pathlib import Path
from random import Random

import pytest

from tests.support.transaction_kills import TransactionKills

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]

ROUNDS = 4


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_transactions_survive_every_kill(tmp_path: Path, flush: str) -> None:
    kills = TransactionKills(tmp_path, Random(7), flushDiskType=flush)

    for _ in range(ROUNDS):
        await kills.run()
    seen = await kills.settle()

    kills.check(seen)
    assert len(seen) > ROUNDS * 10
