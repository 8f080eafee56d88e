"""Wakes held pulls: when messages arrive, when their time is over, and now and then."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from emberq.broker.config import BrokerConfig
from emberq.broker.held_pulls import HeldPull, HeldPulls
from emberq.store.consume_queue import ConsumeQueue

log = logging.getLogger(__name__)

DUE_CHECK_INTERVAL_S = 0.1
# Official brokers look at all held pulls so often; a pull whose filter passed over messages learns
# then how far it is.
RECHECK_INTERVAL_S = 5.0
SHORT_RECHECK_INTERVAL_S = 1.0
# After so much work others have their turn.
QUEUES_PER_TURN_MAX = 500
WORK_PER_TURN_MAX_S = 0.002


class Replay(Protocol):
    def __call__(self, held: HeldPull, *, is_last: bool) -> None: ...


class LongPolling:
    def __init__(
        self,
        held: HeldPulls,
        replay: Replay,
        *,
        max_offset: Callable[[str, int], int],
        config: Callable[[], BrokerConfig],
        steady_ms: Callable[[], int],
        write_answers: Callable[[], None],
    ) -> None:
        self._held = held
        self._replay = replay
        self._max_offset = max_offset
        self._config = config
        self._steady_ms = steady_ms
        self._write_answers = write_answers
        self._woken: deque[tuple[HeldPull, bool]] = deque()
        self._is_work_scheduled = False

    def queue_grown(self, queue: ConsumeQueue, end_offset: int) -> None:
        """Messages came. Called once per queue and turn, so a burst wakes a pull once."""
        for pull in self._held.waiting_for((queue.topic, queue.queue_id), end_offset):
            self._woken.append((pull, False))

    def run_woken(self) -> None:
        """All queues that have grown are told: now the pulls run."""
        if self._woken and not self._is_work_scheduled:
            self._work()

    def notify(self, topic: str, queue_id: int) -> None:
        """Look at the pulls of a queue again, whatever came."""
        self._wake(self._held.of_queue((topic, queue_id)), is_last=True)

    async def watch(self) -> None:
        """Answer pulls whose time is over; for ever."""
        recheck_ms = 0.0
        while True:
            await asyncio.sleep(DUE_CHECK_INTERVAL_S)
            now_ms = self._steady_ms()
            self._wake(self._held.due(now_ms), is_last=True)
            if now_ms >= recheck_ms:
                is_long = self._config().long_polling_enable
                interval_s = RECHECK_INTERVAL_S if is_long else SHORT_RECHECK_INTERVAL_S
                recheck_ms = now_ms + interval_s * 1000
                await self.recheck()

    async def recheck(self) -> None:
        """Answer pulls whose queue has grown, also if nothing was for them."""
        keys = self._held.queues()
        for start in range(0, len(keys), QUEUES_PER_TURN_MAX):
            for key in keys[start : start + QUEUES_PER_TURN_MAX]:
                grown = self._held.behind(key, self._max_offset(*key))
                if grown:
                    self._wake(grown, is_last=True)
            await asyncio.sleep(0)

    def answer_all(self) -> None:
        """The broker stops: nobody is left waiting."""
        self._wake(list(self._held), is_last=True)
        while self._woken:
            self._work()

    def _wake(self, pulls: list[HeldPull], *, is_last: bool) -> None:
        self._woken.extend((pull, is_last) for pull in pulls)
        self.run_woken()

    def _work(self) -> None:
        """Run woken pulls until there are none, or until others should have their turn."""
        self._is_work_scheduled = False
        deadline = time.perf_counter() + WORK_PER_TURN_MAX_S
        woken, replay = self._woken, self._replay
        while woken:
            pull, is_last = woken.popleft()
            if not pull.is_held:  # answered, or its connection is gone
                continue
            try:
                replay(pull, is_last=is_last)
            except Exception:  # one pull's trouble must reach neither the store nor other pulls
                log.exception("replay_failed topic=%s queue=%d", *pull.key)
                self._held.remove(pull)
            if woken and time.perf_counter() > deadline:
                self._is_work_scheduled = True
                asyncio.get_running_loop().call_soon(self._work)
                break
        self._write_answers()
