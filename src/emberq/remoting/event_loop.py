"""Which event loop runs our programs: uvloop where it is installed, asyncio's own elsewhere."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# EMBERQ_LOOP=asyncio takes asyncio's own loop although uvloop is there.
_CHOICE = "EMBERQ_LOOP"


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """None stands for asyncio's default."""
    if os.environ.get(_CHOICE, "uvloop") != "uvloop":
        return None
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return None
    return uvloop.new_event_loop


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)
