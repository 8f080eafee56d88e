"""Batches whose messages are stored unless they are (31006). docs/formats/send-once.md.

The key index is what is remembered: it survives a crash with the log, and costs no memory here.
Requests are looked at one after the other, each when the index knows the messages of the one
before, so that no two of them can both find a message missing.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from emberq.broker.appending import STORED_CODES
from emberq.broker.cold_reads import ColdReads
from emberq.broker.once_batches import new_messages, unique_keys
from emberq.errors import RequestRejected
from emberq.kernel.stored_properties import find_unique_key
from emberq.protocol.codes import EmberqCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.record.decode import decode_record
from emberq.record.record import Record
from emberq.remoting.connection import Connection
from emberq.remoting.registry import Answer, HandlerRegistry
from emberq.store.consume_queue import ENTRY
from emberq.store.message_store import MessageStore
from emberq.store.results import PutStatus

# Requests that wait for their turn, and what they weigh; more are told that the broker is busy.
WAITING_MAX = 256
WAITING_MAX_BYTES = 64 * 1024 * 1024
# Whoever sent a request that has waited so long has given it up (unless the `send.timeoutMs` of the
# sink is longer than by default) and sends it again: looking its messages up would only keep back
# the others.
TURN_WAIT_MAX_S = 10.0
# How long the index may be behind the log before requests are refused.
INDEX_WAIT_MAX_S = 5.0
INDEX_LOOK_S = 0.002
# Messages of one id that are looked at: others may carry it as a key of theirs.
CANDIDATES_MAX = 16
_TIME_MAX_MS = (1 << 63) - 1000


class _Waiting(Struct, frozen=True):
    command: Command
    connection: Connection
    topic: str
    keys: list[str]
    size: int
    came_at_s: float

    @property
    def is_given_up(self) -> bool:
        waited_s = time.monotonic() - self.came_at_s
        return self.connection.is_closed or waited_s > TURN_WAIT_MAX_S


class SendOnceHandler:
    """Lives on the loop's thread."""

    def __init__(
        self,
        *,
        store: MessageStore,
        send: Callable[[Command, Connection], Answer],
        cold_reads: ColdReads,
    ) -> None:
        """`send` stores a batch as 320 does."""
        self._store = store
        self._send = send
        self._cold_reads = cold_reads
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0  # with the one that is looked at
        self._is_at_work = False
        # The index must know the log up to here before anything is believed missing.
        self._needed_end = store.log.end

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(EmberqCode.SEND_ONCE, self.send_once)

    def send_once(self, command: Command, connection: Connection) -> Answer:
        if self._store.index is None:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                "without an index (messageIndexEnable) nobody knows what is stored",
            )
        size = len(command.body)
        is_too_much = self._waiting_bytes + size > WAITING_MAX_BYTES
        if len(self._waiting) >= WAITING_MAX or (self._waiting and is_too_much):
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, "too many sends wait for the index")
        # What is new is stored as by 320, where `m` says whether the body is a batch.
        fields = {**(command.fields or {}), "m": "true"}
        command.fields = fields
        keys = unique_keys(command.body)
        connection.requests_in_flight += 1
        self._waiting_bytes += size
        came_at_s = time.monotonic()
        self._waiting.append(
            _Waiting(command, connection, fields.get("b", ""), keys, size, came_at_s)
        )
        if not self._is_at_work:
            self._is_at_work = True
            self._next(INDEX_WAIT_MAX_S)
        return None

    def _next(self, patience_s: float) -> None:
        while self._waiting and self._waiting[0].is_given_up:
            self._answer(self._waiting.popleft(), _refuse_late)
        if not self._waiting:
            self._is_at_work = False
            return
        index = self._store.index
        assert index is not None
        if index.end_log_offset < self._needed_end:
            if patience_s <= 0:
                self._answer(self._waiting.popleft(), _refuse_behind)
                patience_s = INDEX_WAIT_MAX_S
            loop = asyncio.get_running_loop()
            loop.call_later(INDEX_LOOK_S, self._next, patience_s - INDEX_LOOK_S)
            return
        first = self._waiting.popleft()

        def done(stored: set[str] | BaseException) -> None:
            self._answer(first, lambda: self._store_new(first, stored))
            self._next(INDEX_WAIT_MAX_S)

        self._cold_reads.start(lambda: self._stored(first.topic, first.keys), done)

    def _answer(self, waiting: _Waiting, make: Callable[[], Answer]) -> None:
        self._waiting_bytes -= waiting.size
        waiting.connection.requests_in_flight -= 1
        waiting.connection.answer_with(waiting.command, make)

    def _store_new(self, asked: _Waiting, stored: set[str] | BaseException) -> Answer:
        if isinstance(stored, BaseException):
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, f"the index cannot be read: {stored}")
        command, connection = asked.command, asked.connection
        body = new_messages(command.body, asked.keys, stored)
        if body:
            command.body = body
            try:
                return self._send(command, connection)
            finally:
                self._needed_end = self._store.log.end
        if not self._store.config.is_sync_flush:
            return answer(command)

        def durable(status: PutStatus) -> None:
            """What is stored may not be on the disk yet, and who repeats it may rely on that."""
            code = STORED_CODES.get(status, ResponseCode.SYSTEM_ERROR)
            connection.answer_with(command, lambda: answer(command, code))

        self._store.when_durable(self._store.log.end, durable)
        return None

    def _stored(self, topic: str, keys: list[str]) -> set[str]:
        """Which ids a topic has; in a thread."""
        return {key for key in set(keys) if self._has(topic, key)}

    def _has(self, topic: str, key: str) -> bool:
        found = self._store.find_by_key(topic, key, CANDIDATES_MAX, 0, _TIME_MAX_MS)
        records = (decode_record(content, is_crc_checked=False) for content in found.records)
        return any(
            find_unique_key(record.properties) == key and self._is_queued(record)
            for record in records
        )

    def _is_queued(self, record: Record) -> bool:
        """Whether a message is one of its topic: log and index keep those of a topic that was
        deleted. What the index knows is in its queue already: dispatch goes there first."""
        queue = self._store.queues.get(record.topic, record.queue_id)
        offset = record.queue_offset
        if queue is None or not queue.min_offset <= offset < queue.end_offset:
            return False
        entry = queue.entries_from_disk(offset, 1)
        return len(entry) == ENTRY.size and ENTRY.unpack(entry)[0] == record.log_offset


def _refuse_late() -> Answer:
    raise RequestRejected(ResponseCode.SYSTEM_BUSY, "it has waited too long for its turn")


def _refuse_behind() -> Answer:
    raise RequestRejected(ResponseCode.SYSTEM_BUSY, "the index is behind the log")
