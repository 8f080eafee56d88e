"""What an object leaves behind: tasks, threads, sockets."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from tests.support.waiting import DEADLINE_S, until

DESCRIPTORS = Path("/proc/self/fd")
# Of loops themselves, for host names and files; they stay for the next one who needs them.
SHARED_THREADS = ("asyncio_", "uvloop_")


def sockets() -> set[str]:
    """Open ones, by inode; those of no interest to anybody are closed by then."""
    found = set()
    for entry in DESCRIPTORS.iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


def threads() -> set[threading.Thread]:
    return {
        thread for thread in threading.enumerate() if not thread.name.startswith(SHARED_THREADS)
    }


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Fail if the block leaves a task of this loop, a thread or a socket behind."""
    before = asyncio.all_tasks(), sockets(), threads()
    yield
    await asyncio.sleep(0)  # what was cancelled ends in the loop's next turn
    tasks = asyncio.all_tasks() - before[0]
    assert not tasks, f"tasks left: {tasks}"
    # A transport closes its socket, and a thread ends, a moment later.
    await until(lambda: sockets() <= before[1])
    await until(lambda: threads() <= before[2])


@contextmanager
def no_thread_left() -> Iterator[None]:
    """The same for programs without a loop."""
    before = sockets(), threads()
    yield
    deadline = time.monotonic() + DEADLINE_S
    while not (threads() <= before[1] and sockets() <= before[0]):
        assert time.monotonic() < deadline, (threads() - before[1], sockets() - before[0])
        time.sleep(0.01)  # handlers' threads end when they find no more work
