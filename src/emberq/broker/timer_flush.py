"""Brings wheel, timer log and check file to the disk, never ahead of what they are about."""

import asyncio
import logging
from collections.abc import Callable

from emberq.broker.durable import until_durable
from emberq.seldom import Seldom
from emberq.store.message_store import MessageStore
from emberq.store.results import PutStatus
from emberq.store.timers.timer_store import TimerChanges, TimerStore

log = logging.getLogger(__name__)

# How often files of the timer log are looked for whose messages are deleted.
CLEAN_INTERVAL_MS = 30_000
FAILURE_LOGGED_EVERY_S = 10.0


class TimerFlush:
    """Lives on the loop's thread; writes in another, one flush at a time."""

    def __init__(
        self,
        store: MessageStore,
        timers: TimerStore,
        now_ms: Callable[[], int],
        on_round: Callable[[int], None],
    ) -> None:
        """`on_round` is called with the time before every flush."""
        self._on_round = on_round
        self._store = store
        self._timers = timers
        self._now_ms = now_ms
        self._seldom = Seldom(FAILURE_LOGGED_EVERY_S)
        self._cleaned_at_ms = now_ms()

    async def run(self, interval_s: float, is_stopping: asyncio.Event) -> None:
        """Flush now and then until the event is set."""
        while not is_stopping.is_set():
            try:
                async with asyncio.timeout(interval_s):
                    await is_stopping.wait()
            except TimeoutError:
                self._on_round(self._now_ms())
                await self.flush()
                await self._clean()

    async def flush(self, *, is_last: bool = False) -> bool:
        """Write what is new; False: that was not possible, and will be tried again."""
        changes = self._timers.changes(self._now_ms())
        if not (is_last or self._is_worth_it(changes)):
            return True
        # Copies of delivered messages, and those that wait, before anything says so.
        if await until_durable(self._store, self._store.log.end) is not PutStatus.PUT_OK:
            self._timers.not_written(changes)
            self._failed("messages are not durable")
            return False
        try:
            await asyncio.to_thread(self._timers.write, changes)
        except OSError as error:
            self._timers.not_written(changes)
            self._failed(error.strerror or str(error))
            return False
        self._timers.written(changes)
        return True

    def _is_worth_it(self, changes: TimerChanges) -> bool:
        """That time went on is no news: a timer in which nothing happens leaves the disk alone."""
        return bool(
            changes.units
            or changes.pages
            or changes.has_left_slots
            or changes.check.queue_offset != self._timers.check.queue_offset
        )

    async def _clean(self) -> None:
        now_ms = self._now_ms()
        if 0 <= now_ms - self._cleaned_at_ms < CLEAN_INTERVAL_MS:
            return
        self._cleaned_at_ms = now_ms
        try:
            await asyncio.to_thread(self._timers.remove_before, self._store.log.min_offset)
        except OSError as error:
            self._failed(error.strerror or str(error))

    def _failed(self, reason: str) -> None:
        held_back = self._seldom.held_back()
        if held_back is not None:
            log.error("timers_not_written reason=%s failed_before=%d", reason, held_back)
