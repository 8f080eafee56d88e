"""Messages that are put into a buffer and sent from a thread of their own; nobody waits."""

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from emberq.client.aio.producer import Producer
from emberq.client.blocking.loop_thread import LoopThread
from emberq.client.core.message import Message
from emberq.errors import EmberqError, MessageRefused

log = logging.getLogger(__name__)

BATCH_MAX = 200
RETRY_FIRST_S, RETRY_MAX_S = 0.2, 5.0
CLOSE_TIMEOUT_S = 5.0


class LogSending:
    """Belongs to one process. A forked child makes its own."""

    def __init__(self, make_producer: Callable[[], Producer], buffer_max: int) -> None:
        """`make_producer` is called on the loop of the thread."""
        self.process_id = os.getpid()
        # Messages that found no room, or that no broker will ever take.
        self.dropped = 0
        self._make_producer = make_producer
        self._buffer_max = buffer_max
        self._waiting: deque[Message] = deque()
        self._thread = LoopThread()
        self._running: Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_wanted = asyncio.Event()
        # Somebody has told the loop already that there is work.
        self._is_awake = False
        self._is_failing = False
        self._put_count = self._done_count = 0
        self._progress = threading.Condition()

    @property
    def is_own_thread(self) -> bool:
        return self._thread.is_current

    def put(self, message: Message) -> None:
        """Return at once. One thread at a time: the caller has a lock."""
        if len(self._waiting) >= self._buffer_max:
            self.dropped += 1
            return
        self._waiting.append(message)
        self._put_count += 1
        if self._is_awake:
            return
        self._is_awake = True
        if self._running is None:
            self._running = self._thread.submit(self._run())
        elif self._loop is not None:
            self._loop.call_soon_threadsafe(self._is_wanted.set)

    def flush(self, timeout_s: float) -> bool:
        """Wait for what was put so far; False: some of it is still here."""
        wanted, deadline = self._put_count, time.monotonic() + timeout_s
        with self._progress:
            while self._done_count < wanted:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return False
                self._progress.wait(left_s)
        return True

    def close(self) -> None:
        """Stop now; what is still here is lost."""
        self.dropped += len(self._waiting)
        if self._running is not None:
            self._thread.run(self._stop())
            self._thread.stop()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        producer = self._make_producer()
        try:
            while True:
                while self._waiting:
                    await self._send_some(producer)
                self._is_awake = False
                if not self._waiting:  # else somebody came meanwhile
                    await self._is_wanted.wait()
                    self._is_wanted.clear()
        finally:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await producer.close()
                await producer.client.close()

    async def _stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _send_some(self, producer: Producer) -> None:
        """Until it is sent: the buffer is where the waiting ends."""
        count = min(len(self._waiting), BATCH_MAX)
        batch = [self._waiting[number] for number in range(count)]
        pause_s = RETRY_FIRST_S
        while True:
            try:
                await producer.start()
                await producer.send_batch(batch)
            except MessageRefused as error:
                self.dropped += count
                log.warning("log_records_refused count=%d reason=%s", count, error)
                break
            except EmberqError as error:
                if not self._is_failing:
                    log.warning("log_records_wait topic=%s reason=%s", batch[0].topic, error)
                self._is_failing = True
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_MAX_S)
            except Exception:  # never stop silently: what comes later may be fine
                self.dropped += count
                log.exception("log_records_broken count=%d", count)
                break
            else:
                break
        if self._is_failing:
            log.warning("log_records_go_on topic=%s dropped=%d", batch[0].topic, self.dropped)
        self._is_failing = False
        with self._progress:
            for _ in range(count):
                self._waiting.popleft()
            self._done_count += count
            self._progress.notify_all()
