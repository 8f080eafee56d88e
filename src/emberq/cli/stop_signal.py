"""How a server learns that it should stop."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def stop_requested(*, with_stdin: bool = False) -> asyncio.Event:
    """An event that is set by Ctrl-C, a request to terminate, or the end of standard input."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(name, stopped.set)
        except NotImplementedError:  # Windows: Ctrl-C ends the process
            break
    if with_stdin:
        _watch_stdin(stopped)
    return stopped


@contextmanager
def cancelled_by(stopped: asyncio.Event) -> Iterator[Callable[[], object]]:
    """Within the block the task is cancelled when it should stop, until it calls what it is given:
    a start may take long, and who has started stops in good order."""
    task = asyncio.current_task()
    assert task is not None

    async def cancel() -> None:
        await stopped.wait()
        task.cancel()

    watch = asyncio.ensure_future(cancel())
    try:
        yield watch.cancel
    finally:
        watch.cancel()


def _watch_stdin(stopped: asyncio.Event) -> None:
    """Who started us holds the other end: when it is gone, so is the reason to run."""
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()

    def read() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            stopped.set()

    try:
        loop.add_reader(descriptor, read)
    except NotImplementedError:  # Windows' loop watches sockets only
        return
