"""Records of a range of a queue from its broker, the next ones fetched while these are decoded."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from queue import SimpleQueue
from typing import TypeVar

from emberq.client.core.scanned import ScanFilter, ScannedPart
from emberq.errors import BrokerError, DataLost, OffsetOutOfRange, TopicNotFound
from emberq.protocol.codes import ResponseCode
from emberq.spark.links import Link, link_to, retried
from emberq.spark.options import SourceOptions
from emberq.spark.planning import QueueSlice

log = logging.getLogger(__name__)

T = TypeVar("T")

# A part that brings nothing and does not move on, so often in a row, is an error.
STANDSTILLS_MAX = 10
STANDSTILL_PAUSE_S = 0.05


def pulled(each: QueueSlice, options: SourceOptions) -> Iterator[bytes]:
    """Records one after the other; what is outside the range is the caller's to cut off.

    Raises:
        DataLost: they are gone, and the options say that this matters.
    """
    link = link_to(options.connection)
    parts: SimpleQueue[bytes | BaseException | None] = SimpleQueue()
    fetching = _Fetching(link, each, options, parts)
    work = link.submit(fetching.run())
    try:
        while (part := parts.get()) is not None:
            if isinstance(part, BaseException):
                raise part
            link.on_loop(fetching.room.release)
            yield part
    finally:
        work.cancel()


class _Fetching:
    """Runs on the loop, a few parts ahead of whoever decodes."""

    def __init__(
        self,
        link: Link,
        each: QueueSlice,
        options: SourceOptions,
        parts: "SimpleQueue[bytes | BaseException | None]",
    ) -> None:
        self._link = link
        self._slice = each
        self._queue = link.wrapped(each.queue)
        self._options = options
        self._parts = parts
        self._filter = ScanFilter(
            expression=options.expression, expression_type=options.expression_type
        )
        self.room = asyncio.Semaphore(options.pull.prefetch)

    async def run(self) -> None:
        try:
            await self._fetch()
        except Exception as error:
            self._parts.put(error)
        else:
            self._parts.put(None)

    async def _fetch(self) -> None:
        offset, stop = self._slice.first, self._slice.stop
        standstills = 0
        await self._retried(lambda: self._link.know(self._queue))
        while offset < stop:
            await self.room.acquire()
            try:
                part = await self._retried(lambda at=offset: self._pull(at))  # type: ignore[misc] # at is an int
            except (OffsetOutOfRange, TopicNotFound, BrokerError) as error:
                offset = self._after_loss(error, offset)
                self.room.release()
                continue
            if part.content:
                self._parts.put(part.content)
            else:
                self.room.release()
            standstills = 0 if part.next_offset > offset else standstills + 1
            if standstills > STANDSTILLS_MAX:
                raise DataLost(f"{self._name} does not go on at {offset}, before {stop}")
            if standstills:
                await asyncio.sleep(STANDSTILL_PAUSE_S)
            offset = max(offset, part.next_offset)

    async def _retried(self, work: Callable[[], Awaitable[T]]) -> T:
        return await retried(work, self._options.pull.retries, self._options.broker_wait_s)

    async def _pull(self, offset: int) -> ScannedPart:
        pull = self._options.pull
        return await self._link.scans.pull(
            self._queue,
            offset,
            self._slice.stop,
            bytes_max=pull.bytes_max,
            wanted=self._filter,
            timeout_s=pull.timeout_s,
        )

    def _after_loss(self, error: Exception, offset: int) -> int:
        """Where to go on, if that is allowed."""
        stop = self._slice.stop
        if isinstance(error, BrokerError) and error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise error
        is_moved = isinstance(error, OffsetOutOfRange) and error.min_offset > offset
        onward = min(error.min_offset, stop) if is_moved else stop  # type: ignore[attr-defined] # by the line above
        if self._options.fails_on_loss:
            raise DataLost(
                f"messages {offset} to {onward} of {self._name} are gone ({error}); "
                "failOnDataLoss=false goes on without them"
            )
        log.warning("messages_gone queue=%s from=%d to=%d", self._name, offset, onward)
        return onward

    @property
    def _name(self) -> str:
        queue = self._slice.queue
        return f"{queue.topic} {queue.broker_name}/{queue.queue_id}"
