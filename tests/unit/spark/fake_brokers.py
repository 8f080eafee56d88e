"""Brokers without sockets, and the link to them: topics come and go, messages expire."""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

from emberq.client.blocking.loop_thread import LoopThread
from emberq.client.core.scanned import QueueHead, ScanFilter, ScannedPart
from emberq.errors import BrokerError, BrokerNotFound, OffsetOutOfRange, SystemBusy, TopicNotFound
from emberq.model.queue import MessageQueue
from emberq.protocol.codes import ResponseCode
from emberq.record.encode import encode_record
from emberq.spark.links import retried
from emberq.store.consume_queue import ENTRY

T = TypeVar("T")
PULL_COUNT = 32


class FakeQueue:
    """Messages of which only the sizes of their bodies matter."""

    def __init__(self, count: int = 0, *, first: int = 0, size: int = 100) -> None:
        self.min_offset = first
        self.sizes = dict.fromkeys(range(first, first + count), size)

    @property
    def max_offset(self) -> int:
        return max(self.sizes, default=self.min_offset - 1) + 1

    def put(self, count: int, size: int = 100) -> None:
        stop = self.max_offset
        self.sizes |= dict.fromkeys(range(stop, stop + count), size)

    def expire_to(self, offset: int) -> None:
        self.min_offset = offset


