"""The store: put messages, read messages, open and close a directory of them."""

import logging
import os
import time
from collections.abc import Callable, Iterable

from emberq.errors import StoreError, StoreFailed
from emberq.kernel.queue_entries import EntryFilter
from emberq.record.decode import decode_record
from emberq.record.host import PackedHost
from emberq.record.layout import BytesLike
from emberq.store.admission import Admission
from emberq.store.appending import MessageWriter, NewMessage
from emberq.store.cleaning import Cleaner
from emberq.store.commit_log import CommitLog
from emberq.store.config import StoreConfig
from emberq.store.direct_sync import DescriptorWatcher
from emberq.store.directory_lock import DirectoryLock
from emberq.store.disk import Disk, RealDisk
from emberq.store.disk_space import DiskSpace, DiskUsage
from emberq.store.dispatch import Dispatched, Dispatcher
from emberq.store.durability import Durability
from emberq.store.key_index import KeyIndex
from emberq.store.key_query import IndexType, KeyQuery, find_by_key
from emberq.store.log_ground import LogGround, compiled_pages
from emberq.store.log_scan import LogScan
from emberq.store.lookup import Boundary, Lookup
from emberq.store.memory import physical_memory_bytes
from emberq.store.queue_files import QueueFiles
from emberq.store.queue_recovery import cut_to_log_end
from emberq.store.queue_removal import QueueRemoval
from emberq.store.queue_table import QueueTable
from emberq.store.reader import QueueReader, ReadLimits
from emberq.store.recovery import Progress, Recovered, Recovery, dispatched_from
from emberq.store.results import ReadResult
from emberq.store.tag_codes import TagCodes
from emberq.store.turn_dispatch import Schedule, TurnDispatch

log = logging.getLogger(__name__)

HOT_WINDOW_BYTES = 256 * 1024 * 1024
RAW_DISPATCH_BATCH = 512

__all__ = ["MessageStore", "NewMessage"]


