"""A process is killed while it puts messages; each one it acknowledged is found afterwards."""

from pathlib import Path
from random import Random

import pytest

from emberq.store.config import FlushKind
from tests.support.store_kills import KillRounds

pytestmark = pytest.mark.crash

# Many more: python -m tests.crash.store_rounds
QUICK_ROUNDS = 5


@pytest.mark.parametrize("kind", [FlushKind.ASYNC_FLUSH, FlushKind.SYNC_FLUSH])
def test_what_a_killed_process_acknowledged_is_there_once_in_order_by_queue_and_key(
    kind: str, tmp_path: Path
) -> None:
    rounds = KillRounds(tmp_path, kind, Random(kind))

    for _ in range(QUICK_ROUNDS):
        rounds.run()

    assert rounds.acknowledged
