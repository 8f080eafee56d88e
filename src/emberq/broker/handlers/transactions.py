"""Ends of transactions (37), and half messages that were given up and shall not have been (323)."""

import asyncio
import logging
from collections.abc import Callable

from emberq.broker.cold_reads import ColdReads
from emberq.broker.handlers.client_calls import CODE_NOT_SET_REMARK
from emberq.broker.settings import Settings
from emberq.broker.transactions.half_messages import Properties, is_deliverable, resumed
from emberq.broker.transactions.half_queue import HalfQueue
from emberq.broker.transactions.verdicts import is_too_late
from emberq.errors import ProtocolError, RecordError, RequestRejected
from emberq.model.system_topics import HALF_TOPIC, TRANSACTION_CHECK_MAX_TOPIC
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import ONEWAY_BIT, Command, answer
from emberq.protocol.header_fields import read_int32, read_int64
from emberq.protocol.headers.transactions import ResumeCheckHalfMessage
from emberq.record.decode import decode_record
from emberq.record.message_id import parse_offset_id
from emberq.record.properties import decode_properties
from emberq.record.property_names import PRODUCER_GROUP
from emberq.record.record import Record
from emberq.record.system_flag import TransactionType
from emberq.remoting.connection import Connection
from emberq.remoting.registry import Answer, HandlerRegistry, Request
from emberq.store.message_store import MessageStore
from emberq.store.results import PutStatus

log = logging.getLogger(__name__)

NOT_FOUND_REMARK = "Find prepared transaction message failed"
NOT_RESUMED_REMARK = "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC."
_COMMIT, _ROLLBACK = int(TransactionType.COMMIT), int(TransactionType.ROLLBACK)
_KINDS = (int(TransactionType.NONE), _COMMIT, _ROLLBACK)
_PLAIN_REFUSALS = {
    PutStatus.CREATE_MAPPED_FILE_FAILED: "Create mapped file failed.",
    PutStatus.OS_PAGE_CACHE_BUSY: "OS page cache busy, please try another machine",
}


class TransactionHandlers:
    def __init__(
        self,
        *,
        settings: Settings,
        store: MessageStore,
        halves: HalfQueue,
        cold_reads: ColdReads,
        now_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._store = store
        self._halves = halves
        self._cold_reads = cold_reads
        self._now_ms = now_ms

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(
            RequestCode.END_TRANSACTION,
            self.end,
            wait_max_ms=self._settings.config.transaction_wait_max_ms,
        )
        registry.add_typed(ResumeCheckHalfMessage, self.resume)

        self._settings.on_change(
            lambda config: registry.set_wait_max(
                RequestCode.END_TRANSACTION, config.transaction_wait_max_ms
            )
        )

    def end(self, command: Command, connection: Connection) -> Answer:
        """Commit or roll back. Which producer knows nothing is not answered: the broker will ask.

        Reads its few fields itself: there is one such request per transaction."""
        fields = command.fields or {}
        kind = read_int32(fields.get("commitOrRollback"))
        if kind not in _KINDS:
            raise ProtocolError(f"commitOrRollback is {kind}: expected 0, 8 or 12")
        if kind == TransactionType.NONE:
            return None
        log_offset = read_int64(fields.get("commitLogOffset"))
        if log_offset is None:
            raise ProtocolError("the field commitLogOffset is missing, or no number")
        content = self._store.record_at(log_offset)
        if content is not None:
            return self._end(command, kind, content)
        if not self._store.log.min_offset <= log_offset < self._store.log.end:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, NOT_FOUND_REMARK)
        if self._cold_reads.is_full:
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, "too many transactions wait for a disk")
        self._end_later(command, connection, kind, log_offset)
        return None

    def _end_later(
        self, command: Command, connection: Connection, kind: int, log_offset: int
    ) -> None:
        """An old half message has to be fetched from the disk first."""
        connection.requests_in_flight += 1

        def done(content: bytes | BaseException | None) -> None:
            connection.requests_in_flight -= 1
            found = None if isinstance(content, BaseException) else content
            connection.answer_with(command, lambda: self._end(command, kind, found))

        self._cold_reads.start(lambda: self._store.record_at_waiting(log_offset), done)

    def _end(self, command: Command, kind: int, content: bytes | None) -> Answer:
        if content is None:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, NOT_FOUND_REMARK)
        half = decode_record(content, is_crc_checked=False)
        properties = decode_properties(half.properties)
        fields = command.fields or {}
        self._check(half, properties, fields)
        status = self._halves.end(half, properties, is_commit=kind == _COMMIT)
        if not status.is_stored:
            raise self._refusal(status)
        if not command.flag & ONEWAY_BIT:
            self._halves.write_operations()  # what is answered must not be asked about again
        return answer(command, remark=CODE_NOT_SET_REMARK if kind == _ROLLBACK else None)

    def _check(self, half: Record, properties: Properties, fields: dict[str, str]) -> None:
        """Raises RequestRejected: this is not what the producer means."""
        is_from_check = fields.get("fromTransactionCheck", "false").lower() == "true"
        if not is_from_check and is_too_late(
            half, properties, self._now_ms(), self._settings.config.transaction_time_out
        ):
            raise RequestRejected(ResponseCode.ILLEGAL_OPERATION, CODE_NOT_SET_REMARK)
        trouble = None
        if properties.get(PRODUCER_GROUP) != fields.get("producerGroup"):
            trouble = "The producer group wrong"
        elif half.queue_offset != read_int64(fields.get("tranStateTableOffset")):
            trouble = "The transaction state table offset wrong"
        elif half.topic != HALF_TOPIC or not is_deliverable(properties):
            # Official brokers do not look at the topic: whoever names a message of another may
            # have it delivered again.
            trouble = NOT_FOUND_REMARK
        if trouble is not None:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, trouble)

    def _refusal(self, status: PutStatus) -> RequestRejected:
        """In the official words."""
        if status in (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED):
            return RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL,
                "The message is illegal, maybe msg body or properties length not matched. msg "
                "body length limit 128k, msg properties length limit 32k.",
            )
        if status is PutStatus.SERVICE_NOT_AVAILABLE:
            return RequestRejected(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "Service not available now.",
            )
        return RequestRejected(
            ResponseCode.SYSTEM_ERROR, _PLAIN_REFUSALS.get(status, "UNKNOWN_ERROR")
        )

    async def resume(self, request: Request[ResumeCheckHalfMessage]) -> Command:
        """Ask about a half message again, as if for the first time."""
        try:
            _, log_offset = parse_offset_id(request.header.message_id or "")
        except RecordError:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, NOT_RESUMED_REMARK) from None
        content = await asyncio.to_thread(self._store.record_at_waiting, log_offset)
        if content is None:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, NOT_RESUMED_REMARK)
        half = decode_record(content, is_crc_checked=False)
        properties = decode_properties(half.properties)
        is_one = half.topic in (HALF_TOPIC, TRANSACTION_CHECK_MAX_TOPIC)
        if not is_one or not is_deliverable(properties):
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, NOT_RESUMED_REMARK)
        result = self._halves.put_again(half, resumed(half, properties))
        if not result.status.is_stored:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."
            )
        log.info("transaction_resumed message=%s", request.header.message_id)
        return answer(request.command)
