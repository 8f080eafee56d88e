"""A thread with an event loop, for programs that have none."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from emberq.client.identity import ProcessGuard
from emberq.errors import ClientClosed
from emberq.remoting.event_loop import loop_factory

T = TypeVar("T")

STOP_TIMEOUT_S = 5.0


class LoopThread:
    """Belongs to one blocking client. A daemon: a program that forgets to close it still ends."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._guard = ProcessGuard()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this thread."""
        return threading.current_thread() is self._thread

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for `work` on the loop; Ctrl-C cancels it."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Begin `work` on the loop. Raises ForkedClient, ClientClosed."""
        try:
            # A child of fork has the loop but not its thread: it would wait for ever.
            self._guard.check()
        except BaseException:
            work.close()
            raise
        loop = self._started()
        if self.is_current:
            work.close()
            raise ClientClosed(
                "a blocking call on the client's own loop would wait for itself",
                hint="Use emberq.aio in async handlers",
            )
        return asyncio.run_coroutine_threadsafe(work, loop)

    def call_soon(self, call: Callable[[], object]) -> None:
        """Have the loop call something; nothing happens any more if it was stopped."""
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(call)

    def stop(self) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join(STOP_TIMEOUT_S)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                factory = loop_factory() or asyncio.new_event_loop
                loop = self._loop = factory()
                self._thread = threading.Thread(
                    target=_run, args=(loop,), name="emberq-client", daemon=True
                )
                self._thread.start()
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()
