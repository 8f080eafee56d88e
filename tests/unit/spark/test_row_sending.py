"""Rows of a task on their way: what becomes of them when the task fails."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from emberq.client.blocking.loop_thread import LoopThread
from emberq.errors import NoNameServer
from emberq.spark import row_sending
from emberq.spark.row_sending import RowSending, Task, producer_of
from tests.support.waiting import loop_turns

DEADLINE_S = 10.0


class Link:
    """As much of one as sending needs."""

    def __init__(self) -> None:
        self.thread = LoopThread()

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.thread.run(work)

    def on_loop(self, call: Callable[[], object]) -> None:
        self.thread.call_soon(call)


class Sending(RowSending):
    """Each batch is what is left to do with it."""

    def _ready(self, batch: Any, first_queue: int) -> Coroutine[Any, Any, None]:
        return batch()  # type: ignore[no-any-return] # as the tests give it


class Piece:
    """Rows that never arrive, and are taken back when they are called off."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.is_taken_back = threading.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self) -> None:
        self.has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            await self.may_end.wait()
            self.is_taken_back.set()


@pytest.fixture
def sending() -> Iterator[Sending]:
    link: Any = Link()
    nothing: Any = None
    yield Sending(nothing, link, nothing, Task("w", 0, 0), nothing, nothing)
    link.thread.stop()


def followed_by_a_failure(piece: Any) -> Iterator[Any]:
    yield piece
    assert piece.has_begun.wait(DEADLINE_S)
    raise ValueError("upstream")


def test_behind_a_failure_of_the_rows_nothing_is_on_its_way(sending: Sending) -> None:
    piece = Piece()

    with pytest.raises(ValueError, match="upstream"):
        sending.run(followed_by_a_failure(piece))

    assert piece.is_taken_back.is_set()


def test_the_failure_of_the_rows_is_told_though_those_before_fail_as_well(
    sending: Sending,
) -> None:
    class Failing(Piece):
        async def __call__(self) -> None:
            try:
                await super().__call__()
            finally:
                raise OSError("the network")

    with pytest.raises(ValueError, match="upstream"):
        sending.run(followed_by_a_failure(Failing()))


def test_what_cannot_be_called_off_is_waited_for_so_long_and_told(
    sending: Sending, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(row_sending, "CALL_OFF_MAX_S", 0.05)
    piece = Piece()
    piece.may_end.clear()

    with caplog.at_level(logging.WARNING), pytest.raises(ValueError, match="upstream"):
        sending.run(followed_by_a_failure(piece))

    assert "rows_still_on_their_way waited_s=0.05" in caplog.text
    sending._link.on_loop(piece.may_end.set)
    assert piece.is_taken_back.wait(DEADLINE_S)


# Producers


class Starting:
    """Producers that begin when the test says so, or fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = 0
        self.may_begin = asyncio.Event()
        self.failures: list[Exception] = []
        starting = self

        class Producer:
            is_started = False

            def __init__(self, group: str, **how: Any) -> None:
                starting.made += 1

            async def start(self) -> None:
                await starting.may_begin.wait()
                if starting.failures:
                    raise starting.failures.pop()
                self.is_started = True

        monkeypatch.setattr(row_sending, "Producer", Producer)
        monkeypatch.setattr(row_sending, "_producers", {})


async def test_nobody_gets_a_producer_that_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    starting, link = Starting(monkeypatch), Mock()

    both = asyncio.gather(*(producer_of(link, "group") for _ in range(2)))
    await loop_turns(3)
    assert not both.done()
    starting.may_begin.set()
    found: list[Any] = await both

    assert found[0] is found[1]
    assert found[0].is_started
    assert starting.made == 1


async def test_a_producer_that_could_not_begin_is_tried_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starting, link = Starting(monkeypatch), Mock()
    starting.may_begin.set()
    starting.failures.append(NoNameServer("none answers"))

    with pytest.raises(NoNameServer):
        await producer_of(link, "group")
    found: Any = await producer_of(link, "group")

    assert found.is_started
