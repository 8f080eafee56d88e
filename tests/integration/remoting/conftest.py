"""Every test of this folder runs on both event loops and must leave nothing behind."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from tests.support.waiting import until


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
async def nothing_left_behind() -> AsyncIterator[None]:
    """No exception that only the loop saw, no task that outlives the test."""
    loop = asyncio.get_running_loop()
    own = asyncio.all_tasks()
    troubles: list[object] = []
    loop.set_exception_handler(
        lambda _, context: troubles.append(context.get("exception") or context)
    )

    yield

    await until(lambda: asyncio.all_tasks() <= own | {asyncio.current_task()})
    loop.set_exception_handler(None)
    assert troubles == []
