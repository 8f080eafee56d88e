"""Work that is tried again: so often, and on for so long."""

import asyncio

import pytest

from emberq.errors import BrokerNotFound, CallTimeout, ConnectFailed, MessageRefused, SendFailed
from emberq.spark import links
from emberq.spark.links import bounded, retried


class Work:
    """Fails so often, then succeeds."""

    def __init__(self, failures: int, error: Exception) -> None:
        self._failures = failures
        self._error = error
        self.attempts = 0

    async def __call__(self) -> str:
        self.attempts += 1
        if self.attempts <= self._failures:
            raise self._error
        return "done"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "RETRY_PAUSE_FIRST_S", 0.0)


async def test_failures_of_the_network_are_tried_again_so_often() -> None:
    work = Work(3, ConnectFailed("no broker"))

    assert await retried(work, 3) == "done"
    with pytest.raises(ConnectFailed, match="no broker"):
        await retried(Work(4, ConnectFailed("no broker")), 3)


async def test_with_a_wait_they_are_tried_again_until_it_is_over() -> None:
    assert await retried(Work(50, ConnectFailed("no broker")), 0, wait_s=600.0) == "done"
    with pytest.raises(BrokerNotFound, match=r"after 0\.05 s \(brokerWaitMs\): no broker"):
        await asyncio.wait_for(retried(Work(10**9, ConnectFailed("no broker")), 0, 0.05), 60)


async def test_a_send_is_tried_again_if_its_last_attempt_failed_by_the_network() -> None:
    lost = SendFailed("not sent", (ConnectFailed("no broker"),))
    refused = SendFailed("not sent", (ConnectFailed("no broker"), MessageRefused("too large")))

    assert await retried(Work(1, lost), 1) == "done"
    work = Work(1, refused)
    with pytest.raises(SendFailed):
        await retried(work, 5, wait_s=600.0)
    assert work.attempts == 1


async def test_what_is_wrong_stays_wrong() -> None:
    work = Work(1, MessageRefused("too large"))

    with pytest.raises(MessageRefused):
        await retried(work, 5, wait_s=600.0)
    assert work.attempts == 1


async def test_brokers_that_never_answer_are_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(links, "CALL_MAX_S", 0.01)

    async def hang() -> None:
        await asyncio.Event().wait()

    with pytest.raises(CallTimeout, match=r"brokers have not answered in 0\.02 s, all tries"):
        await bounded(hang, 0.01)


async def test_a_call_that_timed_out_says_so_itself() -> None:
    with pytest.raises(CallTimeout, match="no answer from 10"):
        await bounded(Work(1, CallTimeout("no answer from 10.0.0.1:10911")), 0.0)
