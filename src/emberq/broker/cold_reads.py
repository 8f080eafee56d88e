"""Reads that have to wait for the disk, in few threads, so that the loop does not."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")

THREADS_MAX = 8
# Reads that wait for a thread; who comes then is told that the broker is busy.
WAITING_MAX = 10_000


class ColdReads:
    def __init__(self, threads_max: int = THREADS_MAX, waiting_max: int = WAITING_MAX) -> None:
        self._threads = ThreadPoolExecutor(threads_max, thread_name_prefix="cold-read")
        self._waiting_max = waiting_max
        self.count = 0

    @property
    def is_full(self) -> bool:
        return self.count >= self._waiting_max

    def start(self, read: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `read` in a thread, then `done` with what it returned or raised on the loop."""
        loop = asyncio.get_running_loop()
        self.count += 1

        def finish(result: T | BaseException) -> None:
            self.count -= 1
            done(result)

        def run() -> None:
            try:
                result: T | BaseException = read()
            except Exception as error:  # the loop decides what becomes of it
                result = error
            try:
                loop.call_soon_threadsafe(finish, result)
            except RuntimeError:  # the loop is closed: nobody waits any more
                log.debug("cold_read_too_late")

        self._threads.submit(run)

    def close(self) -> None:
        """Wait for the reads that are under way: the store's files close next."""
        self._threads.shutdown(wait=True, cancel_futures=True)
