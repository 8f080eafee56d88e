"""Putting messages: from values to records at the end of the log."""

import logging
from collections.abc import Callable, Sequence

from msgspec import Struct

from emberq.errors import RecordError
from emberq.kernel import encode_common_record, explode_batch
from emberq.kernel.batch import Exploded, explode_rare_batch
from emberq.record.batch import encode_batch_element, iter_batch
from emberq.record.encode import encode_record
from emberq.record.host import PackedHost
from emberq.record.layout import IPV4_HOST_SIZE, BytesLike
from emberq.record.property_crc import reserve_property_crc, with_property_crc
from emberq.record.string_hash import tag_code
from emberq.record.system_flag import TRANSACTION_MASK, TransactionType
from emberq.seldom import Seldom
from emberq.store.admission import Admission
from emberq.store.commit_log import CommitLog
from emberq.store.config import StoreConfig
from emberq.store.consume_queue import ConsumeQueue
from emberq.store.dispatch import Dispatched, DispatchedBatch
from emberq.store.queue_table import QueueTable
from emberq.store.results import PutResult, PutStatus
from emberq.store.tag_codes import TagCodes
from emberq.store.turn_dispatch import TurnDispatch

log = logging.getLogger(__name__)

REFUSAL_LOGGED_EVERY_S = 10.0
_PUT_OK = PutStatus.PUT_OK

# By transaction type: whether a record is in its queue, and whether in the index.
_QUEUED_AND_INDEXED = {
    TransactionType.NONE.value: (True, True),
    TransactionType.PREPARED.value: (False, True),
    TransactionType.COMMIT.value: (True, True),
    TransactionType.ROLLBACK.value: (False, False),
}


