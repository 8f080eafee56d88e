"""Putting messages: from values to records at the end of the log."""

import logging
from collections.abc import Callable, Sequence

from msgspec import Struct

from emberq.errors import RecordError
from emberq.record.encode import encode_common_record, encode_record
from emberq.record.host import PackedHost
from emberq.record.layout import BLANK_SIZE_MIN, IPV4_HOST_SIZE, BytesLike
from emberq.record.string_hash import tag_code
from emberq.record.system_flag import TRANSACTION_MASK, TransactionType, transaction_type
from emberq.store.admission import Admission
from emberq.store.commit_log import CommitLog
from emberq.store.config import StoreConfig
from emberq.store.consume_queue import ConsumeQueue
from emberq.store.dispatch import Dispatched
from emberq.store.queue_table import QueueTable
from emberq.store.results import PutResult, PutStatus
from emberq.store.tag_codes import TagCodes
from emberq.store.turn_dispatch import TurnDispatch

log = logging.getLogger(__name__)


class NewMessage(Struct, frozen=True, kw_only=True, gc=False):
    """A message of a batch: what differs from its neighbours."""

    body: BytesLike
    properties: bytes = b""
    flag: int = 0
    tags: str | None = None
    keys: str | None = None
    unique_key: str | None = None


class MessageWriter:
    """The log's only writer while the store is open; lives on the loop's thread."""

    def __init__(
        self,
        config: StoreConfig,
        commit_log: CommitLog,
        queues: QueueTable,
        turn: TurnDispatch,
        admission: Admission,
        *,
        store_host: PackedHost,
        tag_codes: TagCodes,
        now_ms: Callable[[], int],
    ) -> None:
        self._body_size_max = config.max_message_size
        self._record_size_max = config.record_size_max_bytes
        self._log = commit_log
        self._queues = queues
        self._turn = turn
        self._admission = admission
        self._store_host = store_host
        self._tag_codes = tag_codes
        self._now_ms = now_ms
        self.last_stored_at_ms = 0

    def put(
        self,
        topic: str,
        queue_id: int,
        body: BytesLike,
        properties: bytes = b"",
        *,
        flag: int = 0,
        system_flag: int = 0,
        born_at_ms: int = 0,
        born_host: PackedHost,
        reconsume_times: int = 0,
        prepared_offset: int = 0,
        tags: str | None = None,
        keys: str | None = None,
        unique_key: str | None = None,
        delay: str | None = None,
    ) -> PutResult:
        """Append one message. Its tags, keys, unique key and delay level are those of its
        properties, which the caller has parsed already."""
        if (refused := self._admission.refused()) is not None:
            return refused
        if len(body) > self._body_size_max:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=f"a body of {len(body)} bytes")
        is_queued = is_indexed = True
        if system_flag & TRANSACTION_MASK:
            kind = transaction_type(system_flag)
            is_queued = kind is TransactionType.COMMIT
            is_indexed = kind is not TransactionType.ROLLBACK
        stored_at_ms = self._store_time()
        commit_log = self._log
        try:
            queue = self._queues.get_or_add(topic, queue_id)
            queue_offset = queue.next_offset if is_queued else 0
            while True:
                log_offset = commit_log.end
                record = _encode(
                    queue,
                    body,
                    properties,
                    flag,
                    queue_offset,
                    log_offset,
                    system_flag,
                    born_at_ms,
                    born_host,
                    stored_at_ms,
                    self._store_host,
                    reconsume_times,
                    prepared_offset,
                )
                size = len(record)
                if size + BLANK_SIZE_MIN <= commit_log.room_left:
                    break
                refused = self._make_room(size)
                if refused is not None:
                    return refused
            commit_log.append(record)
        except (RecordError, OSError) as error:
            return self._failed_put(error)
        if is_queued:
            queue.next_offset = queue_offset + 1
        self._turn.records.append(
            Dispatched(
                queue if is_queued else None,
                queue_offset,
                log_offset,
                size,
                self._tag_codes.of(topic, tags, delay, stored_at_ms) if tags or delay else 0,
                stored_at_ms,
                topic,
                unique_key,
                keys,
                is_indexed,
                tags,
            )
        )
        if not self._turn.is_scheduled:
            self._turn.schedule()
        return PutResult(
            PutStatus.PUT_OK, log_offset, queue_offset, stored_at_ms, log_offset + size
        )

    def put_batch(
        self,
        topic: str,
        queue_id: int,
        messages: Sequence[NewMessage],
        *,
        system_flag: int = 0,
        born_at_ms: int = 0,
        born_host: PackedHost,
        reconsume_times: int = 0,
    ) -> PutResult:
        """Append messages that follow one another in the log and in their queue, or none."""
        if (refused := self._admission.refused()) is not None:
            return refused
        if not messages:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason="an empty batch")
        stored_at_ms = self._store_time()
        try:
            queue = self._queues.get_or_add(topic, queue_id)
            while True:
                log_offset = self._log.end
                records: list[bytes] = []
                for number, message in enumerate(messages):
                    records.append(
                        _encode(
                            queue,
                            message.body,
                            message.properties,
                            message.flag,
                            queue.next_offset + number,
                            log_offset,
                            system_flag,
                            born_at_ms,
                            born_host,
                            stored_at_ms,
                            self._store_host,
                            reconsume_times,
                            0,
                        )
                    )
                    log_offset += len(records[-1])
                size = log_offset - self._log.end
                if size + BLANK_SIZE_MIN <= self._log.room_left:
                    break
                refused = self._make_room(size)
                if refused is not None:
                    return refused
            self._log.append(b"".join(records))
        except (RecordError, OSError) as error:
            return self._failed_put(error)
        return self._note_batch(queue, messages, records, stored_at_ms)

    def _note_batch(
        self,
        queue: ConsumeQueue,
        messages: Sequence[NewMessage],
        records: list[bytes],
        stored_at_ms: int,
    ) -> PutResult:
        first_offset = queue.next_offset
        end_offset = self._log.end
        log_offset = end_offset - sum(map(len, records))
        offsets: list[int] = []
        for message, record in zip(messages, records, strict=True):
            self._turn.records.append(
                Dispatched(
                    queue,
                    queue.next_offset,
                    log_offset,
                    len(record),
                    tag_code(message.tags) if message.tags else 0,
                    stored_at_ms,
                    queue.topic,
                    message.unique_key,
                    message.keys,
                    True,
                    message.tags,
                )
            )
            offsets.append(log_offset)
            queue.next_offset += 1
            log_offset += len(record)
        if not self._turn.is_scheduled:
            self._turn.schedule()
        return PutResult(
            PutStatus.PUT_OK,
            offsets[0],
            first_offset,
            stored_at_ms,
            end_offset,
            len(records),
            "",
            tuple(offsets),
        )

    def _store_time(self) -> int:
        """Now, but never before the previous message."""
        now = self._now_ms()
        self.last_stored_at_ms = max(self.last_stored_at_ms, now)
        return self.last_stored_at_ms

    def _make_room(self, size: int) -> PutResult | None:
        """Go to the next segment; the reason why not, if that does not help."""
        if size > self._record_size_max:
            return PutResult(
                PutStatus.MESSAGE_ILLEGAL,
                reason=f"{size} bytes do not fit into a segment of {self._log.segment_size}",
            )
        try:
            self._log.roll()
        except OSError as error:
            log.error("segment_not_made reason=%s", error)  # noqa: TRY400 - the disk's, not ours
            return PutResult(PutStatus.CREATE_MAPPED_FILE_FAILED, reason=str(error))
        return None

    def _failed_put(self, error: RecordError | OSError) -> PutResult:
        if isinstance(error, RecordError):
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=str(error))
        # Half a record may stand at the end of the log: nothing more may follow it.
        self._admission.fail(f"the disk failed: {error}")
        log.error("append_failed reason=%s", error)
        return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=self._admission.refusal)


