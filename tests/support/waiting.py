"""Waiting for something to become true, never for time to pass."""

import asyncio
from collections.abc import Callable

# Long enough for a busy machine; a test that needs it has failed anyway.
DEADLINE_S = 45.0
_LOOK_AGAIN_S = 0.001


async def until(condition: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    """Return as soon as `condition()` is true; fail at the deadline."""
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - any expression may be waited for
            await asyncio.sleep(_LOOK_AGAIN_S)


async def loop_turns(count: int) -> None:
    """Let everything run that is ready, `count` times."""
    for _ in range(count):
        await asyncio.sleep(0)
