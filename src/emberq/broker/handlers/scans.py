"""Scans: records and entries of ranges of queues (31002, 31003). docs/formats/scan.md."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from emberq.broker.cold_reads import ColdReads
from emberq.broker.config import BrokerConfig
from emberq.broker.filters.message_filter import EVERYTHING, MessageFilter, carried_subscription
from emberq.broker.scan_turns import ScanTurns
from emberq.broker.topics import Topics
from emberq.errors import FilterError, RequestRejected
from emberq.model.topic import Permission
from emberq.protocol.answer_frame import AnswerFrame
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import Command
from emberq.protocol.headers.scans import ScanEntries, ScanPull
from emberq.protocol.subscriptions import ALL_TAGS, is_tag_type
from emberq.remoting.connection import Connection
from emberq.remoting.dispatch import OVERLOAD_REMARK
from emberq.remoting.registry import Answer, HandlerRegistry, Request
from emberq.store.consume_queue import ENTRY_SIZE, ConsumeQueue
from emberq.store.message_store import MessageStore
from emberq.store.reader import ReadLimits
from emberq.store.results import ReadResult, ReadStatus

H = TypeVar("H")
T = TypeVar("T")

PULL_SIZE_MAX_BYTES = 4 * 1024 * 1024
# Records of one pull, and entries looked at for it: a filter that finds little must not hold the
# loop while it looks.
PULL_COUNT_MAX = 32_768
FILTERED_SCAN_MAX = 8_000
ENTRIES_COUNT_MAX = 65_536
COLD_THREADS_MAX = 2

_FIELDS = ("nextOffset", "minOffset", "maxOffset")
_READ_TO = AnswerFrame(ResponseCode.SUCCESS, None, _FIELDS)
_OUTSIDE = AnswerFrame(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OUT_OF_RANGE", _FIELDS)
_READ = int(Permission.READ)


class ScanHandlers:
    def __init__(
        self,
        *,
        store: MessageStore,
        topics: Topics,
        cold_reads: ColdReads,
        turns: ScanTurns,
        config: Callable[[], BrokerConfig],
        steady_s: Callable[[], float],
    ) -> None:
        self._store = store
        self._topics = topics
        self._cold_reads = cold_reads
        self._turns = turns
        self._config = config
        self._steady_s = steady_s
        self._timer: asyncio.TimerHandle | None = None

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add_typed(ScanPull, self.pull)
        registry.add_typed(ScanEntries, self.entries)

    def pull(self, request: Request[ScanPull]) -> Answer:
        asked = request.header
        self._check(asked.topic, asked.queue_id)
        wanted = self._filter(asked)
        return self._in_turn(request, lambda: self._pull(request, wanted))

    def entries(self, request: Request[ScanEntries]) -> Answer:
        asked = request.header
        self._check(asked.topic, asked.queue_id)
        return self._in_turn(request, lambda: self._entries(request))

    # Turns

    def _in_turn(self, request: Request[H], serve: Callable[[], Answer]) -> Answer:
        """Answer now, or when the turn comes."""
        if self._turns.is_free(self._steady_s()):
            return self._timed(serve)
        if self._turns.is_full:
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, OVERLOAD_REMARK)
        command, connection = request.command, request.connection
        connection.requests_in_flight += 1

        def serve_later() -> None:
            connection.requests_in_flight -= 1
            if not connection.is_closed:
                connection.answer_with(command, lambda: self._timed(serve))

        self._turns.wait(serve_later)
        self._plan()
        return None

    def _timed(self, serve: Callable[[], Answer]) -> Answer:
        began = self._steady_s()
        answer: Answer = None
        try:
            answer = serve()
        finally:
            now = self._steady_s()
            size = sum(map(len, answer)) if isinstance(answer, list) else 0
            self._turns.served(now, now - began, size)
            self._plan()
        return answer

    def _plan(self) -> None:
        pause_s = self._turns.pause_s(self._steady_s())
        if pause_s is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(pause_s, self._turn)

    def _turn(self) -> None:
        self._timer = None
        serve = self._turns.next(self._steady_s())
        if serve is not None:
            serve()
        self._plan()

    # Reading

    def _pull(self, request: Request[ScanPull], wanted: MessageFilter) -> Answer:
        asked = request.header
        size_max = max(1, min(asked.max_bytes, PULL_SIZE_MAX_BYTES))
        count = max(1, min(asked.end_offset - asked.offset, PULL_COUNT_MAX))
        scanned = min(count, FILTERED_SCAN_MAX)
        is_filtered = wanted is not EVERYTHING
        limits = ReadLimits(
            count_max=scanned if is_filtered else count,
            size_max_bytes=size_max,
            count_max_on_disk=count,
            size_max_bytes_on_disk=size_max,
            scan_max=scanned,
        )
        queue = self._store.queues.get(asked.topic, asked.queue_id)
        reader = self._store.reader
        tests = wanted.accepts_entry, wanted.accepts_record
        result = reader.read(queue, asked.offset, limits, *tests)
        if result is not None:
            return _records(request.command, asked, result)
        self._in_thread(
            request,
            lambda: reader.read_waiting(queue, asked.offset, limits, *tests),
            lambda result: _records(request.command, asked, result),
        )
        return None

    def _entries(self, request: Request[ScanEntries]) -> Answer:
        asked, command = request.header, request.command
        queue = self._store.queues.get(asked.topic, asked.queue_id)
        if queue is None or not queue.min_offset <= asked.offset <= queue.end_offset:
            return _outside(command, asked.offset, queue)
        count = max(1, min(asked.max_count, ENTRIES_COUNT_MAX))
        content = queue.entries(asked.offset, count)
        if content is not None:
            return _entries_answer(command, asked.offset, queue, content)
        self._in_thread(
            request,
            lambda: queue.entries_from_disk(asked.offset, count),
            lambda content: _entries_answer(command, asked.offset, queue, content),
        )
        return None

    def _in_thread(
        self, request: Request[H], read: Callable[[], T], finish: Callable[[T], Answer]
    ) -> None:
        if self._cold_reads.is_full:
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, OVERLOAD_REMARK)
        connection: Connection = request.connection
        connection.requests_in_flight += 1

        def done(result: T | BaseException) -> None:
            connection.requests_in_flight -= 1

            def answer() -> Answer:
                if isinstance(result, BaseException):
                    raise result
                return finish(result)

            connection.answer_with(request.command, answer)

        self._cold_reads.start(read, done)

    # Checks

    def _check(self, topic_name: str, queue_id: int) -> None:
        topic = self._topics.get(topic_name)
        if topic is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic_name}] not exist, apply first please!"
            )
        if not self._config().broker_permission & topic.permission & _READ:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION, f"the topic[{topic_name}] pulling message is forbidden"
            )
        if not 0 <= queue_id < topic.read_queue_count:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{queue_id}] is illegal, topic:[{topic_name}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_count}]",
            )

    def _filter(self, asked: ScanPull) -> MessageFilter:
        if not asked.subscription or asked.subscription == ALL_TAGS:
            return EVERYTHING
        if not is_tag_type(asked.expression_type) and not self._config().enable_property_filter:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by "
                f"{asked.expression_type}",
            )
        try:
            return carried_subscription(
                asked.subscription, asked.expression_type, asked.topic
            ).filter
        except FilterError as error:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"the filter makes no sense: {error}"
            ) from None


def _records(command: Command, asked: ScanPull, result: ReadResult) -> Answer:
    low, high = max(result.min_offset, result.removed_to), result.max_offset
    if result.removed_to > asked.offset:  # with a filter nobody would miss them
        return _OUTSIDE.head(command, (asked.offset, low, high))
    if result.status is ReadStatus.FOUND:
        head = _READ_TO.head(command, (result.next_offset, low, high), result.size)
        return [head, *result.parts]
    if low <= asked.offset < high or asked.offset == high:
        next_offset = max(asked.offset, min(result.next_offset, high))
        return _READ_TO.head(command, (next_offset, low, high))
    return _OUTSIDE.head(command, (asked.offset, low, high))


def _entries_answer(command: Command, offset: int, queue: ConsumeQueue, content: bytes) -> Answer:
    next_offset = offset + len(content) // ENTRY_SIZE
    values = (next_offset, queue.min_offset, queue.end_offset)
    return [_READ_TO.head(command, values, len(content)), content]


def _outside(command: Command, offset: int, queue: ConsumeQueue | None) -> Answer:
    low, high = (0, 0) if queue is None else (queue.min_offset, queue.end_offset)
    frame = _READ_TO if offset == high else _OUTSIDE
    return frame.head(command, (offset, low, high))
