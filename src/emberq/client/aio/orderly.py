"""Orderly consumption: one batch per queue at a time, under a lock that the broker keeps.

A batch that fails is tried again before anything behind it; only its queue waits.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection

from emberq.client.aio.client import Client
from emberq.client.aio.handlers import Batch, Handler, HandlerThreads, log_failure
from emberq.client.aio.queue_work import QueueWork
from emberq.client.aio.send_back import SendBack
from emberq.client.core.received import ReceivedMessage
from emberq.errors import ClientError, DeadLetter, ProtocolError, RemotingError, SuspendQueue
from emberq.model.queue import MessageQueue
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.locks import LockedQueues, QueueLocks
from emberq.protocol.headers.groups import LockBatchMq, UnlockBatchMq

log = logging.getLogger(__name__)

# Trusted this long after the broker granted it; the broker keeps it twice as long.
LOCK_TRUSTED_S = 30.0
RELOCK_INTERVAL_S = 20.0
# While a queue of ours is not locked.
RELOCK_SOON_S = 1.0
LOCK_TIMEOUT_S = 1.0
SUSPEND_DEFAULT_S = 1.0
SUSPEND_MIN_S, SUSPEND_MAX_S = 0.01, 30.0


class QueueLock:
    """Locks of one group's queues, by broker."""

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group

    async def lock(
        self, queues: Collection[MessageQueue]
    ) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """Those that are ours now, and those that somebody else has. Of the others nothing is
        known: their broker did not answer."""
        locked: set[MessageQueue] = set()
        refused: set[MessageQueue] = set()
        for broker, own in _by_broker(queues).items():
            body = encode_body(self._body(own))
            try:
                answer = await self._client.call_broker(
                    broker, LockBatchMq(), body, timeout_s=LOCK_TIMEOUT_S, is_vip=True
                )
                granted = set(decode_body(LockedQueues, answer.body).queues)
            except (ClientError, RemotingError, ProtocolError) as error:
                log.warning("queues_not_locked broker=%s reason=%s", broker, error)
            else:
                locked |= granted
                refused |= set(own) - granted
        return locked, refused

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        for broker, own in _by_broker(queues).items():
            try:
                await self._client.call_broker(
                    broker,
                    UnlockBatchMq(),
                    encode_body(self._body(own)),
                    timeout_s=LOCK_TIMEOUT_S,
                    is_vip=True,
                )
            except (ClientError, RemotingError) as error:
                log.warning("queues_not_unlocked broker=%s reason=%s", broker, error)

    def _body(self, queues: list[MessageQueue]) -> QueueLocks:
        return QueueLocks(client_id=self._client.client_id, group=self._group, queues=queues)


