"""Where a consumer keeps how far it is: at the broker, or in a file where it broadcasts."""

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from emberq.client.aio.queue_calls import NO_OFFSET, QueueCalls, firsts_and_others
from emberq.errors import ClientError, ProtocolError, RemotingError
from emberq.model.queue import MessageQueue
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.bodies.offsets import QueueOffsets
from emberq.protocol.fastjson import write_pretty_json
from emberq.stored_file import backup_of, replace_file

log = logging.getLogger(__name__)

# How often an offset is told to a broker that gives no answer: a second time with the next save,
# because official brokers may lose the first offsets of a group if its members tell them at once.
TELLINGS = 2


class OffsetStore(Protocol):
    def note(self, queue: MessageQueue, offset: int) -> None:
        """Everything below `offset` is consumed; never goes back."""

    def set(self, queue: MessageQueue, offset: int) -> None:
        """The same, also backwards."""

    def known(self, queue: MessageQueue) -> int:
        """-1: nothing is known here."""

    def forget(self, queue: MessageQueue) -> None: ...

    def say_again(self) -> None:
        """What was saved may be lost: a broker has restarted, or did not get it."""

    async def load(self, queue: MessageQueue) -> int:
        """What was kept before; -1: nothing. Raises ClientError, RemotingError."""

    async def save(self, queues: Collection[MessageQueue]) -> None:
        """Keep what is known of these queues; failures are logged, the next time comes."""

    async def hand_over(self, queues: Collection[MessageQueue]) -> None:
        """The same for queues that others will have, who must find it: brokers with many threads
        may serve the next member before they come to a request that waits for no answer."""


class _Offsets:
    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def note(self, queue: MessageQueue, offset: int) -> None:
        if offset > self._offsets.get(queue, NO_OFFSET):
            self._offsets[queue] = offset

    def set(self, queue: MessageQueue, offset: int) -> None:
        self._offsets[queue] = offset

    def known(self, queue: MessageQueue) -> int:
        return self._offsets.get(queue, NO_OFFSET)

    def forget(self, queue: MessageQueue) -> None:
        self._offsets.pop(queue, None)

    def say_again(self) -> None:
        """Here everything is saved each time."""


class BrokerOffsets(_Offsets):
    """Clustering: the group's offsets live with the queue's broker."""

    def __init__(self, calls: QueueCalls, group: str) -> None:
        super().__init__()
        self._calls = calls
        self._group = group
        self._told: dict[MessageQueue, tuple[int, int]] = {}  # offsets, and how often

    def forget(self, queue: MessageQueue) -> None:
        super().forget(queue)
        self._told.pop(queue, None)

    def say_again(self) -> None:
        self._told.clear()

    async def load(self, queue: MessageQueue) -> int:
        return await self._calls.committed(self._group, queue)

    async def save(self, queues: Collection[MessageQueue]) -> None:
        for queue in queues:
            offset = self.known(queue)
            told, times = self._told.get(queue, (NO_OFFSET, 0))
            times = times if told == offset else 0
            if offset < 0 or times == TELLINGS:
                continue
            try:
                await self._calls.commit(self._group, queue, offset)
                self._told[queue] = (offset, times + 1)
            except (ClientError, RemotingError) as error:
                log.warning("offset_not_saved queue=%s reason=%s", queue, error)

    async def hand_over(self, queues: Collection[MessageQueue]) -> None:
        for step in firsts_and_others(queues):
            await asyncio.gather(*map(self._hand_over, step))

    async def _hand_over(self, queue: MessageQueue) -> None:
        offset = self.known(queue)
        if offset < 0:
            return
        try:
            await self._calls.commit(self._group, queue, offset, is_oneway=False)
            self._told[queue] = (offset, TELLINGS)
        except (ClientError, RemotingError) as error:
            log.warning("offset_not_saved queue=%s reason=%s", queue, error)


class FileOffsets(_Offsets):
    """Broadcasting: every member has its own, in the official file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._is_loaded = False

    async def load(self, queue: MessageQueue) -> int:
        if not self._is_loaded:
            self._is_loaded = True
            for stored, offset in (await asyncio.to_thread(self._read)).items():
                self._offsets.setdefault(stored, offset)
        return self.known(queue)

    async def save(self, queues: Collection[MessageQueue]) -> None:
        table = QueueOffsets(offsets=dict(self._offsets))
        try:
            await asyncio.to_thread(self._write, write_pretty_json(table))
        except OSError as error:
            log.warning("offsets_not_saved path=%s reason=%s", self._path, error)

    async def hand_over(self, queues: Collection[MessageQueue]) -> None:
        """To nobody: every member has all queues."""
        await self.save(queues)

    def forget(self, queue: MessageQueue) -> None:
        """Kept: the file is the only place."""

    def _read(self) -> dict[MessageQueue, int]:
        for path in (self._path, backup_of(self._path)):
            try:
                content = path.read_bytes()
                if content.strip():
                    return decode_body(QueueOffsets, content).offsets
            except FileNotFoundError:
                continue
            except (OSError, ProtocolError) as error:
                log.warning("offsets_unreadable path=%s reason=%s", path, error)
        return {}

    def _write(self, content: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self._path, content)