def _encode(
    queue: ConsumeQueue,
    body: BytesLike,
    properties: bytes,
    flag: int,
    queue_offset: int,
    log_offset: int,
    system_flag: int,
    born_at_ms: int,
    born_host: PackedHost,
    stored_at_ms: int,
    store_host: PackedHost,
    reconsume_times: int,
    prepared_offset: int,
) -> bytes:
    """A record, by the short way where it leads."""
    topic = queue.topic_part
    if topic is None or len(born_host) != IPV4_HOST_SIZE or len(store_host) != IPV4_HOST_SIZE:
        return encode_record(
            queue.topic,
            body,
            properties,
            queue_id=queue.queue_id,
            flag=flag,
            queue_offset=queue_offset,
            log_offset=log_offset,
            system_flag=system_flag,
            born_at_ms=born_at_ms,
            born_host=born_host,
            stored_at_ms=stored_at_ms,
            store_host=store_host,
            reconsume_times=reconsume_times,
            prepared_offset=prepared_offset,
        )
    return encode_common_record(
        topic,
        body,
        properties,
        queue.queue_id,
        flag,
        queue_offset,
        log_offset,
        system_flag,
        born_at_ms,
        born_host,
        stored_at_ms,
        store_host,
        reconsume_times,
        prepared_offset,
    )
