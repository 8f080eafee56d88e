"""Waiting for the disk on the loop."""

import asyncio

from emberq.store.message_store import MessageStore
from emberq.store.results import PutStatus


async def until_durable(store: MessageStore, log_end: int) -> PutStatus:
    """Wait until the log is durable up to a place; how that went."""
    durable: asyncio.Future[PutStatus] = asyncio.get_running_loop().create_future()

    def done(status: PutStatus) -> None:
        if not durable.done():  # who waited may have been cancelled
            durable.set_result(status)

    store.when_durable(log_end, done)
    return await durable
