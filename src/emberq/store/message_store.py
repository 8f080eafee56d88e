"""The store: put messages, read messages, open and close a directory of them."""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from emberq.errors import RecordError, StoreError, StoreFailed
from emberq.record.encode import encode_common_record, encode_record
from emberq.record.host import PackedHost
from emberq.record.layout import BLANK_SIZE_MIN, IPV4_HOST_SIZE, BytesLike
from emberq.record.string_hash import tag_code
from emberq.record.system_flag import TRANSACTION_MASK, TransactionType, transaction_type
from emberq.store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from emberq.store.commit_log import CommitLog
from emberq.store.config import StoreConfig
from emberq.store.consume_queue import ConsumeQueue
from emberq.store.directory_lock import DirectoryLock
from emberq.store.disk import Disk, RealDisk
from emberq.store.dispatch import Dispatched, Dispatcher
from emberq.store.flush import Flusher, FlushPace, FlushWaiters
from emberq.store.key_index import UNWRITTEN_MAX_BYTES, KeyIndex
from emberq.store.log_scan import LogScan
from emberq.store.queue_files import QueueFiles
from emberq.store.queue_recovery import cut_to_log_end
from emberq.store.queue_table import QueueTable
from emberq.store.reader import EntryFilter, QueueReader, ReadLimits
from emberq.store.recovery import Progress, Recovered, Recovery, dispatched_from
from emberq.store.results import PutResult, PutStatus, ReadResult
from emberq.store.tag_codes import TagCodes

log = logging.getLogger(__name__)

HOT_WINDOW_BYTES = 256 * 1024 * 1024
RAW_DISPATCH_BATCH = 512
# Half of what the index takes before it refuses: a turn's messages must still fit.
INDEX_BUSY_BYTES = UNWRITTEN_MAX_BYTES // 2

Schedule = Callable[[Callable[[], None]], object]


class NewMessage(Struct, frozen=True, kw_only=True, gc=False):
    """A message of a batch: what differs from its neighbours."""

    body: BytesLike
    properties: bytes = b""
    flag: int = 0
    tags: str | None = None
    keys: str | None = None
    unique_key: str | None = None


