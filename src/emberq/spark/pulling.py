"""Records of ranges of queues from their broker, the next ones fetched while these are decoded."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from queue import SimpleQueue
from typing import TypeVar

from emberq.client.core.scanned import ScanFilter, ScannedPart
from emberq.errors import BrokerError, DataLost, OffsetOutOfRange, TopicNotFound
from emberq.protocol.codes import ResponseCode
from emberq.spark.links import Link, link_to, retried
from emberq.spark.options import PullOptions, SourceOptions
from emberq.spark.planning import Partition, QueueSlice

log = logging.getLogger(__name__)

T = TypeVar("T")

# A part that brings nothing and does not move on, so often in a row, is an error.
STANDSTILLS_MAX = 10
STANDSTILL_PAUSE_S = 0.05
# What a broker answers where there is no such topic, or no such queue of it.
_NOT_THERE = (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.INVALID_PARAMETER)


def pulled(each: QueueSlice, options: SourceOptions) -> Iterator[bytes]:
    """Records one after the other; what is outside the range is the caller's to cut off.

    Raises:
        DataLost: they are gone, and the options say that this matters.
    """
    for _, contents in pulled_in_turn((each,), options):
        yield from contents


def pulled_in_turn(
    partition: Partition, options: SourceOptions
) -> Iterator[tuple[QueueSlice, Iterator[bytes]]]:
    """The same for several ranges. All of one must be taken before the next one is asked for."""
    link = link_to(options.connection)
    ahead = _Ahead(link, options.pull)
    work = link.submit(_fetch_all(link, partition, options, ahead))
    try:
        for each in partition:
            yield each, ahead.taken()
    finally:
        work.cancel()


class _Ahead:
    """What was fetched and not taken yet: a few pulls, or many small ones of as many bytes.

    Two threads share it, and each has a count of its own. Who decodes wakes the loop only if that
    waits: a call into another thread costs more than a small pull.
    """

    def __init__(self, link: Link, pull: PullOptions) -> None:
        self._link = link
        self._bytes_max = (pull.prefetch - 1) * pull.bytes_max
        self._parts: SimpleQueue[bytes | BaseException | None] = SimpleQueue()
        self._fetched_bytes = self._taken_bytes = 0
        self._has_room = asyncio.Event()
        self._is_waited_for = False

    # On the loop

    async def room(self) -> None:
        """Wait until one more pull may be made."""
        while self._fetched_bytes - self._taken_bytes > self._bytes_max:
            self._has_room.clear()
            self._is_waited_for = True
            # What was taken before that could be seen woke nobody.
            if self._fetched_bytes - self._taken_bytes > self._bytes_max:
                await self._has_room.wait()
            self._is_waited_for = False

    def put(self, part: bytes | BaseException | None) -> None:
        """The next part; None: the range ends; what went wrong."""
        if isinstance(part, bytes):
            self._fetched_bytes += len(part)
        self._parts.put(part)

    # Where rows are decoded

    def taken(self) -> Iterator[bytes]:
        """The parts of one range."""
        while (part := self._parts.get()) is not None:
            if isinstance(part, BaseException):
                raise part
            self._taken_bytes += len(part)
            if self._is_waited_for:
                self._link.on_loop(self._has_room.set)
            yield part


def is_loss(error: Exception) -> bool:
    """Whether messages are not there any more, or their queue or topic is not."""
    if isinstance(error, BrokerError):
        return error.code in _NOT_THERE
    return isinstance(error, OffsetOutOfRange | TopicNotFound | DataLost)


def after_loss(each: QueueSlice, offset: int, error: Exception, options: SourceOptions) -> int:
    """Where a range goes on behind what is gone, if that is allowed.

    Raises:
        DataLost: it is not.
    """
    if not is_loss(error):
        raise error
    onward = each.stop
    if isinstance(error, OffsetOutOfRange) and error.min_offset > offset:
        onward = min(error.min_offset, onward)
    name = _name(each)
    if options.fails_on_loss:
        raise DataLost(
            f"messages {offset} to {onward} of {name} are gone ({error}); "
            "failOnDataLoss=false goes on without them"
        )
    log.warning("messages_gone queue=%s from=%d to=%d reason=%s", name, offset, onward, error)
    return onward


def _name(each: QueueSlice) -> str:
    queue = each.queue
    return f"{queue.topic} {queue.broker_name}/{queue.queue_id}"


async def _fetch_all(
    link: Link, partition: Partition, options: SourceOptions, ahead: _Ahead
) -> None:
    known: set[tuple[str, str]] = set()
    try:
        for each in partition:
            fetching = _Fetching(link, each, options, ahead)
            place = (each.queue.topic, each.queue.broker_name)
            if place in known or await fetching.know():
                known.add(place)
                await fetching.run()
            ahead.put(None)
    except Exception as error:
        ahead.put(error)


class _Fetching:
    """Runs on the loop, a few parts ahead of whoever decodes."""

    def __init__(self, link: Link, each: QueueSlice, options: SourceOptions, ahead: _Ahead) -> None:
        self._link = link
        self._slice = each
        self._queue = link.wrapped(each.queue)
        self._options = options
        self._ahead = ahead
        self._filter = ScanFilter(
            expression=options.expression, expression_type=options.expression_type
        )

    async def know(self) -> bool:
        """Have the broker's address; False: the topic is gone, and may be."""
        try:
            await self._retried(lambda: self._link.know(self._queue))
        except TopicNotFound as error:
            after_loss(self._slice, self._slice.first, error, self._options)
            return False
        return True

    async def run(self) -> None:
        offset, stop = self._slice.first, self._slice.stop
        standstills = 0
        while offset < stop:
            await self._ahead.room()
            try:
                part = await self._retried(lambda at=offset: self._pull(at))  # type: ignore[misc] # at is an int
            except (OffsetOutOfRange, TopicNotFound, BrokerError) as error:
                offset = after_loss(self._slice, offset, error, self._options)
                continue
            if part.damaged:
                self._tell_damage(part.damaged)
            if part.content:
                self._ahead.put(part.content)
            standstills = 0 if part.next_offset > offset else standstills + 1
            if standstills > STANDSTILLS_MAX:
                missing = DataLost(f"the queue does not go on at {offset}")
                offset = after_loss(self._slice, offset, missing, self._options)
                continue
            if standstills:
                await asyncio.sleep(STANDSTILL_PAUSE_S)
            offset = max(offset, part.next_offset)

    def _tell_damage(self, offsets: Collection[int]) -> None:
        """Of an official broker; with a filter nobody would miss such messages. Raises DataLost."""
        own = [offset for offset in offsets if offset < self._slice.stop]
        if own and self._options.fails_on_loss:
            raise DataLost(
                f"messages {own} of {_name(self._slice)} are damaged; "
                "failOnDataLoss=false goes on without them"
            )

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
