"""What a store finds when it opens: where the log ends, and what queues and index lack."""

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec import Struct

from emberq.record.properties import find_stored_property
from emberq.record.system_flag import TransactionType, transaction_type
from emberq.store.checkpoint import Checkpoint
from emberq.store.commit_log import CommitLog
from emberq.store.consume_queue import ENTRY, ENTRY_SIZE, FILLER_RECORD_SIZE, ConsumeQueue
from emberq.store.dispatch import Dispatched, Dispatcher
from emberq.store.log_scan import LogScan, ScannedRecord, ScanStop
from emberq.store.queue_files import QueueFiles
from emberq.store.queue_table import QueueTable
from emberq.store.tag_codes import TagCodes

log = logging.getLogger(__name__)

# Files at the end of a queue that are read again after a crash, as official brokers do.
FILES_READ_AGAIN = 3
DISPATCH_BATCH = 512
_CHUNK_ENTRIES = (200, 13_000)

Progress = Callable[[int, int], None]


class IndexState(Protocol):
    @property
    def end_log_offset(self) -> int:
        """Records below this offset are indexed; -1 if the index is empty."""


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


class Recovery:
    """Brings log, queues and index together again. Run it before anything is appended."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: QueueTable,
        files: QueueFiles,
        dispatcher: Dispatcher,
        tag_codes: TagCodes,
    ) -> None:
        self._log = commit_log
        self._queues = queues
        self._files = files
        self._dispatcher = dispatcher
        self._tag_codes = tag_codes
        self._topics: dict[bytes, str] = {}

    def run(
        self,
        checkpoint: Checkpoint,
        index: IndexState | None,
        *,
        was_clean: bool,
        is_crc_checked: bool = True,
        progress: Progress | None = None,
    ) -> Recovered:
        for queue in self._queues:
            recover_queue(queue, self._files)
        start = self._start(checkpoint, index, was_clean)
        scan = LogScan(self._log, start, is_crc_checked=is_crc_checked)
        scanned, dispatched = self._dispatch_again(scan, progress)
        before = self._log.end
        self._log.truncate(scan.end.offset)
        cut = self._cut_queues()
        self._correct_min_offsets()
        return Recovered(
            was_clean=was_clean,
            scanned_from=start,
            log_end=self._log.end,
            records_scanned=scanned,
            records_dispatched=dispatched,
            stop=scan.end.stop,
            detail=scan.end.detail,
            bytes_cut=before - self._log.end,
            queues_cut=cut,
        )

    def _start(self, checkpoint: Checkpoint, index: IndexState | None, was_clean: bool) -> int:
        """Start of the segment from which queues and index may lack something."""
        starts = self._log.starts
        if not starts:
            return 0
        dispatched = max((queue.log_end_offset for queue in self._queues), default=-1)
        if index is not None:
            dispatched = min(dispatched, index.end_log_offset)
        if was_clean:
            return max((s for s in starts if s <= dispatched), default=starts[0])
        safe = checkpoint.safe_timestamp_ms
        for start in reversed(starts):
            if start > dispatched and start != starts[0]:
                continue
            first = next(iter(LogScan(self._log, start, is_crc_checked=False)), None)
            if first is not None and 0 < first.stored_at_ms <= safe:
                return start
        return starts[0]

    def _dispatch_again(self, scan: LogScan, progress: Progress | None) -> tuple[int, int]:
        """Give every record to queues and index once more; they ignore what they have."""
        scanned = dispatched = 0
        batch: list[Dispatched] = []
        for record in scan:
            scanned += 1
            batch.append(self._dispatched(record))
            if len(batch) >= DISPATCH_BATCH:
                dispatched += self._apply(batch)
                batch = []
                if progress is not None:
                    progress(record.log_offset, self._log.end)
        dispatched += self._apply(batch)
        return scanned, dispatched

    def _apply(self, batch: list[Dispatched]) -> int:
        fresh = [
            item
            for item in batch
            if item.queue is None or item.log_offset >= item.queue.log_end_offset
        ]
        self._dispatcher.apply(batch)
        return len(fresh)

    def _dispatched(self, record: ScannedRecord) -> Dispatched:
        topic = self._topics.get(record.topic)
        if topic is None:
            topic = self._topics[record.topic] = record.topic.decode("utf-8", "replace")
        return dispatched_from(record, topic, self._queues, self._tag_codes)

    def _cut_queues(self) -> int:
        """Remove entries of records that the log does not have."""
        cut = 0
        for queue in self._queues:
            if queue.log_end_offset > self._log.end:
                truncate_queue(queue, self._log.end)
                cut += 1
            queue.next_offset = queue.end_offset
        return cut

    def _correct_min_offsets(self) -> None:
        log_min = self._log.min_offset
        if log_min > 0:
            for queue in self._queues:
                queue.raise_min_offset(log_min)


def dispatched_from(
    record: ScannedRecord, topic: str, queues: QueueTable, tag_codes: TagCodes
) -> Dispatched:
    """What queues and index need to know of a record that was read from the log."""
    kind = transaction_type(record.system_flag)
    is_queued = kind in (TransactionType.NONE, TransactionType.COMMIT)
    properties = record.properties
    tags = _text(find_stored_property(properties, b"TAGS"))
    delay = _text(find_stored_property(properties, b"DELAY"))
    return Dispatched(
        queue=queues.get_or_add(topic, record.queue_id) if is_queued else None,
        queue_offset=record.queue_offset,
        log_offset=record.log_offset,
        size=record.size,
        tag_code=tag_codes.of(topic, tags, delay, record.stored_at_ms),
        stored_at_ms=record.stored_at_ms,
        topic=topic,
        unique_key=_text(find_stored_property(properties, b"UNIQ_KEY")),
        keys=_text(find_stored_property(properties, b"KEYS")),
        is_indexed=kind is not TransactionType.ROLLBACK,
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def recover_queue(queue: ConsumeQueue, files: QueueFiles) -> None:
    """Find a queue's last entry by reading its last files up to the first void."""
    starts = files.starts(queue.folder)
    if not starts:
        queue.reset(0, 0, -1)
        return
    first = starts[max(0, len(starts) - FILES_READ_AGAIN)] // ENTRY_SIZE
    end, log_end = _walk(queue, files, first, (starts[-1] + files.file_size) // ENTRY_SIZE)
    min_offset = starts[0] // ENTRY_SIZE
    queue.reset(min_offset, end, log_end)
    if _is_filler(files.read(queue.folder, starts[0], ENTRY_SIZE)):
        queue.raise_min_offset(0)


def truncate_queue(queue: ConsumeQueue, log_end: int) -> None:
    """Keep the entries of records that end at or below `log_end`."""
    low, high = queue.min_offset, queue.end_offset
    while low < high:
        middle = (low + high) // 2
        log_offset, size, _ = ENTRY.unpack(queue.entries_from_disk(middle, 1))
        if size == FILLER_RECORD_SIZE or log_offset + size <= log_end:
            low = middle + 1
        else:
            high = middle
    last_log_end = -1
    if low > queue.min_offset:
        log_offset, size, _ = ENTRY.unpack(queue.entries_from_disk(low - 1, 1))
        last_log_end = log_offset + size if size != FILLER_RECORD_SIZE else -1
    queue.truncate(low, last_log_end)


def _walk(queue: ConsumeQueue, files: QueueFiles, offset: int, limit: int) -> tuple[int, int]:
    log_end = -1
    chunk_entries = _CHUNK_ENTRIES[0]
    while offset < limit:
        count = min(chunk_entries, limit - offset)
        content = files.read(queue.folder, offset * ENTRY_SIZE, count * ENTRY_SIZE)
        for log_offset, size, _ in _whole_entries(content):
            if log_offset < 0 or size <= 0:
                return offset, log_end
            if size != FILLER_RECORD_SIZE:
                log_end = log_offset + size
            offset += 1
        if len(content) < count * ENTRY_SIZE:
            return offset, log_end
        chunk_entries = _CHUNK_ENTRIES[1]
    return offset, log_end


def _whole_entries(content: bytes) -> Iterable[tuple[int, int, int]]:
    return ENTRY.iter_unpack(content[: len(content) - len(content) % ENTRY_SIZE])


def _is_filler(content: bytes) -> bool:
    return len(content) == ENTRY_SIZE and ENTRY.unpack(content)[1] == FILLER_RECORD_SIZE
