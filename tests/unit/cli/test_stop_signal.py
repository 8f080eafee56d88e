"""Stopping while a server starts, and after it."""

import asyncio

import pytest

from emberq.cli.stop_signal import cancelled_by
from tests.support.waiting import loop_turns


async def test_a_start_is_cancelled_when_it_should_stop() -> None:
    stopped = asyncio.Event()

    async def start() -> None:
        with cancelled_by(stopped):
            await asyncio.Event().wait()

    starting = asyncio.create_task(start())
    await loop_turns(2)
    stopped.set()

    with pytest.raises(asyncio.CancelledError):
        await starting


async def test_who_has_started_is_not_cancelled() -> None:
    stopped = asyncio.Event()
    with cancelled_by(stopped) as started:
        started()
        stopped.set()
        await loop_turns(3)
