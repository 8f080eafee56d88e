"""What a store finds when it opens: where the log ends, and what queues and index lack."""

import logging
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, structs

from emberq.errors import RecordError
from emberq.kernel import KeyCollector, collect_records, indexed_properties
from emberq.kernel.scan import ScannedRecord
from emberq.kernel.stored_properties import find_delay
from emberq.record.system_flag import TRANSACTION_MASK, TransactionType
from emberq.store.checkpoint import Checkpoint
from emberq.store.commit_log import CommitLog
from emberq.store.consume_queue import ENTRY_SIZE, ConsumeQueue
from emberq.store.dispatch import Dispatched
from emberq.store.log_scan import Damage, LogScan, ScanStop, TakePlain
from emberq.store.queue_files import QueueFiles
from emberq.store.queue_order import QueueLacksRecords, QueueOrder
from emberq.store.queue_recovery import cut_back, cut_to_log_end, is_entry_of, recover_queue
from emberq.store.queue_table import QueueTable
from emberq.store.tag_codes import SCHEDULE_TOPIC, TagCodes

log = logging.getLogger(__name__)

INDEX_BATCH = 512
PLAIN_AT_ONCE_MAX = 512
# Records after which queues and index are written, so that memory does not grow with the log.
WRITE_AFTER_RECORDS = 32_768
DAMAGES_LOGGED_MAX = 20

Progress = Callable[[int, int], None]


class RecoveredIndex(Protocol):
    """What recovery asks of the key index."""

    @property
    def end_log_offset(self) -> int:
        """Records that start below it are indexed."""

    def add_hashed(
        self,
        hashes: list[int],
        log_offsets: list[int],
        times_ms: list[int],
        end_log_offset: int,
    ) -> None: ...

    def write(self) -> int: ...


class Recovered(Struct, frozen=True, kw_only=True):
    """The findings, for the log line and for tests."""

    was_clean: bool
    scanned_from: int
    log_end: int
    records_scanned: int
    records_dispatched: int
    stop: ScanStop
    detail: str
    bytes_cut: int
    queues_cut: int
    last_stored_at_ms: int
    damages: tuple[Damage, ...] = ()

    @property
    def whole_from(self) -> int:
        """From this log offset on, every record was compared with its checksum and is intact."""
        whole_from = max(
            (damage.offset + damage.size for damage in self.damages), default=self.scanned_from
        )
        return min(whole_from, self.log_end)


