"""Who wakes held pulls, and when."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from emberq.broker import long_polling
from emberq.broker.config import BrokerConfig
from emberq.broker.held_pulls import HeldPull, HeldPulls
from emberq.broker.long_polling import LongPolling
from emberq.store.consume_queue import ConsumeQueue
from tests.support.waiting import until


class Bench:
    """Long polling with a list in place of pulls."""

    def __init__(self, **config: Any) -> None:
        self.held = HeldPulls()
        self.ends: dict[tuple[str, int], int] = {}
        self.now_ms = 0
        self.replayed: list[tuple[HeldPull, bool]] = []
        self.written_count = 0
        self.is_answering = True
        self.polling = LongPolling(
            self.held,
            self.replay,
            max_offset=lambda topic, queue_id: self.ends.get((topic, queue_id), 0),
            config=lambda: BrokerConfig(**config),
            steady_ms=lambda: self.now_ms,
            write_answers=self.note_write,
        )

    def note_write(self) -> None:
        self.written_count = len(self.replayed)

    def replay(self, held: HeldPull, *, is_last: bool) -> None:
        self.replayed.append((held, is_last))
        if self.is_answering or is_last:
            self.held.remove(held)

    def hold(self, queue_id: int = 0, offset: int = 5, deadline_ms: int = 1_000) -> HeldPull:
        pull = HeldPull(("T", queue_id), "a", None, offset, offset, deadline_ms)
        self.held.hold(pull)
        return pull

    def grow(self, end_offset: int, queue_id: int = 0) -> None:
        self.ends["T", queue_id] = end_offset
        queue = cast(ConsumeQueue, SimpleNamespace(topic="T", queue_id=queue_id))
        self.polling.queue_grown(queue, end_offset)
        self.polling.run_woken()


def test_a_message_wakes_the_pulls_of_its_queue_at_once() -> None:
    bench = Bench()
    waiting = bench.hold()
    bench.hold(queue_id=1)

    bench.grow(6)

    assert bench.replayed == [(waiting, False)]


def test_answers_of_woken_pulls_are_written_when_all_have_run() -> None:
    bench = Bench()
    for _ in range(3):
        bench.hold()

    bench.grow(6)

    assert bench.written_count == 3


def test_what_is_known_already_wakes_nobody() -> None:
    bench = Bench()
    bench.hold(offset=5)

    bench.grow(5)

    assert bench.replayed == []


async def test_a_pull_that_finds_nothing_for_it_is_told_so_by_the_regular_check() -> None:
    bench = Bench()
    bench.is_answering = False
    waiting = bench.hold()
    bench.grow(6)
    assert len(bench.held) == 1

    await bench.polling.recheck()

    assert bench.replayed == [(waiting, False), (waiting, True)]
    assert len(bench.held) == 0


async def test_the_regular_check_leaves_queues_alone_that_did_not_grow() -> None:
    bench = Bench()
    bench.hold(offset=5)
    bench.ends["T", 0] = 5

    await bench.polling.recheck()

    assert bench.replayed == []


def test_notify_answers_whatever_came() -> None:
    bench = Bench()
    waiting = bench.hold()

    bench.polling.notify("T", 0)

    assert bench.replayed == [(waiting, True)]


def test_a_stop_answers_everybody() -> None:
    bench = Bench()
    for number in range(3):
        bench.hold(queue_id=number)

    bench.polling.answer_all()

    assert [is_last for _, is_last in bench.replayed] == [True] * 3


async def test_a_failure_ends_one_pull_and_no_other() -> None:
    bench = Bench()
    first, second = bench.hold(), bench.hold()

    def replay(held: HeldPull, *, is_last: bool) -> None:
        if held is first:
            raise RuntimeError("broken")
        bench.replay(held, is_last=is_last)

    bench.polling._replay = replay
    bench.grow(6)

    await until(lambda: bench.replayed == [(second, False)])
    assert len(bench.held) == 0


async def test_the_watch_answers_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_polling, "DUE_CHECK_INTERVAL_S", 0.001)
    bench = Bench()
    due, not_due = bench.hold(deadline_ms=1_000), bench.hold(deadline_ms=9_000)
    watch = asyncio.create_task(bench.polling.watch())

    bench.now_ms = 1_200
    await until(lambda: bool(bench.replayed))
    watch.cancel()

    assert bench.replayed == [(due, True)]
    assert list(bench.held) == [not_due]


async def test_many_woken_pulls_leave_others_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_polling, "WORK_PER_TURN_MAX_S", 0.0)
    bench = Bench()
    for _ in range(10):
        bench.hold()

    bench.grow(6)
    assert 0 < len(bench.replayed) < 10
    await until(lambda: len(bench.replayed) == 10)

    assert len(bench.held) == 0
