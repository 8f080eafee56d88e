"""The half queue of a broker: what goes in, how it ends, and how far it is settled.

The end of a transaction is two records: the message that consumers see, if there is one, and the
mark in the operation queue. They are appended in this order, so a crash between them makes the
broker ask once more; it never loses a message. How far both queues are settled is written down
(as offsets of the group CID_RMQ_SYS_TRANS) only when the log is durable up to there.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from emberq.broker.appending import Appended, Appender, OutgoingMessage
from emberq.broker.transactions.counts import TransactionCounts
from emberq.broker.transactions.half_ledger import HalfLedger, HalfState
from emberq.broker.transactions.half_messages import (
    HALF_QUEUE_ID,
    Properties,
    as_half,
    committed,
)
from emberq.broker.transactions.operations import (
    ENDED_TAG,
    OperationMarks,
    encode_operations,
    parse_operations,
)
from emberq.model.system_topics import HALF_OPERATION_TOPIC, HALF_TOPIC, TRANSACTION_GROUP
from emberq.record.decode import iter_records
from emberq.record.host import PackedHost
from emberq.record.properties import decode_properties
from emberq.record.property_names import REAL_TOPIC, TAGS, WAIT
from emberq.record.record import Record
from emberq.store.message_store import MessageStore
from emberq.store.reader import ReadLimits
from emberq.store.results import PutResult, PutStatus, ReadStatus

log = logging.getLogger(__name__)

OPERATION_QUEUE_ID = 0
OPERATIONS_PER_READ = 1024
OPERATIONS_SIZE_PER_READ_BYTES = 1024 * 1024

_OPERATION_PROPERTIES = {WAIT: "true", TAGS: ENDED_TAG}
_LIMITS = ReadLimits(
    count_max=OPERATIONS_PER_READ,
    size_max_bytes=OPERATIONS_SIZE_PER_READ_BYTES,
    count_max_on_disk=OPERATIONS_PER_READ,
    size_max_bytes_on_disk=OPERATIONS_SIZE_PER_READ_BYTES,
    scan_max=OPERATIONS_PER_READ,
)
_READABLE = (
    ReadStatus.FOUND,
    ReadStatus.NO_MATCHED_MESSAGE,
    ReadStatus.MESSAGE_WAS_REMOVING,
)


class PutCounter(Protocol):
    def count_put(
        self, topic: str, queue_id: int, count: int, size: int, time_ms: int = 0
    ) -> None: ...


class GroupOffsets(Protocol):
    """`ConsumerOffsets`, as far as it is needed."""

    def query(self, group: str, topic: str, queue_id: int) -> int: ...

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None: ...


class _Settled(Struct, frozen=True, gc=False):
    """May be written down when the log is durable up to `log_end`."""

    half_offset: int
    operation_offset: int
    log_end: int


class HalfQueue:
    """Lives on the loop's thread."""

    def __init__(
        self,
        store: MessageStore,
        appender: Appender,
        offsets: GroupOffsets,
        counts: TransactionCounts,
        statistics: PutCounter,
        *,
        broker_host: PackedHost,
        operation_size_max: Callable[[], int],
        now_ms: Callable[[], int],
        schedule: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        """`schedule` runs a call at the end of the loop's turn; without it, at once."""
        self._store = store
        self._appender = appender
        self._offsets = offsets
        self._counts = counts
        self._statistics = statistics
        self._broker_host = broker_host
        self._operation_size_max = operation_size_max
        self._now_ms = now_ms
        self._schedule = schedule
        self.ledger = HalfLedger(self._stored_offset(HALF_TOPIC))
        self.ledger.stored(store.max_offset(HALF_TOPIC, HALF_QUEUE_ID) - 1)
        self._marks = OperationMarks(self._stored_offset(HALF_OPERATION_TOPIC))
        # Operations from here on are this process's own.
        self._operations_end = store.max_offset(HALF_OPERATION_TOPIC, OPERATION_QUEUE_ID)
        self._unwritten: list[int] = []
        self._is_scheduled = False
        self._settled: _Settled | None = None

    def _stored_offset(self, topic: str) -> int:
        offset = self._offsets.query(TRANSACTION_GROUP, topic, 0)
        first, end = self._store.min_offset(topic, 0), self._store.max_offset(topic, 0)
        return min(max(offset, first), end)

    async def load(self) -> None:
        """Read what was ended before this process; nobody may be asked before that is known."""
        if self._marks.is_loaded:
            return  # the service that asked for it has begun anew
        offset, marks, count = self._marks.offset, [], 0
        while offset < self._operations_end:
            found = await asyncio.to_thread(
                self._store.read_waiting,
                HALF_OPERATION_TOPIC,
                OPERATION_QUEUE_ID,
                offset,
                _LIMITS,
            )
            if found.status not in _READABLE or found.next_offset <= offset:
                log.error("operations_unreadable offset=%d status=%s", offset, found.status.name)
                break
            for part in found.parts:
                for record in iter_records(memoryview(part), is_crc_checked=False):
                    if record.queue_offset < self._operations_end:
                        halves = _halves_of(record)
                        count += len(halves)
                        for half in halves:
                            self._settle_known(half)
                        marks.append((record.queue_offset, max(halves, default=-1)))
            offset = found.next_offset
        self._marks.loaded(marks)
        log.info(
            "transactions_loaded base=%d end=%d operations=%d ended=%d",
            self.ledger.base,
            self.ledger.end,
            len(marks),
            count,
        )

    def _settle_known(self, half: int) -> None:
        """An operation may name what the queue does not have: a damaged or foreign store."""
        if self.ledger.base <= half < self.ledger.end:
            self.ledger.settle(half, HalfState.ENDED)

    # Halves

    @property
    def is_full(self) -> bool:
        return self.ledger.is_full

    def put(self, message: OutgoingMessage) -> Appended:
        """Store a producer's message out of sight."""
        appended = self._appender.put_as_it_is(as_half(message))  # the sender's handler counts it
        if appended.result.status.is_stored:
            self.ledger.stored(appended.result.queue_offset)
            self._counts.add(message.topic, 1)
        return appended

    def put_again(self, half: Record, copy: OutgoingMessage) -> PutResult:
        """Begin anew with a half message; one that was given up is no copy of an open one."""
        is_open = self.ledger.state(half.queue_offset) is HalfState.OPEN
        if half.topic == HALF_TOPIC and is_open:
            return self.copy(half, copy)
        result = self._put(copy).result
        if result.status.is_stored:
            self.ledger.stored(result.queue_offset)
            self._counts.add(copy.properties[REAL_TOPIC], 1)
        return result

    def copy(self, half: Record, copy: OutgoingMessage) -> PutResult:
        """Let a copy at the end of the queue stand for a half message."""
        result = self._put(copy).result
        if result.status.is_stored:
            self.ledger.copied(half.queue_offset, result.queue_offset)
        return result

    def park(self, half: Record, copy: OutgoingMessage) -> PutResult:
        """Give a half message up; a copy of it is kept elsewhere."""
        result = self._put(copy).result
        if result.status.is_stored:
            self.ledger.settle(half.queue_offset, HalfState.PARKED)
            self._counts.add(copy.properties[REAL_TOPIC], -1)
        return result

    def skip(self, offset: int) -> None:
        """A half message cannot be read, or is none."""
        self.ledger.settle(offset, HalfState.PARKED)

    def leave(self, half: Record, properties: Properties) -> None:
        """A half message that no copy can stand for is not asked about; it can still be ended."""
        self.ledger.settle(half.queue_offset, HalfState.PARKED)
        self._counts.add(properties[REAL_TOPIC], -1)

    # Ends

    def end(self, half: Record, properties: Properties, *, is_commit: bool) -> PutStatus:
        """End a transaction. The first end counts; all later ones change nothing."""
        ledger = self.ledger
        offset = ledger.newest_copy(half.queue_offset)
        before = ledger.state(offset)
        if before is HalfState.ENDED:
            return PutStatus.PUT_OK
        if is_commit:
            message = committed(half, properties)
            appended = self._appender.put(message)
            if not appended.result.status.is_stored:
                return appended.result.status
            self._statistics.count_put(appended.topic, appended.queue_id, 1, appended.size)
        ledger.settle(offset, HalfState.ENDED)
        if before is HalfState.OPEN:
            self._counts.add(properties[REAL_TOPIC], -1)
        self._note_end(offset)
        return PutStatus.PUT_OK

    def _note_end(self, offset: int) -> None:
        self._unwritten.append(offset)
        if self._schedule is None:
            self.write_operations()
        elif not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(self.write_operations)

    def write_operations(self) -> None:
        """Mark in the log what was ended; what the store does not take now is tried again."""
        self._is_scheduled = False
        offsets, self._unwritten = self._unwritten, []
        written = 0
        for body, highest in encode_operations(offsets, self._operation_size_max()):
            operation = OutgoingMessage(
                topic=HALF_OPERATION_TOPIC,
                queue_id=OPERATION_QUEUE_ID,
                body=body,
                properties=_OPERATION_PROPERTIES,
                born_host=self._broker_host,
                born_at_ms=self._now_ms(),
            )
            result = self._put(operation).result
            if not result.status.is_stored:
                self._unwritten = offsets[written:] + self._unwritten
                log.warning(
                    "operations_unwritten count=%d reason=%s",
                    len(self._unwritten),
                    result.reason or result.status.name,
                )
                return
            written += body.count(b",")
            self._marks.add(result.queue_offset, highest)

    # How far all is settled

    def settle(self) -> None:
        """Write down how far the queues are settled, as far as the disk has it."""
        if self._unwritten:
            self.write_operations()
        lost = self.ledger.lost_before(self._store.min_offset(HALF_TOPIC, HALF_QUEUE_ID))
        if lost:
            log.warning("half_messages_expired count=%d", lost)
        base = self.ledger.advance()
        settled = self._settled
        if settled is not None:
            if self._store.flushed_offset < settled.log_end:
                return
            self._commit(settled)
            self._settled = None
        if self._unwritten:
            return  # an end that stands in no queue must not be forgotten
        operation_offset = max(
            self._marks.advance(base),
            self._store.min_offset(HALF_OPERATION_TOPIC, OPERATION_QUEUE_ID),
        )
        if (base, operation_offset) != self._committed():
            self._settled = _Settled(base, operation_offset, self._store.log.end)

    @property
    def is_settled(self) -> bool:
        return self._settled is None and not self._unwritten

    def _committed(self) -> tuple[int, int]:
        query = self._offsets.query
        return (
            query(TRANSACTION_GROUP, HALF_TOPIC, HALF_QUEUE_ID),
            query(TRANSACTION_GROUP, HALF_OPERATION_TOPIC, OPERATION_QUEUE_ID),
        )

    def _commit(self, settled: _Settled) -> None:
        commit = self._offsets.commit
        commit(TRANSACTION_GROUP, HALF_TOPIC, HALF_QUEUE_ID, settled.half_offset)
        commit(
            TRANSACTION_GROUP, HALF_OPERATION_TOPIC, OPERATION_QUEUE_ID, settled.operation_offset
        )

    def _put(self, message: OutgoingMessage) -> Appended:
        """Without a look at delays: those count for the message that consumers see."""
        appended = self._appender.put_as_it_is(message)
        if appended.result.status.is_stored:
            self._statistics.count_put(appended.topic, appended.queue_id, 1, appended.size)
        return appended


def _halves_of(operation: Record) -> list[int]:
    if decode_properties(operation.properties).get(TAGS) != ENDED_TAG:
        log.warning("operation_unknown offset=%d", operation.queue_offset)
        return []
    return parse_operations(bytes(operation.body))