class Recovery:
    """Brings log, queues and index together again. Run it before anything is appended."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: QueueTable,
        files: QueueFiles,
        index: RecoveredIndex | None,
        tag_codes: TagCodes,
        *,
        was_clean: bool,
    ) -> None:
        self._log = commit_log
        self._queues = queues
        self._files = files
        self._index = index
        self._tag_codes = tag_codes
        self._was_clean = was_clean
        # Queues whose next record needs no judgement.
        self._known: dict[tuple[bytes, int], ConsumeQueue] = {}
        self._unwritten: set[ConsumeQueue] = set()
        self._keys = KeyCollector()
        self._unused_keys = KeyCollector()  # of records whose tags only are asked for
        self._unindexed = 0  # records whose keys are collected
        self._indexed_until = 0
        self._dispatched = 0
        self._scanned = self._last_stored_at_ms = 0
        self._progress: Progress | None = None

    def run(
        self,
        checkpoint: Checkpoint,
        *,
        is_crc_checked: bool = True,
        progress: Progress | None = None,
    ) -> Recovered:
        """Raises OSError."""
        start = self._start(checkpoint)
        whole_until = max(checkpoint.confirmed_offset, self._end_of_queues())
        try:
            scan, scanned, last = self._dispatch_from(start, whole_until, is_crc_checked, progress)
        except QueueLacksRecords as lacking:
            # Entries of records before the start are missing too.
            log.warning("queue_rebuilt topic=%s queue=%d", *_name(lacking.queue))
            lacking.queue.destroy()
            start = self._log.min_offset
            scan, scanned, last = self._dispatch_from(start, whole_until, is_crc_checked, progress)
        before = self._log.end
        self._log.truncate(scan.end.offset)
        missing = checkpoint.confirmed_offset - self._log.end
        if missing > 0:
            scan.damages.append(Damage(self._log.end, missing, "what was synced here is gone"))
        cut = self._cut_queues()
        self._correct_min_offsets()
        # Bytes of an earlier life may never have been synced, and what was erased is not yet.
        self._log.sync(start)
        for damage in scan.damages[:DAMAGES_LOGGED_MAX]:
            log.error(
                "log_damaged offset=%d size=%d: %s", damage.offset, damage.size, damage.detail
            )
        return Recovered(
            was_clean=self._was_clean,
            scanned_from=start,
            log_end=self._log.end,
            records_scanned=scanned,
            records_dispatched=self._dispatched,
            stop=scan.end.stop,
            detail=scan.end.detail,
            bytes_cut=before - self._log.end,
            queues_cut=cut,
            last_stored_at_ms=last,
            damages=tuple(scan.damages),
        )

    # Where to start

    def _start(self, checkpoint: Checkpoint) -> int:
        """Start of the segment from which queues and index may lack something."""
        lacking = [
            queue
            for queue in self._queues
            if not recover_queue(queue, self._files, was_clean=self._was_clean)
        ]
        for queue in lacking:
            log.warning("queue_rebuilt topic=%s queue=%d", *_name(queue))
            queue.destroy()
        starts = self._log.starts
        if not starts or lacking:
            return self._log.min_offset
        known = max((queue.log_end_offset for queue in self._queues), default=-1)
        if self._index is not None:
            known = min(known, self._index.end_log_offset)
        if self._was_clean:
            return max((start for start in starts if start <= known), default=starts[0])
        start = self._start_after_crash(starts, known, checkpoint.safe_timestamp_ms)
        trusted_until = max(start, checkpoint.vouched_offset)
        for queue in self._queues:
            cut_back(queue, trusted_until, self._log)
        return start

    def _start_after_crash(self, starts: list[int], known: int, safe_ms: int) -> int:
        for start in reversed(starts):
            if start > known:
                continue
            first = next(iter(LogScan(self._log, start, is_crc_checked=False)), None)
            if first is not None and 0 < first.stored_at_ms <= safe_ms:
                return start
        return starts[0]

    def _end_of_queues(self) -> int:
        """Up to where queues prove that the log was whole: the end of a record that is still so."""
        last = max(self._queues, key=lambda queue: queue.log_end_offset, default=None)
        if last is None or last.log_end_offset < 0:
            return 0
        is_proof = is_entry_of(last, last.end_offset - 1, self._log)
        return last.log_end_offset if is_proof else 0

    # Dispatching again

    def _dispatch_from(
        self, start: int, whole_until: int, is_crc_checked: bool, progress: Progress | None
    ) -> tuple[LogScan, int, int]:
        """Give queues and index the records that they lack; returns number and last store time."""
        # A walk that was begun before may have left keys: they come again.
        self._keys, self._unused_keys, self._unindexed = KeyCollector(), KeyCollector(), 0
        self._scanned = self._last_stored_at_ms = 0
        self._progress = progress
        index = self._index
        indexed_until = self._log.end if index is None else index.end_log_offset
        scan = LogScan(
            self._log,
            start,
            is_crc_checked=is_crc_checked,
            whole_until=whole_until,
            take_plain=self._taker(is_crc_checked, indexed_until),
        )
        log_min = self._log.min_offset
        order = QueueOrder(scan.damages, is_from_start=start == log_min, is_complete=log_min == 0)
        deleted_until = self._deleted_until()
        known, take = self._known, self._take
        for record in scan:
            self._note_scanned(1, record.log_offset, record.stored_at_ms)
            log_offset = record.log_offset
            is_unindexed = log_offset >= indexed_until
            queue = known.get((record.topic, record.queue_id))
            if queue is not None and log_offset < queue.log_end_offset:
                if is_unindexed:
                    take(record, None, is_unindexed)
            elif (
                queue is not None
                and record.queue_offset == queue.end_offset
                and not record.system_flag & TRANSACTION_MASK
            ):
                take(record, queue, is_unindexed)
            elif self._judge(record, order, deleted_until) and is_unindexed:
                take(record, None, is_unindexed)
        for queue, record in order.rest():
            take(record, queue, False)
        self._write()
        return scan, self._scanned, self._last_stored_at_ms

    def _taker(self, is_crc_checked: bool, indexed_until: int) -> TakePlain:
        """Takes records that need no judgement, many at a time: nearly all of them."""

        def take(view: memoryview, position: int, base: int, room: int) -> int:
            count = limit = 0
            while count == limit:
                until_write = WRITE_AFTER_RECORDS - self._scanned % WRITE_AFTER_RECORDS
                limit = min(PLAIN_AT_ONCE_MAX, until_write)
                position, count, unindexed, stored_at_ms, grown = collect_records(
                    view, position, base, room, is_crc_checked, limit, self._known,
                    self._keys, indexed_until, _SCHEDULE_TOPIC,
                )  # fmt: skip
                for queue, queue_offset, entries, log_end in grown:
                    queue.append_put(queue_offset, entries, log_end)
                    self._dispatched += len(entries) // ENTRY_SIZE
                    self._unwritten.add(queue)
                if count:
                    self._note_unindexed(unindexed, base + position)
                    self._note_scanned(count, base + position, stored_at_ms)
            return position

        return take

    def _note_scanned(self, count: int, log_offset: int, stored_at_ms: int) -> None:
        before = self._scanned // WRITE_AFTER_RECORDS
        self._scanned += count
        self._last_stored_at_ms = stored_at_ms
        if self._scanned // WRITE_AFTER_RECORDS > before:
            self._write()
            if self._progress is not None:
                self._progress(log_offset, self._log.end)

    def _note_unindexed(self, count: int, log_end: int) -> None:
        """Keys of so many records more are collected; the last of them ends there."""
        if count:
            self._indexed_until = log_end
            self._unindexed += count
            if self._unindexed >= INDEX_BATCH:
                self._index_keys()

    def _judge(self, record: ScannedRecord, order: QueueOrder, deleted_until: int) -> bool:
        """A record of a queue that is new to this walk, or whose offset is not the next.

        Returns whether it is to be indexed."""
        try:
            topic = record.topic.decode()
            queue = self._queues.get(topic, record.queue_id)
            if queue is None:
                if not self._queues.has_topic(topic) and (
                    record.log_offset < deleted_until or order.is_of_deleted_topic(record)
                ):
                    return False
                queue = self._queues.get_or_add(topic, record.queue_id)
        except (UnicodeDecodeError, RecordError) as error:
            order.note_damage(record, str(error))
            return False
        key = (record.topic, record.queue_id)
        if not _is_queued(record) or record.log_offset < queue.log_end_offset:
            self._known.setdefault(key, queue)
            return True
        accepted = order.accepted(record, queue)
        for next_record in accepted:
            self._take(next_record, queue, False)
        if order.is_watched(queue):
            self._known.pop(key, None)
            return True
        self._known[key] = queue
        return record in accepted

    def _deleted_until(self) -> int:
        """Below it a record without any queue of its topic is one of a deleted topic."""
        if not self._was_clean:
            return 0
        return max((queue.log_end_offset for queue in self._queues), default=0)

    def _take(self, record: ScannedRecord, queue: ConsumeQueue | None, is_unindexed: bool) -> None:
        """Append to the queue if there is one, and remember keys for the index."""
        is_indexed = (
            is_unindexed and record.system_flag & TRANSACTION_MASK != TransactionType.ROLLBACK
        )
        code = (self._keys if is_indexed else self._unused_keys).note(
            record.topic.decode("utf-8", "replace") if queue is None else queue.topic,
            record.view,
            record.properties_at,
            record.properties_end,
            record.log_offset,
            record.stored_at_ms,
        )
        if queue is not None:
            self._dispatched += 1
            if record.topic == _SCHEDULE_TOPIC:
                code = self._delivery_time(record, code)
            queue.append(record.queue_offset, record.log_offset, record.size, code)
            self._unwritten.add(queue)
        if is_unindexed:
            self._note_unindexed(1, record.log_offset + record.size)

    def _delivery_time(self, record: ScannedRecord, code: int) -> int:
        """What queues of delayed messages hold in place of the code of tags."""
        delay = find_delay(record.properties)
        if delay is None:
            return code
        return self._tag_codes.of(SCHEDULE_TOPIC, None, delay, record.stored_at_ms)

    def _index_keys(self) -> None:
        keys = self._keys.take()
        self._unused_keys.take()
        if self._index is not None and self._unindexed:
            self._index.add_hashed(*keys, self._indexed_until)
        self._unindexed = 0

    def _write(self) -> None:
        """Move what was dispatched to the files; entries in memory are those of this process."""
        for queue in self._unwritten:
            queue.write()
            queue.release()
        self._unwritten.clear()
        self._index_keys()
        if self._index is not None:
            self._index.write()

    # Afterwards

    def _cut_queues(self) -> int:
        """Remove entries of records that the log does not have."""
        cut = 0
        for queue in self._queues:
            if queue.log_end_offset > self._log.end:
                cut_to_log_end(queue, self._log.end)
                cut += 1
            queue.next_offset = queue.end_offset
        return cut

    def _correct_min_offsets(self) -> None:
        log_min = self._log.min_offset
        if log_min > 0:
            for queue in self._queues:
                queue.raise_min_offset(log_min)


def dispatched_from(record: ScannedRecord, queues: QueueTable, tag_codes: TagCodes) -> Dispatched:
    """What queues and index need to know of a record that was read from the log.

    Raises:
        RecordError: no queue can have its topic.
    """
    unique_key, keys, tags = indexed_properties(
        record.view, record.properties_at, record.properties_end
    )
    dispatched = _indexed(record, unique_key, keys, tags)
    if not _is_queued(record):
        return dispatched
    topic = dispatched.topic
    delay = find_delay(record.properties) if topic == SCHEDULE_TOPIC else None
    return structs.replace(
        dispatched,
        queue=queues.get_or_add(topic, record.queue_id),
        tag_code=tag_codes.of(topic, tags, delay, record.stored_at_ms),
    )


def _indexed(
    record: ScannedRecord, unique_key: str | None, keys: str | None, tags: str | None
) -> Dispatched:
    """What the index needs to know of a record."""
    return Dispatched(
        None,
        record.queue_offset,
        record.log_offset,
        record.size,
        0,
        record.stored_at_ms,
        record.topic.decode("utf-8", "replace"),
        unique_key,
        keys,
        record.system_flag & TRANSACTION_MASK != TransactionType.ROLLBACK,
        tags,
    )


def _is_queued(record: ScannedRecord) -> bool:
    """Prepared and rolled-back halves are in no queue."""
    kind = record.system_flag & TRANSACTION_MASK
    return kind in (TransactionType.NONE, TransactionType.COMMIT)


def _name(queue: ConsumeQueue) -> tuple[str, int]:
    return queue.topic, queue.queue_id


_SCHEDULE_TOPIC = SCHEDULE_TOPIC.encode()
