"""Cleaning that an administrator asks for instead of waiting for it (306, 316, 329)."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from emberq.broker.topics import Topics
from emberq.errors import StoreError
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry

log = logging.getLogger(__name__)


class CleanableStore(Protocol):
    """All of these may wait for the disk."""

    def clean_expired_queues(self) -> int: ...
    def clean_unused_topics(self, kept: set[str]) -> int: ...
    def delete_expired_segments(self) -> int: ...


class CleaningHandlers:
    """Answers come when the work is done."""

    def __init__(self, *, store: CleanableStore, topics: Topics) -> None:
        self._store = store
        self._topics = topics

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, self.clean_queues)
        registry.add(RequestCode.CLEAN_UNUSED_TOPIC, self.clean_topics)
        registry.add(RequestCode.DELETE_EXPIRED_COMMITLOG, self.delete_segments)

    async def clean_queues(self, command: Command, connection: Connection) -> Command:
        return await _do(command, connection, self._store.clean_expired_queues)

    async def clean_topics(self, command: Command, connection: Connection) -> Command:
        """Queues on disk whose topic is in no table; topics without messages stay."""
        kept = set(self._topics.names())
        return await _do(command, connection, lambda: self._store.clean_unused_topics(kept))

    async def delete_segments(self, command: Command, connection: Connection) -> Command:
        return await _do(command, connection, self._store.delete_expired_segments)


async def _do(command: Command, connection: Connection, work: Callable[[], int]) -> Command:
    name = RequestCode(command.code).name.lower()
    try:
        count = await asyncio.to_thread(work)
    except (OSError, StoreError) as error:
        log.error("%s_failed reason=%s", name, error)  # noqa: TRY400 - not our bug
        return answer(command, ResponseCode.SYSTEM_ERROR, str(error))
    log.info("%s peer=%s deleted=%d", name, connection.peer, count)
    return answer(command)