class NewMessage(Struct, frozen=True, kw_only=True, gc=False):
    """A message of a batch: what differs from its neighbours."""

    body: BytesLike
    properties: bytes = b""
    flag: int = 0


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
        self.body_size_max = config.max_message_size
        self._record_size_max = config.record_size_max_bytes
        self._has_record_crc = config.enabled_append_prop_crc
        self._log = commit_log
        self._queues = queues
        self._turn = turn
        self._admission = admission
        self._store_host = store_host
        self._is_store_ipv4 = len(store_host) == IPV4_HOST_SIZE
        self._tag_codes = tag_codes
        self._now_ms = now_ms
        self._seldom = Seldom(REFUSAL_LOGGED_EVERY_S)
        self.last_stored_at_ms = 0

    def put(  # noqa: C901 - the short way of every message is one function
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
        was_accepted: bool = False,
    ) -> PutResult:
        """Append one message. Its tags, keys, unique key and delay level are those of its
        properties, which the caller has parsed already. `was_accepted`: its body stands in the
        log already, so a limit that came later does not count."""
        admission = self._admission
        if (admission.refusal or admission.is_index_busy) and (
            refused := admission.refused()
        ) is not None:
            return refused
        if len(body) > self.body_size_max and not was_accepted:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=f"a body of {len(body)} bytes")
        is_queued, is_indexed = _QUEUED_AND_INDEXED[system_flag & TRANSACTION_MASK]
        stored_at_ms = self._now_ms()
        if stored_at_ms < self.last_stored_at_ms:  # noqa: PLR1730 - `max` costs a call
            stored_at_ms = self.last_stored_at_ms
        self.last_stored_at_ms = stored_at_ms
        commit_log = self._log
        if self._has_record_crc:
            properties = reserve_property_crc(properties)
        try:
            queue = self._queues.get_or_add(topic, queue_id)
            queue_offset = queue.next_offset if is_queued else 0
            while True:
                log_offset = commit_log.end
                if (
                    queue.topic_part is not None
                    and self._is_store_ipv4
                    and len(born_host) == IPV4_HOST_SIZE
                ):
                    record = encode_common_record(
                        queue.topic_part,
                        body,
                        properties,
                        queue_id,
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
                else:
                    record = encode_record(
                        topic,
                        body,
                        properties,
                        queue_id=queue_id,
                        flag=flag,
                        queue_offset=queue_offset,
                        log_offset=log_offset,
                        system_flag=system_flag,
                        born_at_ms=born_at_ms,
                        born_host=born_host,
                        stored_at_ms=stored_at_ms,
                        store_host=self._store_host,
                        reconsume_times=reconsume_times,
                        prepared_offset=prepared_offset,
                    )
                size = len(record)
                if log_offset + size <= commit_log.room_end:
                    break
                if (refused := self._make_room(size)) is not None:
                    return refused
            commit_log.append(with_property_crc(record) if self._has_record_crc else record)
        except (RecordError, OSError) as error:
            return self._failed_put(error)
        if is_queued:
            queue.next_offset = queue_offset + 1
        is_timed = delay is not None
        code = self._tag_codes.of(topic, tags, delay, stored_at_ms) if is_timed else tag_code(tags)
        turn = self._turn
        turn.records.append(
            Dispatched(
                queue if is_queued else None,
                queue_offset,
                log_offset,
                size,
                code,
                stored_at_ms,
                topic,
                unique_key,
                keys,
                is_indexed,
                tags,
            )
        )
        if not turn.is_scheduled:
            turn.schedule()
        return PutResult(_PUT_OK, log_offset, queue_offset, stored_at_ms, log_offset + size)

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
        try:
            content = b"".join(
                [encode_batch_element(each.body, each.properties, each.flag) for each in messages]
            )
        except RecordError as error:
            return self._failed_put(error)
        return self.put_encoded_batch(
            topic,
            queue_id,
            content,
            system_flag=system_flag,
            born_at_ms=born_at_ms,
            born_host=born_host,
            reconsume_times=reconsume_times,
        )

    def put_encoded_batch(
        self,
        topic: str,
        queue_id: int,
        content: bytes,
        *,
        system_flag: int = 0,
        born_at_ms: int = 0,
        born_host: PackedHost,
        reconsume_times: int = 0,
    ) -> PutResult:
        """The same from the body of a batch request, as it came.

        Raises:
            RecordError: that body is no batch.
        """
        if (refused := self._admission.refused()) is not None:
            return refused
        if not content:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason="an empty batch")
        stored_at_ms = max(self.last_stored_at_ms, self._now_ms())
        self.last_stored_at_ms = stored_at_ms
        if self._has_record_crc:
            content = _with_reserved_crcs(content)
        try:
            queue = self._queues.get_or_add(topic, queue_id)
            while True:
                exploded = self._explode(
                    content, queue, system_flag, born_at_ms, born_host, stored_at_ms,
                    reconsume_times,
                )  # fmt: skip
                records, log_offsets, entries, hashes, owners = exploded
                size = len(records)
                if self._log.end + size <= self._log.room_end:
                    break
                if (refused := self._make_room(size)) is not None:
                    return refused
            if self._has_record_crc:
                records = _with_crcs(records, [at - log_offsets[0] for at in log_offsets])
            self._log.append(records)
        except OSError as error:
            return self._failed_put(error)
        queue_offset, log_end = queue.next_offset, self._log.end
        queue.next_offset += len(log_offsets)
        self._turn.take_batch(
            DispatchedBatch(queue, queue_offset, log_end, entries, hashes, owners, stored_at_ms)
        )
        return PutResult(
            _PUT_OK,
            log_offsets[0],
            queue_offset,
            stored_at_ms,
            log_end,
            len(log_offsets),
            "",
            tuple(log_offsets),
        )

    def _explode(
        self,
        content: bytes,
        queue: ConsumeQueue,
        system_flag: int,
        born_at_ms: int,
        born_host: PackedHost,
        stored_at_ms: int,
        reconsume_times: int,
    ) -> Exploded:
        topic = queue.topic_part
        if topic is None or not self._is_store_ipv4 or len(born_host) != IPV4_HOST_SIZE:
            return explode_rare_batch(
                content,
                queue.topic,
                queue.queue_id,
                queue.next_offset,
                self._log.end,
                system_flag,
                born_at_ms,
                born_host,
                stored_at_ms,
                self._store_host,
                reconsume_times,
            )
        return explode_batch(
            content,
            queue.topic,
            topic,
            queue.queue_id,
            queue.next_offset,
            self._log.end,
            system_flag,
            born_at_ms,
            born_host,
            stored_at_ms,
            self._store_host,
            reconsume_times,
        )

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
            held_back = self._seldom.held_back()
            if held_back is not None:
                log.error(  # noqa: TRY400 - the disk's, not ours
                    "put_refused no segment: reason=%s refused_before=%d", error, held_back
                )
            return PutResult(PutStatus.CREATE_MAPPED_FILE_FAILED, reason=str(error))
        return None

    def _failed_put(self, error: RecordError | OSError) -> PutResult:
        if isinstance(error, RecordError):
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=str(error))
        # Half a record may stand at the end of the log: nothing more may follow it.
        self._admission.fail(f"the disk failed: {error}")
        log.error("append_failed reason=%s", error)
        return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=self._admission.refusal)


def _with_reserved_crcs(content: bytes) -> bytes:
    """A batch with room for the checksum of each record. Raises RecordError."""
    return b"".join(
        encode_batch_element(element.body, reserve_property_crc(element.properties), element.flag)
        for element in iter_batch(content)
    )


def _with_crcs(records: BytesLike, starts: list[int]) -> bytes:
    """Records back to back, each with its checksum filled in."""
    ends = [*starts[1:], len(records)]
    return b"".join(
        with_property_crc(records[start:end]) for start, end in zip(starts, ends, strict=True)
    )
