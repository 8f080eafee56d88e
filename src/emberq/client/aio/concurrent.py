"""Concurrent consumption: messages of all queues go to workers, whichever is free.

A message that fails is given back to the broker; one that cannot be given back either is tried
again here. Its queue's offset moves only when all older messages are done.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from emberq.client.aio.client import Client
from emberq.client.aio.handlers import Batch, Handler, HandlerThreads, log_failure
from emberq.client.aio.queue_work import QueueWork
from emberq.client.aio.send_back import DEAD_LETTER_LEVEL, FIRST_RETRY_LEVEL, SendBack
from emberq.client.core.received import ReceivedMessage
from emberq.errors import DeadLetter, RetryLater
from emberq.model.queue import MessageQueue

log = logging.getLogger(__name__)

# What could not be given back is tried again here after this.
LOCAL_RETRY_S = 5.0
EXPIRY_BATCH_MAX = 16

Item = tuple[QueueWork, Handler, Batch]


class ConcurrentConsumption:
    """Workers for all queues of a consumer."""

    def __init__(
        self,
        client: Client,
        send_back: SendBack | None,
        *,
        handler_of: Callable[[str], Handler | None],
        workers: int,
        note_offset: Callable[[MessageQueue, int], None],
        on_consumed: Callable[[Handler, Batch, Exception | None, float], None],
    ) -> None:
        """`send_back` is None where failures are only logged: broadcasting."""
        self._client = client
        self._send_back = send_back
        self._handler_of = handler_of
        self._note_offset = note_offset
        self._on_consumed = on_consumed
        self._worker_count = workers
        self._threads: HandlerThreads | None = None
        self._waiting: deque[Item] = deque()
        self._has_work = asyncio.Event()
        self._busy = 0
        self._under_way: dict[ReceivedMessage, float] = {}
        # Told while the consumption drains.
        self._is_idle = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []
        self._is_closing = False

    def start(self) -> None:
        self._workers = [
            self._client.spawn(self._work(), f"consume-{number}")
            for number in range(self._worker_count)
        ]

    async def drain(self, timeout_s: float) -> int:
        """Let running handlers finish, hand out nothing new; returns how many did not finish."""
        self._is_closing = True
        self._waiting.clear()
        try:
            async with asyncio.timeout(timeout_s):
                while self._busy:
                    self._is_idle.clear()
                    await self._is_idle.wait()
        except TimeoutError:
            pass
        unfinished = self._busy
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        if self._threads is not None:
            self._threads.close()
        return unfinished

    def submit(self, work: QueueWork, messages: list[ReceivedMessage]) -> None:
        if self._is_closing:
            return
        handler = self._handler_of(messages[0].topic) if messages else None
        for message in messages:
            if message.topic != messages[0].topic:  # retries of several topics in one queue
                for each in messages:
                    self._submit_one(work, each)
                return
        if handler is None:
            self._skip(work, messages)
            return
        size = handler.batch_size
        self._waiting.extend(
            (work, handler, messages[start : start + size])
            for start in range(0, len(messages), size)
        )
        self._has_work.set()

    def _submit_one(self, work: QueueWork, message: ReceivedMessage) -> None:
        handler = self._handler_of(message.topic)
        if handler is None:
            self._skip(work, [message])
            return
        self._waiting.append((work, handler, [message]))
        self._has_work.set()

    def _skip(self, work: QueueWork, messages: Batch) -> None:
        """A retry of a topic that is no longer subscribed."""
        log.warning("no_handler message=%s", messages[0])
        self._done(work, messages)

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._has_work.clear()
                await self._has_work.wait()
            item = self._waiting.popleft()
            self._busy += 1
            try:
                if item[1].is_async:
                    await self._consume_async(*item)
                else:
                    await self._consume_in_thread(item)
            except Exception:
                log.exception("consumption_broken message=%s", item[2][0])
            finally:
                self._busy -= 1
                if self._is_closing and not self._busy:
                    self._is_idle.set()

    def _run_with(self, item: Item) -> list[Item]:
        """What one hop between threads takes: several batches when handlers are quick."""
        items = [item]
        handler = item[1]
        threads = self._threads_at_hand()
        fair = -(-len(self._waiting) // self._worker_count)
        for _ in range(min(threads.run_length - 1, fair)):
            if not self._waiting or self._waiting[0][1] is not handler:
                break
            items.append(self._waiting.popleft())
        return items

    async def _consume_async(self, work: QueueWork, handler: Handler, batch: Batch) -> None:
        if work.messages.is_dropped:
            return
        under_way = self._under_way
        started_at = time.monotonic()
        for message in batch:
            under_way[message] = started_at
        error = await handler.run_async(batch)
        for message in batch:
            under_way.pop(message, None)
        self._on_consumed(handler, batch, error, time.monotonic() - started_at)
        if error is not None:
            log_failure(handler, batch, error)
        if not work.messages.is_dropped:
            if error is None:
                self._done(work, batch)
            else:
                await self._finish(work, batch, error)

    async def _consume_in_thread(self, item: Item) -> None:
        """With others that wait for the same handler, if it is quick."""
        items = self._run_with(item)
        others = len(items) - 1
        self._busy += others
        try:
            await self._consume_run(item[1], items)
        finally:
            self._busy -= others

    async def _consume_run(self, handler: Handler, items: list[Item]) -> None:
        alive = [item for item in items if not item[0].is_dropped]
        started_at = time.monotonic()
        for _, _, batch in alive:
            for message in batch:
                self._under_way[message] = started_at
        if not alive:
            return
        outcomes = await self._threads_at_hand().run(handler, [batch for *_, batch in alive])
        took_s = (time.monotonic() - started_at) / len(alive)
        for (work, _, batch), error in zip(alive, outcomes, strict=True):
            for message in batch:
                self._under_way.pop(message, None)
            self._on_consumed(handler, batch, error, took_s)
            if error is not None:
                log_failure(handler, batch, error)
            if not work.is_dropped:
                await self._finish(work, batch, error)

    async def _finish(self, work: QueueWork, batch: Batch, error: Exception | None) -> None:
        if error is None or self._send_back is None:
            self._done(work, batch)
            return
        given_back: Batch = []
        for message in batch:
            if await self._send_back.give_back(message, _delay_level(error)):
                given_back.append(message)
            else:
                message.reconsume_times += 1
        if given_back:
            self._done(work, given_back)
        kept = [message for message in batch if message not in given_back]
        if kept:
            asyncio.get_running_loop().call_later(LOCAL_RETRY_S, self._again, work, kept)

    def _again(self, work: QueueWork, messages: Batch) -> None:
        if not work.is_dropped:
            self.submit(work, messages)

    def _done(self, work: QueueWork, messages: Batch) -> None:
        cached = work.messages
        work.consumed_at = time.monotonic()
        offset = cached.remove(messages)
        if offset >= 0 and not cached.is_dropped:
            self._note_offset(work.queue, offset)
        work.made_room()

    async def expire(self, works: list[QueueWork], older_than_s: float) -> None:
        """Give back messages whose handler has hung for too long, so that offsets move on."""
        if self._send_back is None:
            return
        limit = time.monotonic() - older_than_s
        for work in works:
            for _ in range(EXPIRY_BATCH_MAX):
                first = work.messages.first
                if first is None or self._under_way.get(first, limit) >= limit:
                    break
                log.warning("message_expired message=%s seconds=%d", first, older_than_s)
                if not await self._send_back.give_back(first, FIRST_RETRY_LEVEL):
                    break
                self._under_way.pop(first, None)
                if work.messages.first is first:
                    self._done(work, [first])

    def _threads_at_hand(self) -> HandlerThreads:
        if self._threads is None:
            self._threads = HandlerThreads(self._worker_count)
        return self._threads


def _delay_level(error: Exception) -> int:
    if isinstance(error, DeadLetter):
        return DEAD_LETTER_LEVEL
    if isinstance(error, RetryLater):
        return error.delay_level
    return 0  # the broker decides
