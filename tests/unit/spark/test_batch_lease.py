"""Signs that somebody carries a batch out."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from emberq.errors import BrokerNotFound
from emberq.spark import batch_lease
from emberq.spark.batch_lease import BatchLease, LeaseLost
from emberq.spark.batch_ledger import CommitDecision
from tests.support.waiting import DEADLINE_S, until

COMMIT = CommitDecision(id="x", writes=("w",), parts=2)


class Ledger:
    """What is noted, unless the ledger is away."""

    def __init__(self) -> None:
        self.noted: list[int] = []
        self.tried = 0
        self.is_away = False

    async def note_done(self, batch_key: str, commit: CommitDecision, parts_done: int) -> None:
        self.tried += 1
        if self.is_away:
            raise BrokerNotFound("it is away")
        self.noted.append(parts_done)


@pytest.fixture
def ledger() -> Any:
    return Ledger()


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    def set_to(now_s: float) -> None:
        monkeypatch.setattr("emberq.spark.batch_lease.time.monotonic", lambda: now_s)

    return set_to


def lease_of(ledger: Any, *, lease_s: float = 120.0, signed_at_s: float = 0.0) -> BatchLease:
    return BatchLease(ledger, "query-0", COMMIT, lease_s=lease_s, signed_at_s=signed_at_s)


async def test_a_lease_is_over_when_nothing_was_signed_for_so_long(
    ledger: Any, set_clock: Callable[[float], None]
) -> None:
    lease = lease_of(ledger)

    def is_over_at(now_s: float) -> bool:
        set_clock(now_s)
        return lease.is_over

    assert not is_over_at(119.0)
    await lease.sign(1)
    assert not is_over_at(238.0)
    assert is_over_at(239.0)


async def test_a_sign_that_comes_too_late_brings_no_lease_back(
    ledger: Any, set_clock: Callable[[float], None]
) -> None:
    lease = lease_of(ledger)
    set_clock(120.0)

    await lease.sign(1)

    assert ledger.noted == [1]
    with pytest.raises(LeaseLost):
        lease.check()


async def test_a_lease_that_is_lost_is_not_kept_any_more(ledger: Any) -> None:
    lease = lease_of(ledger, lease_s=0.01, signed_at_s=time.monotonic() - 1)

    await asyncio.wait_for(lease._keep(1), DEADLINE_S)

    assert ledger.tried == 0


async def test_a_sign_that_fails_does_not_end_the_signing(
    ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_lease, "SIGNS_PER_LEASE", 100_000)
    ledger.is_away = True

    async with lease_of(ledger, signed_at_s=time.monotonic()).kept(1):
        await until(lambda: ledger.tried == 2)
        ledger.is_away = False
        await until(lambda: ledger.noted)

    assert set(ledger.noted) == {1}


async def test_only_the_sign_behind_the_last_part_may_fail(ledger: Any) -> None:
    ledger.is_away = True

    with pytest.raises(BrokerNotFound):
        await lease_of(ledger).sign(1)
    await lease_of(ledger).sign(2)