class MessageStore:
    """One directory of messages.

    Everything but reading with `read_waiting` belongs to one thread, usually an event loop's.
    `schedule` runs a call at the end of that loop's turn and `schedule_from_thread` does so from
    another thread; without them dispatch happens at once and waiters are served by `poll`.
    `watcher` is the loop itself, for syncs that need no interpreter.

    The calls to put messages are those of `MessageWriter`, without another in between.
    """

    def __init__(
        self,
        config: StoreConfig,
        *,
        store_host: PackedHost,
        disk: Disk | None = None,
        schedule: Schedule | None = None,
        schedule_from_thread: Schedule | None = None,
        watcher: DescriptorWatcher | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        tag_codes: TagCodes | None = None,
    ) -> None:
        self.config = config
        self._disk = self.disk = disk or RealDisk()
        self._now_ms = now_ms
        self._tag_codes = tag_codes or TagCodes()
        self._admission = self.admission = Admission()
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
        memory_bytes = physical_memory_bytes() * config.access_message_in_memory_max_ratio // 100
        self.reader = QueueReader(self.log, HOT_WINDOW_BYTES, memory_bytes)
        self._lookup = Lookup(self.log, self.reader.bytes_at)
        self._lookup_waiting = Lookup(self.log, self.reader.bytes_at_waiting)
        self._turn = TurnDispatch(self.log, self.dispatcher, self.index, self._admission, schedule)
        self._writer = MessageWriter(
            config,
            self.log,
            self.queues,
            self._turn,
            self._admission,
            store_host=store_host,
            tag_codes=self._tag_codes,
            now_ms=now_ms,
        )
        self.durability = Durability(
            config,
            self._disk,
            self.log,
            self._files,
            self.index,
            self.dispatcher,
            self._admission,
            schedule,
            schedule_from_thread,
            watcher,
        )
        pages = compiled_pages()
        self._ground: LogGround | None = None
        if pages is not None:
            self._ground = LogGround(self.log, pages, is_sync_flush=config.is_sync_flush)
            self._turn.on_log_grown(self._ground.reach)
        self._space = DiskSpace(config, self._disk, self._admission)
        self._cleaner = Cleaner(
            config,
            self._disk,
            self.log,
            self.queues,
            self.index,
            self.durability,
            self._space,
            now_ms=now_ms,
        )
        self._removal = QueueRemoval(
            self.log,
            self.queues,
            self._disk,
            self.durability.no_side_work,
            schedule_from_thread,
        )
        self._lock: DirectoryLock | None = None
        self.put = self._writer.put
        self.put_batch = self._writer.put_batch
        self.put_encoded_batch = self._writer.put_encoded_batch
        self.when_durable = self.durability.when_durable
        self.poll = self.durability.poll
        self.dispatch_now = self._turn.dispatch_now
        self.on_log_grown = self._turn.on_log_grown

    @property
    def refusal(self) -> str:
        """Why puts are refused; empty when they are not."""
        return self._admission.refusal

    def follow(self, config: StoreConfig) -> None:
        """Take up settings that changed; an open store follows only some of them."""
        self.config = config
        self._writer.body_size_max = config.max_message_size
        self.durability.follow(config)
        self._space.follow(config)
        self._cleaner.follow(config)

    @property
    def is_busy(self) -> bool:
        """Whether producers should wait: the disk is behind."""
        return self._admission.is_index_busy

    @property
    def flushed_offset(self) -> int:
        return self.durability.flushed_offset

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
            self._files.open_file_system(root / "consumequeue")
            recovered = self._recover(was_clean, progress)
            self.log.open_for_append()
            self.durability.start()
        except BaseException:
            self._release()
            raise
        if self._ground is not None:
            self._ground.start()
        self._admission.open()
        self._cleaner.start()
        return recovered

    def close(self) -> None:
        """Write and sync everything, then mark the stop as clean.

        Raises:
            StoreFailed: the stop is not clean; the next start treats it as a crash.
        """
        self.dispatch_now()
        self._admission.fail("the store is closed")
        self._cleaner.stop()
        if self._ground is not None:
            self._ground.stop()
        try:
            if self.durability.is_started:
                self.durability.stop()
                self._disk.remove(self.config.root / "abort")
        except OSError as error:
            raise StoreFailed(f"the stop could not be marked as clean: {error}") from error
        finally:
            self.durability.release()
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

    def _recover(self, was_clean: bool, progress: Progress | None) -> Recovered:
        checkpoint = self.durability.load_checkpoint()
        if self.index is not None:
            self.index.load(
                is_after_crash=not was_clean, safe_log_offset=checkpoint.dispatched_offset
            )
        recovery = Recovery(
            self.log, self.queues, self._files, self.index, self._tag_codes, was_clean=was_clean
        )
        is_checked = self.config.check_crc_on_recover
        recovered = recovery.run(checkpoint, is_crc_checked=is_checked, progress=progress)
        last_stored_at_ms = max(recovered.last_stored_at_ms, checkpoint.log_timestamp_ms)
        self._writer.last_stored_at_ms = last_stored_at_ms
        if self.index is not None:
            self.index.settle(self.log.end)
        self.dispatcher.reached = (self.log.end, last_stored_at_ms)
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

    # Copying another broker's log

    def put_raw(self, offset: int, content: BytesLike) -> None:
        """Append bytes of another broker's log; whole records are dispatched by `dispatch_raw`."""
        if self.refusal:
            raise StoreError(self.refusal)
        self.log.append_raw(offset, content)
        self._turn.tell_log_end()

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

    def truncate(self, offset: int) -> None:
        """Forget everything from a log offset on: another broker's log went another way there.

        Raises:
            StoreError: the log begins later.
            OSError
        """
        self.dispatch_now()
        with self.durability.no_side_work():
            for queue in self.queues:
                if queue.log_end_offset > offset:
                    queue.write()
                    cut_to_log_end(queue, offset)
            if self.index is not None:
                self.index.truncate(offset)
            self.log.truncate(offset)
            self.durability.cut_back(offset)
        dispatched_offset, stored_at_ms = self.dispatcher.reached
        self.dispatcher.reached = (min(dispatched_offset, offset), stored_at_ms)
        self.durability.fail_waiters_from(offset)

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

    # Looking up. Those that may wait for the disk are for threads; the others for the loop.

    def record_at(self, log_offset: int) -> bytes | None:
        """The record that begins at a log offset; None if none does, or if the disk would have to
        be waited for: then ask `record_at_waiting`."""
        return self._lookup.record_at(log_offset)

    def record_at_waiting(self, log_offset: int) -> bytes | None:
        """The same in a thread; None: no intact record begins here."""
        return self._lookup_waiting.record_at(log_offset)

    def queue_offset_at_waiting(self, log_offset: int) -> int | None:
        """Which queue offset the message at a log offset has; None: there is none. May wait."""
        content = self.record_at_waiting(log_offset)
        return None if content is None else decode_record(content).queue_offset

    def min_offset(self, topic: str, queue_id: int) -> int:
        queue = self.queues.get(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset behind the last message that consumers can see."""
        queue = self.queues.get(topic, queue_id)
        return 0 if queue is None else queue.end_offset

    def is_in_memory(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether a message is there and can be read without waiting for the disk."""
        queue = self.queues.get(topic, queue_id)
        return queue is not None and self.reader.is_cached(queue, offset)

    def offset_by_time(
        self, topic: str, queue_id: int, time_ms: int, boundary: Boundary = Boundary.LOWER
    ) -> int:
        """The queue offset that a time means; 0 for an unknown queue. May wait."""
        queue = self.queues.get(topic, queue_id)
        return 0 if queue is None else self._lookup_waiting.offset_by_time(queue, time_ms, boundary)

    def earliest_time_ms(self, topic: str, queue_id: int) -> int:
        """When the first message of a queue was stored; -1 if it has none. May wait."""
        queue = self.queues.get(topic, queue_id)
        return -1 if queue is None else self._lookup_waiting.earliest_time_ms(queue)

    def stored_at_ms(self, topic: str, queue_id: int, offset: int) -> int:
        """When a message was stored; -1 if there is none. May wait."""
        queue = self.queues.get(topic, queue_id)
        return -1 if queue is None else self._lookup_waiting.queued_at_ms(queue, offset)

    def bytes_behind(self, topic: str, queue_id: int, offset: int) -> int:
        """How far before the end of the log a message lies; 0 if there is none. May wait."""
        queue = self.queues.get(topic, queue_id)
        return 0 if queue is None else self._lookup_waiting.bytes_behind(queue, offset)

    def log_begins_at_ms(self) -> int:
        """When the oldest record of the log was stored; -1 if there is none. May wait."""
        return self._lookup_waiting.stored_at_ms(self.log.min_offset)

    def find_by_key(
        self,
        topic: str,
        key: str,
        count_max: int,
        begin_ms: int,
        end_ms: int,
        *,
        index_type: IndexType | None = None,
    ) -> KeyQuery:
        """The newest messages with a key, in the order of the log. May wait."""
        if self.index is None:
            return KeyQuery([])
        count_max = min(count_max, self.config.max_msgs_num_batch)
        read_record = self.record_at_waiting
        return find_by_key(
            self.index, read_record, topic, key, count_max, begin_ms, end_ms, index_type
        )

    # Cleaning: by command. These wait for the disk, so they are for threads.

    def disk_usage(self) -> DiskUsage:
        """How full the disk is; does not wait."""
        return self._space.usage()

    def delete_expired_segments(self) -> int:
        """Delete expired segments whatever the hour, now and in the next rounds of the cleaner.

        Returns how many went now. Raises OSError."""
        return self._cleaner.delete_expired()

    def queue_ids(self) -> list[tuple[str, int]]:
        """Topic and number of every queue there is."""
        return [(queue.topic, queue.queue_id) for queue in self.queues]

    def delete_topics(self, names: Iterable[str]) -> None:
        """Forget all queues of topics; their offsets begin at 0 again. Raises OSError."""
        self._removal.delete_topics(names)

    def clean_unused_topics(self, kept: set[str]) -> int:
        """Delete topics that are not to be kept; returns how many. Raises OSError."""
        return self._removal.clean_unused(kept)

    def clean_expired_queues(self) -> int:
        """Remove queues of which the log has no message any more; returns how many.

        Raises:
            OSError
            StoreError: the loop does not answer.
        """
        return self._removal.clean_expired()

    def _index_name(self) -> str:
        now_ms = self._now_ms()
        stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(now_ms / 1000))
        return f"{stamp}{now_ms % 1000:03d}"