class FakeBrokers:
    """The scans of the client, the routes behind them, and what a group has."""

    def __init__(self, *, is_official: bool = False) -> None:
        self.queues_there: dict[MessageQueue, FakeQueue] = {}
        self.away: set[str] = set()
        self.busy: set[str] = set()
        self.committed: dict[MessageQueue, int] = {}
        self.pins: dict[MessageQueue, int] = {}
        self.asked: list[tuple[str, MessageQueue, int, int]] = []  # entries and pulls
        self.per_part = 10**9
        self.damaged: set[int] = set()  # offsets, of any queue
        self.stores: dict[str, Any] = {}
        self.forgotten: list[str] = []  # topics
        self.asked_for_heads = 0
        self.timeouts_s: set[float | None] = set()  # of pulls
        self._is_official = is_official

    def add(self, *queues: MessageQueue, count: int = 0, **about: int) -> FakeQueue:
        for queue in queues:
            self.queues_there[queue] = FakeQueue(count, **about)
        return self.queues_there[queues[0]]

    async def queues(self, topic: str, *, is_fresh: bool = True) -> list[MessageQueue]:
        found = [
            queue
            for queue in self.queues_there
            if queue.topic == topic and queue.broker_name not in self.away
        ]
        if not found:
            raise TopicNotFound(f"no name server knows the topic {topic}")
        return found

    async def heads(
        self,
        queues: Collection[MessageQueue],
        group: str | None = None,
        *,
        lows_age_max_s: float = 0.0,
    ) -> dict[MessageQueue, QueueHead]:
        self.asked_for_heads += 1
        heads = {}
        for queue in queues:
            self._check_broker(queue)
            there = self.queues_there.get(queue)
            if there is not None:
                of_group = (self.committed.get(queue), self.pins.get(queue)) if group else ()
                heads[queue] = QueueHead(there.min_offset, there.max_offset, *of_group)
        return heads

    def requests_of_heads(self, queues: Collection[MessageQueue]) -> int:
        return len(queues) if self._is_official else 1

    async def offsets_by_time(
        self, times_ms: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int]:
        """A message is stored each millisecond."""
        return {
            queue: min(time_ms, self.queues_there[queue].max_offset)
            for queue, time_ms in times_ms.items()
        }

    async def entries(self, queue: MessageQueue, offset: int, count: int) -> ScannedPart | None:
        if self._is_official:
            return None
        found = self._found("entries", queue, offset, offset + count)
        content = b"".join(ENTRY.pack(1000 * at, found.sizes[at], 0) for at in found.sizes)
        return ScannedPart(content, found.next_offset, found.min_offset, found.max_offset)

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        end_offset: int,
        *,
        bytes_max: int = 0,
        wanted: ScanFilter | None = None,
        timeout_s: float | None = None,
    ) -> ScannedPart:
        """As official brokers do, also what is behind the end."""
        self.timeouts_s.add(timeout_s)
        stop = offset + PULL_COUNT if self._is_official else end_offset
        found = self._found("pull", queue, offset, stop)
        content = b"".join(
            encode_record(queue.topic, bytes(size), queue_offset=at)
            for at, size in found.sizes.items()
            if at not in self.damaged
        )
        damaged = tuple(at for at in found.sizes if at in self.damaged)
        return ScannedPart(content, found.next_offset, found.min_offset, found.max_offset, damaged)

    async def pin(self, group: str, starts: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        self.pins = {**starts, **self.pins}
        return {queue: self.pins[queue] for queue in starts}

    async def unpin(self, group: str, queues: Collection[MessageQueue]) -> None:
        topics = {(queue.topic, queue.broker_name) for queue in queues}
        for queue in [each for each in self.pins if (each.topic, each.broker_name) in topics]:
            del self.pins[queue]

    async def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        for queue in offsets:
            self._check_broker(queue)
        self.committed |= offsets

    def _found(self, what: str, queue: MessageQueue, first: int, stop: int) -> "_Found":
        self._check_broker(queue)
        there = self.queues_there.get(queue)
        if there is None:
            raise BrokerError(ResponseCode.TOPIC_NOT_EXIST, "no such topic", queue.broker_name)
        self.asked.append((what, queue, first, stop))
        low, high = there.min_offset, there.max_offset
        if not low <= first <= high:
            raise OffsetOutOfRange(str(queue), first, low, high)
        stop = min(stop, high, first + self.per_part)
        return _Found({at: there.sizes[at] for at in range(first, stop)}, max(first, stop), there)

    def _check_broker(self, queue: MessageQueue) -> None:
        names = {each.broker_name for each in self.queues_there} - self.away
        if queue.broker_name not in names:
            raise BrokerNotFound(f"no address of {queue.broker_name} is known")
        if queue.broker_name in self.busy:
            raise SystemBusy(ResponseCode.SYSTEM_BUSY, "busy", queue.broker_name)


class _Found:
    def __init__(self, sizes: dict[int, int], next_offset: int, queue: FakeQueue) -> None:
        self.sizes, self.next_offset = sizes, next_offset
        self.min_offset, self.max_offset = queue.min_offset, queue.max_offset


class FakeLink:
    """A link to fake brokers, with a thread of its own like a real one."""

    def __init__(self, brokers: FakeBrokers) -> None:
        self.scans = brokers
        self.client = self
        self._thread = LoopThread()

    def wrap(self, name: str) -> str:
        return name

    def forget(self, topic: str) -> None:
        self.scans.forgotten.append(topic)

    def wrapped(self, queue: MessageQueue) -> MessageQueue:
        return queue

    unwrapped = wrapped

    async def know(self, queue: MessageQueue) -> None:
        try:
            await self.scans.queues(queue.topic)
        except TopicNotFound:
            await self.check_present([queue.broker_name])
            raise

    async def check_present(self, broker_names: Collection[str] = ()) -> None:
        away = self.scans.away & set(broker_names)
        if away:
            raise BrokerNotFound(f"{', '.join(away)} is away")

    def run(self, work: Callable[[], Awaitable[T]], retries: int, wait_s: float = 0.0) -> T:
        return self._thread.run(retried(work, retries, wait_s))

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return self._thread.submit(work)

    def on_loop(self, call: Callable[[], object]) -> None:
        self._thread.call_soon(call)

    def close(self) -> None:
        self._thread.stop()


@contextmanager
def linked(brokers: FakeBrokers) -> Iterator[FakeLink]:
    """While it lasts, places and pulls find these brokers; nothing is waited for long."""
    link = FakeLink(brokers)
    with (
        patch("emberq.spark.broker_place.link_to", lambda _options: link),
        patch("emberq.spark.pulling.link_to", lambda _options: link),
        patch("emberq.spark.links.RETRY_PAUSE_FIRST_S", 0.0),
        patch("emberq.spark.pulling.STANDSTILL_PAUSE_S", 0.0),
        closing(link),
    ):
        yield link