class OrderlyConsumption:
    """One consuming task per queue; tasks of all queues share the workers."""

    def __init__(
        self,
        client: Client,
        send_back: SendBack,
        *,
        handler_of: Callable[[str], Handler | None],
        workers: int,
        reconsume_max: int | None,
        note_offset: Callable[[MessageQueue, int], None],
        on_consumed: Callable[[Handler, Batch, Exception | None, float], None],
    ) -> None:
        """`reconsume_max` None: a message is tried for ever, and its queue waits."""
        self._client = client
        self._send_back = send_back
        self._handler_of = handler_of
        self._room = asyncio.Semaphore(workers)
        self._worker_count = workers
        self._reconsume_max = reconsume_max
        self._note_offset = note_offset
        self._on_consumed = on_consumed
        self._threads: HandlerThreads | None = None
        self._tasks: dict[QueueWork, asyncio.Task[None]] = {}
        self._is_closing = False

    def start(self) -> None:
        """Tasks start with their queues."""

    async def drain(self, timeout_s: float) -> int:
        self._is_closing = True
        tasks = [task for task in self._tasks.values() if not task.done()]
        unfinished: set[asyncio.Task[None]] = set()
        if tasks:
            _, unfinished = await asyncio.wait(tasks, timeout=timeout_s)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
        if self._threads is not None:
            self._threads.close()
        return len(unfinished)

    def submit(self, work: QueueWork, messages: list[ReceivedMessage]) -> None:
        task = self._tasks.get(work)
        if not self._is_closing and (task is None or task.done()):
            self._tasks[work] = self._client.spawn(self._consume_all(work), "consume-in-order")

    def forget(self, work: QueueWork) -> None:
        self._tasks.pop(work, None)

    async def settle(self, work: QueueWork, timeout_s: float) -> bool:
        """Wait for the batch that is being consumed: its queue is about to go to somebody else.
        False: it still is."""
        task = self._tasks.get(work)
        if task is not None and not task.done():
            await asyncio.wait([task], timeout=timeout_s)
        return task is None or task.done()

    async def expire(self, works: list[QueueWork], older_than_s: float) -> None:
        """Order goes before time: nothing is skipped."""

    async def _consume_all(self, work: QueueWork) -> None:
        while not (work.is_dropped or work.is_leaving or self._is_closing):
            if not is_locked(work):
                await asyncio.sleep(SUSPEND_MIN_S * 10)
                continue
            batch = self._next_batch(work)
            if not batch:
                return
            try:
                await self._consume(work, batch)
            except Exception:
                # Never stop silently, and never go on behind a batch that is not done.
                log.exception("consumption_broken message=%s", batch[0])
                work.messages.put_back()
                await asyncio.sleep(SUSPEND_DEFAULT_S)

    async def _consume(self, work: QueueWork, batch: Batch) -> None:
        handler = self._handler_of(batch[0].topic)
        if handler is None:
            log.warning("no_handler message=%s", batch[0])
            self._commit(work)
            return
        async with self._room:
            error = await self._run(handler, batch)
        if error is None:
            self._commit(work)
        else:
            log_failure(handler, batch, error)
            await self._put_back(work, batch, error)

    def _next_batch(self, work: QueueWork) -> Batch:
        first = work.messages.first
        if first is None:
            return []
        handler = self._handler_of(first.topic)
        return work.messages.take(1 if handler is None else handler.batch_size)

    async def _run(self, handler: Handler, batch: Batch) -> Exception | None:
        started_at = time.monotonic()
        if handler.is_async:
            error = await handler.run_async(batch)
        else:
            if self._threads is None:
                self._threads = HandlerThreads(self._worker_count)
            [error] = await self._threads.run(handler, [batch])
        self._on_consumed(handler, batch, error, time.monotonic() - started_at)
        return error

    def _commit(self, work: QueueWork) -> None:
        work.consumed_at = time.monotonic()
        offset = work.messages.commit()
        if offset >= 0 and not work.is_dropped:
            self._note_offset(work.queue, offset)
        work.made_room()

    async def _put_back(self, work: QueueWork, batch: Batch, error: Exception) -> None:
        """The batch comes again after a pause; what has had its chances is given back."""
        is_over = isinstance(error, DeadLetter) or (
            self._reconsume_max is not None
            and all(message.reconsume_times >= self._reconsume_max for message in batch)
        )
        if is_over:
            level = -1 if isinstance(error, DeadLetter) else 0
            if all([await self._send_back.resend(message, level) for message in batch]):
                self._commit(work)
                return
        for message in batch:
            message.reconsume_times += 1
        work.messages.put_back()
        pause_s = error.seconds if isinstance(error, SuspendQueue) else SUSPEND_DEFAULT_S
        await asyncio.sleep(min(max(pause_s, SUSPEND_MIN_S), SUSPEND_MAX_S))


def is_locked(work: QueueWork) -> bool:
    return time.monotonic() < work.locked_until


def _by_broker(queues: Collection[MessageQueue]) -> dict[str, list[MessageQueue]]:
    brokers: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        brokers.setdefault(queue.broker_name, []).append(queue)
    return brokers
