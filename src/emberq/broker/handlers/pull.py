"""Pulls (11, 361): reading, long polling, answers.

Hot: one pull is one run through `_read` and `_finish`, without a task. What it may read is checked
in `broker/pull_terms.py`, what waits for messages is in `broker/held_pulls.py`, who wakes it is
`broker/long_polling.py`.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from msgspec import Struct

from emberq.broker.cold_reads import ColdReads
from emberq.broker.config import BrokerConfig
from emberq.broker.held_pulls import HOLD_MAX_MS, HeldPull, HeldPulls
from emberq.broker.offsets import ConsumerOffsets
from emberq.broker.pull_request import COMMITS_OFFSET, MAY_SUSPEND
from emberq.broker.pull_terms import PullChecks, PullTerms
from emberq.errors import RequestRejected
from emberq.protocol.answer_frame import AnswerFrame
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command
from emberq.remoting.connection import Connection
from emberq.remoting.dispatch import OVERLOAD_REMARK
from emberq.remoting.registry import Answer, HandlerRegistry
from emberq.store.consume_queue import ConsumeQueue
from emberq.store.message_store import MessageStore
from emberq.store.results import ReadResult, ReadStatus

MASTER_ID = 0
# Up to this size an answer is put together at once; larger ones are written in parts.
JOIN_MAX_BYTES = 64 * 1024

_FOUND = ReadStatus.FOUND
_NO_MATCH = ReadStatus.NO_MATCHED_MESSAGE
_EMPTY = (ReadStatus.NO_MESSAGE_IN_QUEUE, ReadStatus.NO_MATCHED_LOGIC_QUEUE)

_FIELDS = (
    *("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"),
    *("topicSysFlag", "groupSysFlag"),
)
_CODES = {
    ReadStatus.FOUND: ResponseCode.SUCCESS,
    ReadStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}
_FRAMES = {status: AnswerFrame(code, status.name, _FIELDS) for status, code in _CODES.items()}
_NOT_FOUND = ResponseCode.PULL_NOT_FOUND
_FOUND_FRAME = _FRAMES[ReadStatus.FOUND]
# A queue without messages, asked at its begin and elsewhere.
_EMPTY_FRAME = AnswerFrame(_NOT_FOUND, ReadStatus.NO_MESSAGE_IN_QUEUE.name, _FIELDS)
_EMPTY_MOVED_FRAME = AnswerFrame(
    ResponseCode.PULL_OFFSET_MOVED, ReadStatus.NO_MESSAGE_IN_QUEUE.name, _FIELDS
)
_RESET_FRAME = AnswerFrame(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", _FIELDS)


class GetStatistics(Protocol):
    """What is counted of pulls."""

    def count_get(
        self, group: str, topic: str, queue_id: int, count: int, size: int, time_ms: int = 0
    ) -> None: ...

    def note_get(self, found: bool, count: int) -> None: ...

    def note_get_ms(self, time_ms: int) -> None:
        """How long a read had to wait for the disk."""


class _Turn(Struct, gc=False):
    """One pull, from its arrival to its answer."""

    terms: PullTerms
    offset: int
    commit_offset: int
    command: Command
    connection: Connection
    read_ms: int = 0  # how long the disk was waited for


class PullHandlers:
    def __init__(
        self,
        *,
        store: MessageStore,
        checks: PullChecks,
        offsets: ConsumerOffsets,
        held: HeldPulls,
        cold_reads: ColdReads,
        statistics: GetStatistics,
        config: Callable[[], BrokerConfig],
        steady_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._queue_of = store.queues.get
        self._reader = store.reader
        self._checks = checks
        self._offsets = offsets
        self._held = held
        self._cold_reads = cold_reads
        self._statistics = statistics
        self._config = config
        self._steady_ms = steady_ms
        self.may_hold = True  # not any more when the broker stops

    def add_to(self, registry: HandlerRegistry) -> None:
        config = self._config()
        registry.add(
            RequestCode.PULL_MESSAGE,
            self.pull,
            wait_max_ms=float(config.wait_time_mills_in_pull_queue),
        )
        registry.add(
            RequestCode.LITE_PULL_MESSAGE,
            self.pull,
            wait_max_ms=float(config.wait_time_mills_in_lite_pull_queue),
        )

    def pull(self, command: Command, connection: Connection) -> Answer:
        terms, offset, commit_offset = self._checks.terms_of(
            command.fields or {}, command.code, connection.peer
        )
        return self._read(_Turn(terms, offset, commit_offset, command, connection), None, True)

    def replay(self, held: HeldPull, *, is_last: bool) -> None:
        """Run a held pull again: it is answered if it finds something, or if this is its end."""
        turn: _Turn = held.request
        connection = turn.connection
        try:
            turn.terms = self._checks.renewed(turn.terms, connection.peer)
            answer = self._read(turn, held, is_last)
        except Exception as error:
            self._held.remove(held)
            connection.answer_with(turn.command, partial(_fail, error))
        else:
            if answer is not None:
                connection.answer(turn.command, answer)

    def _read(self, turn: _Turn, held: HeldPull | None, is_last: bool) -> Answer:
        """One run of a pull: its first, or one of a pull that was held. If it is the last one, a
        held pull is answered now, whatever is found."""
        terms, offset = turn.terms, turn.offset
        topic, queue_id = terms.key
        queue = self._queue_of(topic, queue_id)
        reset = self._offsets.take_reset(terms.pull.group, topic, queue_id)
        if reset is not None and terms.config.use_server_side_reset_offset:
            return self._moved_by_reset(turn, held, reset)
        wanted = terms.filter
        if held is not None and not is_last and held.filter is wanted:
            offset = held.scanned_offset  # what lies before was looked at with the same filter
        result = self._reader.read(
            queue, offset, terms.limits, wanted.accepts_entry, wanted.accepts_record
        )
        if result is None:
            self._read_in_thread(turn, held, is_last, queue, offset)
            return None
        return self._finish(turn, held, is_last, result)

    def _read_in_thread(
        self,
        turn: _Turn,
        held: HeldPull | None,
        is_last: bool,
        queue: ConsumeQueue | None,
        offset: int,
    ) -> None:
        """Wait for the disk elsewhere; the answer leaves when it is there."""
        if self._cold_reads.is_full:
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, OVERLOAD_REMARK)
        if held is not None:
            self._held.remove(held)  # nobody else may begin a second read
        connection, terms, reader = turn.connection, turn.terms, self._reader
        connection.requests_in_flight += 1
        begun_at_ms = self._steady_ms()

        def done(result: ReadResult | BaseException) -> None:
            connection.requests_in_flight -= 1
            turn.read_ms = self._steady_ms() - begun_at_ms
            self._statistics.note_get_ms(turn.read_ms)

            def answer() -> Answer:
                if isinstance(result, BaseException):
                    raise result
                return self._finish(turn, held, is_last, result)

            connection.answer_with(turn.command, answer)

        wanted = terms.filter
        self._cold_reads.start(
            lambda: reader.read_waiting(
                queue, offset, terms.limits, wanted.accepts_entry, wanted.accepts_record
            ),
            done,
        )

    def _finish(
        self, turn: _Turn, held: HeldPull | None, is_last: bool, result: ReadResult
    ) -> Answer:
        terms, status = turn.terms, result.status
        pull = terms.pull
        is_found = status is _FOUND
        self._statistics.note_get(is_found, result.count)
        if held is not None:
            if status is _NO_MATCH and not is_last and self._stays_held(turn, held, result):
                return None
            self._held.remove(held)
        offsets = self._offsets
        offsets.note_pull(pull.group, pull.topic, pull.queue_id, result.next_offset)
        if held is None and pull.flag & COMMITS_OFFSET:
            offsets.commit(pull.group, pull.topic, pull.queue_id, turn.commit_offset)
        if is_found:
            self._statistics.count_get(
                pull.group, pull.topic, pull.queue_id, result.count, result.size, turn.read_ms
            )
            head = _FOUND_FRAME.head(turn.command, _values(terms, result), result.size)
            if result.size <= JOIN_MAX_BYTES:
                return b"".join((head, *result.parts))
            return [head, *result.parts]
        if status in _EMPTY:
            frame = _EMPTY_MOVED_FRAME if turn.offset else _EMPTY_FRAME
            is_waiting = not turn.offset
        else:
            frame = _FRAMES[status]
            is_waiting = _CODES[status] is _NOT_FOUND
        if is_waiting and held is None and pull.flag & MAY_SUSPEND and self._holds(turn):
            return None
        return frame.head(turn.command, _values(terms, result))

    def _moved_by_reset(self, turn: _Turn, held: HeldPull | None, offset: int) -> Answer:
        terms = turn.terms
        pull = terms.pull
        if held is not None:
            self._held.remove(held)
        self._offsets.note_pull(pull.group, pull.topic, pull.queue_id, offset)
        if held is None and pull.flag & COMMITS_OFFSET:
            self._offsets.commit(pull.group, pull.topic, pull.queue_id, turn.commit_offset)
        low, high = self._store.min_offset(*terms.key), self._store.max_offset(*terms.key)
        result = ReadResult(ReadStatus.OFFSET_TOO_SMALL, offset, low, high)
        return _RESET_FRAME.head(turn.command, _values(terms, result))

    # Waiting for messages

    def _holds(self, turn: _Turn) -> bool:
        """Keep a pull until messages come; False: it has to be answered now."""
        terms = turn.terms
        config, wait_ms = terms.config, terms.pull.suspend_ms
        if not config.long_polling_enable:
            wait_ms = config.short_polling_time_mills
        if wait_ms <= 0 or not self.may_hold:
            return False
        turn.command.fields = None  # they are read; there may be many that wait
        return self._held.hold(
            HeldPull(
                terms.key,
                turn.connection,
                turn,
                turn.offset,
                turn.offset,
                self._steady_ms() + min(wait_ms, HOLD_MAX_MS),
                terms.filter,
            )
        )

    def _stays_held(self, turn: _Turn, held: HeldPull, result: ReadResult) -> bool:
        """What came is not for this pull: it waits on, from behind it. Unless there is more that
        was not looked at: then it is told where to go on."""
        if not self.may_hold or turn.connection.is_closed:
            return False
        if result.next_offset < self._store.max_offset(*held.key):
            return False
        held.scanned_offset = result.next_offset
        held.filter = turn.terms.filter
        return held.is_held or self._held.hold(held)


def _fail(error: Exception) -> Answer:
    raise error


def _values(terms: PullTerms, result: ReadResult) -> tuple[int, ...]:
    group, suggested = terms.group, MASTER_ID
    if terms.config.slave_read_enable:
        suggested = group.broker_id_when_slow if result.is_behind_memory else group.broker_id
    return (
        suggested,
        result.next_offset,
        result.min_offset,
        result.max_offset,
        terms.topic.system_flag,
        group.system_flag,
    )