class MessageStore:
    """One directory of messages.

    Everything but reading with `read_waiting` belongs to one thread, usually an event loop's.
    `schedule` runs a call at the end of that loop's turn and `schedule_from_thread` does so from
    another thread; without them dispatch happens at once and waiters are served by `poll`.
    """

    def __init__(
        self,
        config: StoreConfig,
        *,
        store_host: PackedHost,
        disk: Disk | None = None,
        schedule: Schedule | None = None,
        schedule_from_thread: Schedule | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        tag_codes: TagCodes | None = None,
    ) -> None:
        self.config = config
        self._disk = disk or RealDisk()
        self._schedule = schedule
        self._schedule_from_thread = schedule_from_thread
        self._now_ms = now_ms
        self._store_host = store_host
        self._tag_codes = tag_codes or TagCodes()
        root = config.root
        self.log = CommitLog(
            self._disk, config.commit_log_folder, config.mapped_file_size_commit_log
        )
        self._files = QueueFiles(self._disk, config.queue_file_size_bytes)
        self.queues = QueueTable(root / "consumequeue", self._files)
        self.index: KeyIndex | None = None
        if config.message_index_enable:
            self.index = KeyIndex(
                self._disk,
                root / "index",
                slots=config.max_hash_slot_num,
                entries_max=config.max_index_num,
                new_name=self._index_name,
            )
        self.dispatcher = Dispatcher(self.index)
        self.reader = QueueReader(self.log, HOT_WINDOW_BYTES)
        self._flusher: Flusher | None = None
        self._waiters = FlushWaiters()
        self._lock: DirectoryLock | None = None
        self._undispatched: list[Dispatched] = []
        self._is_dispatch_scheduled = False
        self._log_listeners: list[Callable[[int], None]] = []
        self._last_stored_at_ms = 0
        self._checkpoint = Checkpoint()
        self._side_lock = threading.Lock()  # the flusher's and close's work on queues and index
        self._is_index_busy = False
        self.refusal = "the store is not open"  # why puts are refused; empty when they are not

    # Opening and closing

    def open(self, progress: Progress | None = None) -> Recovered:
        """Lock the directory, recover, and begin to take messages.

        Raises:
            StoreInUse, StoreDamaged
        """
        root = self.config.root
        self._lock = DirectoryLock(root)
        try:
            self.log.load()
            self.queues.load()
            was_clean = not self._disk.exists(root / "abort")
            # Before anything is changed: a recovery that is cut short must be done again.
            self._write_abort()
            for folder in (self.config.commit_log_folder, root / "consumequeue", root / "index"):
                self._disk.make_folder(folder)
            recovered = self._recover(root, was_clean, progress)
            self.log.open_for_append()
            self._flusher = Flusher(
                self.log,
                self,
                self._pace(),
                on_flushed=self._flushed_in_thread,
                on_failed=self._failed_in_thread,
            )
            # What recovery found is not to be found again, and official brokers leave a checkpoint
            # that makes them delete the newest index file after our crash.
            self.sync_side_files(_nothing, _nothing)
        except BaseException:
            self._flusher = None
            self._release()
            raise
        self._flusher.start()
        self.refusal = ""
        return recovered

    def close(self) -> None:
        """Write and sync everything, then mark the stop as clean.

        Raises:
            StoreFailed: the stop is not clean; the next start treats it as a crash.
        """
        self.dispatch_now()
        self.refusal = self.refusal or "the store is closed"
        try:
            if self._flusher is not None:
                self._flusher.stop()
                self._disk.remove(self.config.root / "abort")
        except OSError as error:
            raise StoreFailed(f"the stop could not be marked as clean: {error}") from error
        finally:
            self.poll()
            self._waiters.fail_all()
            self._flusher = None
            self._release()

    def _write_abort(self) -> None:
        """The mark of a store in use, durable: without it the next start would trust too much."""
        content = str(os.getpid()).encode()
        file = self._disk.create_sparse(self.config.root / "abort", len(content))
        try:
            file.write(0, content.ljust(file.size))
            file.sync()
        finally:
            file.close()
        self._disk.sync_folder(self.config.root)

    def _release(self) -> None:
        self.log.close()
        self._files.close()
        if self.index is not None:
            self.index.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _recover(self, root: Path, was_clean: bool, progress: Progress | None) -> Recovered:
        self._checkpoint = read_checkpoint(self._disk, root / "checkpoint")
        if self.index is not None:
            self.index.load(
                is_after_crash=not was_clean,
                safe_log_offset=self._checkpoint.dispatched_offset,
            )
        recovery = Recovery(
            self.log, self.queues, self._files, self.index, self._tag_codes, was_clean=was_clean
        )
        recovered = recovery.run(
            self._checkpoint,
            is_crc_checked=self.config.check_crc_on_recover,
            progress=progress,
        )
        self._last_stored_at_ms = max(
            recovered.last_stored_at_ms, self._checkpoint.log_timestamp_ms
        )
        if self.index is not None:
            self.index.settle(self.log.end)
        self.dispatcher.reached = (self.log.end, self._last_stored_at_ms)
        is_checked = self.config.check_crc_on_recover
        self.reader.verified_from = recovered.whole_from if is_checked else self.log.end
        log.info(
            "store_recovered clean=%s from=%d end=%d records=%d stop=%s cut_bytes=%d cut_queues=%d"
            " damages=%d",
            was_clean,
            recovered.scanned_from,
            recovered.log_end,
            recovered.records_scanned,
            recovered.stop.name,
            recovered.bytes_cut,
            recovered.queues_cut,
            len(recovered.damages),
        )
        return recovered

    def _pace(self) -> FlushPace:
        config = self.config
        return FlushPace(
            log_interval_ms=config.flush_interval_commit_log,
            log_pages_min=config.flush_commit_log_least_pages,
            log_thorough_interval_ms=config.flush_commit_log_thorough_interval,
            side_interval_ms=config.flush_interval_consume_queue,
            side_thorough_interval_ms=config.flush_consume_queue_thorough_interval,
            is_sync=config.is_sync_flush,
        )

    # Putting

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
        if self.refusal or self._is_index_busy:
            return self._refused()
        if len(body) > self.config.max_message_size:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=f"a body of {len(body)} bytes")
        is_queued = is_indexed = True
        if system_flag & TRANSACTION_MASK:
            kind = transaction_type(system_flag)
            is_queued = kind is TransactionType.COMMIT
            is_indexed = kind is not TransactionType.ROLLBACK
        stored_at_ms = self._store_time()
        commit_log = self.log
        try:
            queue = self.queues.get_or_add(topic, queue_id)
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
        self._undispatched.append(
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
        if not self._is_dispatch_scheduled:
            self._schedule_dispatch()
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
        if self.refusal or self._is_index_busy:
            return self._refused()
        if not messages:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason="an empty batch")
        stored_at_ms = self._store_time()
        try:
            queue = self.queues.get_or_add(topic, queue_id)
            while True:
                log_offset = self.log.end
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
                size = log_offset - self.log.end
                if size + BLANK_SIZE_MIN <= self.log.room_left:
                    break
                refused = self._make_room(size)
                if refused is not None:
                    return refused
            self.log.append(b"".join(records))
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
        end_offset = self.log.end
        log_offset = end_offset - sum(map(len, records))
        offsets: list[int] = []
        for message, record in zip(messages, records, strict=True):
            self._undispatched.append(
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
        if not self._is_dispatch_scheduled:
            self._schedule_dispatch()
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

    def put_raw(self, offset: int, content: BytesLike) -> None:
        """Append bytes of another broker's log; whole records are dispatched by `dispatch_raw`."""
        if self.refusal:
            raise StoreError(self.refusal)
        self.log.append_raw(offset, content)
        self._tell_log_end()

    def dispatch_raw(self, confirmed_offset: int | None = None) -> int:
        """Dispatch whole records from where dispatch stands, up to a confirmed offset.

        Returns the log offset that dispatch has reached."""
        limit = self.log.end if confirmed_offset is None else min(confirmed_offset, self.log.end)
        start = max(self.dispatcher.dispatched_offset, self.log.min_offset)
        scan = LogScan(self.log, start, limit, is_crc_checked=False)
        batch: list[Dispatched] = []
        for record in scan:
            batch.append(dispatched_from(record, self.queues, self._tag_codes))
            if len(batch) >= RAW_DISPATCH_BATCH:
                self.dispatcher.apply(batch)
                batch = []
        self.dispatcher.apply(batch)
        return self.dispatcher.dispatched_offset

    def _refused(self) -> PutResult:
        if self.refusal:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=self.refusal)
        return PutResult(PutStatus.OS_PAGE_CACHE_BUSY, reason="the index waits for the disk")

    def _store_time(self) -> int:
        """Now, but never before the previous message."""
        now = self._now_ms()
        self._last_stored_at_ms = max(self._last_stored_at_ms, now)
        return self._last_stored_at_ms

    def _make_room(self, size: int) -> PutResult | None:
        """Go to the next segment; the reason why not, if that does not help."""
        if size > self.config.record_size_max_bytes:
            return PutResult(
                PutStatus.MESSAGE_ILLEGAL,
                reason=f"{size} bytes do not fit into a segment of {self.log.segment_size}",
            )
        try:
            self.log.roll()
        except OSError as error:
            log.error("segment_not_made reason=%s", error)  # noqa: TRY400 - the disk's, not ours
            return PutResult(PutStatus.CREATE_MAPPED_FILE_FAILED, reason=str(error))
        return None

    def _failed_put(self, error: RecordError | OSError) -> PutResult:
        if isinstance(error, RecordError):
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=str(error))
        # Half a record may stand at the end of the log: nothing more may follow it.
        self.refusal = f"the disk failed: {error}"
        log.error("append_failed reason=%s", error)
        return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=self.refusal)

    def truncate(self, offset: int) -> None:
        """Forget everything from a log offset on: another broker's log went another way there.

        Raises:
            StoreError: the log begins later.
            OSError
        """
        self.dispatch_now()
        with self._side_lock:
            for queue in self.queues:
                if queue.log_end_offset > offset:
                    queue.write()
                    cut_to_log_end(queue, offset)
            if self.index is not None:
                self.index.truncate(offset)
            self.log.truncate(offset)
            if self._flusher is not None:
                self._flusher.cut_back(offset)
        dispatched_offset, stored_at_ms = self.dispatcher.reached
        self.dispatcher.reached = (min(dispatched_offset, offset), stored_at_ms)
        self._waiters.fail_from(offset)

    # Dispatch: once per turn of the loop

    def _schedule_dispatch(self) -> None:
        if self._schedule is None:
            self.dispatch_now()
        else:
            self._is_dispatch_scheduled = True
            self._schedule(self.dispatch_now)

    def dispatch_now(self) -> None:
        """Bring queues and index up to the end of the log, and tell listeners."""
        self._is_dispatch_scheduled = False
        if not self._undispatched:
            return
        records, self._undispatched = self._undispatched, []
        self.dispatcher.apply(records)
        if self.index is not None and self.index.unwritten_bytes > INDEX_BUSY_BYTES:
            # The flusher cannot keep up: producers must wait, as for a busy page cache.
            self._is_index_busy = True
        self._tell_log_end()

    def on_log_grown(self, listener: Callable[[int], None]) -> None:
        """Call `listener(end)` when the log has grown, once per turn."""
        self._log_listeners.append(listener)

    def _tell_log_end(self) -> None:
        for listener in self._log_listeners:
            listener(self.log.end)

    # Durability

    @property
    def flushed_offset(self) -> int:
        return 0 if self._flusher is None else self._flusher.flushed_offset

    def when_durable(self, offset: int, done: Callable[[PutStatus], None]) -> None:
        """Call `done` when the log is synced up to `offset`, or will not be in time."""
        if self._flusher is not None and self._flusher.flushed_offset >= offset:
            done(PutStatus.PUT_OK)
            return
        if self._flusher is None or self.refusal:
            done(PutStatus.SERVICE_NOT_AVAILABLE)
            return
        deadline = time.monotonic() + self.config.sync_flush_timeout / 1000

        def settle(is_durable: bool) -> None:
            if is_durable:
                done(PutStatus.PUT_OK)
            elif self.refusal:
                done(PutStatus.SERVICE_NOT_AVAILABLE)
            else:
                done(PutStatus.FLUSH_DISK_TIMEOUT)

        self._waiters.add(offset, deadline, settle)
        self._flusher.want(offset)

    def poll(self) -> None:
        """Serve waiters whose time has come; call it now and then, and without a loop always."""
        if self._flusher is not None:
            self._waiters.release(self._flusher.flushed_offset)
            if self._flusher.failure is not None:
                self._waiters.fail_all()
        self._waiters.expire(time.monotonic())

    def _flushed_in_thread(self, offset: int) -> None:
        if self._schedule_from_thread is not None:
            self._schedule_from_thread(lambda: self._waiters.release(offset))

    def _failed_in_thread(self, error: Exception) -> None:
        self.refusal = f"the disk failed: {error}"
        if self._schedule_from_thread is not None:
            self._schedule_from_thread(self._waiters.fail_all)

    @property
    def is_sync_due(self) -> bool:
        """Whether an index file is full: it is not left to a crash."""
        return self.index is not None and self.index.is_sync_due

    def write_side_files(self, in_between: Callable[[], None]) -> None:
        """Queues and index to their files; called by the flusher."""
        with self._side_lock:
            dirty = self.dispatcher.dirty_queues
            for _ in range(len(dirty)):  # the loop may add more meanwhile
                dirty.pop().write()
                in_between()
            if self.index is not None:
                self.index.write_entries()
                self._is_index_busy = False

    def sync_side_files(self, sync_log: Callable[[], None], in_between: Callable[[], None]) -> None:
        """Everything that is dispatched now becomes durable, and the checkpoint says so."""
        dispatched_offset, dispatched_at_ms = self.dispatcher.reached
        self.write_side_files(in_between)
        sync_log()
        with self._side_lock:
            self._files.sync(in_between)
            indexed_at_ms = dispatched_at_ms
            if self.index is not None:
                self.index.sync()
                # Official brokers delete an index file that is newer than this.
                indexed_at_ms = self.index.durable_timestamp_ms
                dispatched_offset = min(dispatched_offset, self.index.durable_log_offset)
            self._checkpoint = Checkpoint(
                log_timestamp_ms=dispatched_at_ms,
                queues_timestamp_ms=dispatched_at_ms,
                index_timestamp_ms=indexed_at_ms,
                master_flushed_offset=self._checkpoint.master_flushed_offset,
                confirmed_offset=self.flushed_offset,
                dispatched_offset=dispatched_offset,
            )
        self._write_checkpoint()

    def _write_checkpoint(self) -> None:
        write_checkpoint(self._disk, self.config.root / "checkpoint", self._checkpoint)

    # Reading

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        limits: ReadLimits,
        accepts: EntryFilter | None = None,
    ) -> ReadResult | None:
        """Messages of a queue without waiting for the disk; None: use `read_waiting`."""
        return self.reader.read(self.queues.get(topic, queue_id), offset, limits, accepts)

    def read_waiting(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        limits: ReadLimits,
        accepts: EntryFilter | None = None,
    ) -> ReadResult:
        """The same, to be called in a thread."""
        return self.reader.read_waiting(self.queues.get(topic, queue_id), offset, limits, accepts)

    def _index_name(self) -> str:
        now_ms = self._now_ms()
        stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(now_ms / 1000))
        return f"{stamp}{now_ms % 1000:03d}"


def _nothing() -> None:
    """Recovery has synced the log, and nobody waits yet."""


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
