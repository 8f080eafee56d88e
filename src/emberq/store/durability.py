"""What makes a store durable: the flusher, those who wait for it, side files and checkpoint."""

import errno
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from emberq.store.admission import Admission, Obstacle
from emberq.store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from emberq.store.commit_log import CommitLog
from emberq.store.config import StoreConfig
from emberq.store.consume_queue import ConsumeQueue
from emberq.store.direct_sync import DescriptorWatcher, direct_sync
from emberq.store.disk import Disk
from emberq.store.dispatch import Dispatcher
from emberq.store.flush import Flusher, FlushPace, FlushWaiters, NoRoom
from emberq.store.key_index import KeyIndex
from emberq.store.queue_files import QueueFiles
from emberq.store.results import PutStatus
from emberq.store.turn_dispatch import Schedule

log = logging.getLogger(__name__)

# With very many queues most have few entries that their files lack, and a write of 20 bytes costs
# as much as one of 8,000: each is a turn with the interpreter that the loop waits for. Entries in
# memory are read and recovered all the same, so in one round only some of the queues with few
# entries are written, those that wait the longest; official brokers too sync a queue only when two
# pages of it are new. Whatever their number, none waits for more rounds than this.
FEW_ENTRIES_MAX = 400
SMALL_WRITES_MIN = 32
SMALL_WRITES_ROUNDS = 30

# Within a long burst a sync that ends soon should find what came meanwhile.
ASK_EVERY_S = 30e-6

# What goes away by itself or by an administrator's hand.
_WANTS_OF_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class Durability:
    """Waiters live on the loop's thread; side files are the flusher's, and close's after it."""

    def __init__(
        self,
        config: StoreConfig,
        disk: Disk,
        commit_log: CommitLog,
        files: QueueFiles,
        index: KeyIndex | None,
        dispatcher: Dispatcher,
        admission: Admission,
        schedule: Schedule | None,
        schedule_from_thread: Schedule | None,
        watcher: DescriptorWatcher | None = None,
    ) -> None:
        self._config = config
        self._wait_max_s = config.sync_flush_timeout / 1000
        self._disk = disk
        self._log = commit_log
        self._files = files
        self._index = index
        self._dispatcher = dispatcher
        self._admission = admission
        self._schedule = schedule
        self._schedule_from_thread = schedule_from_thread
        self._watcher = watcher
        self._flusher: Flusher | None = None
        self._waiters = FlushWaiters()
        # Messages of this turn of the loop whose sync is not asked for yet, and when to ask.
        self._unasked_end = self._unasked_count = 0
        self._ask_at = 0.0
        self._is_in_burst = False
        self._burst_began_at, self._burst_count = 0.0, 0
        self._asks_at_once = False
        self._checkpoint = Checkpoint()
        self._is_nobody_waiting = True  # for a sync: the store is being opened or closed
        self._side_lock = threading.Lock()  # the flusher's and close's work on queues and index
        # Queues with entries that their files lack, as the flusher knows them; the oldest first.
        self._unwritten: dict[ConsumeQueue, None] = {}

    def follow(self, config: StoreConfig) -> None:
        self._config = config
        self._wait_max_s = config.sync_flush_timeout / 1000

    # Opening and closing

    def load_checkpoint(self) -> Checkpoint:
        self._checkpoint = read_checkpoint(self._disk, self._config.root / "checkpoint")
        return self._checkpoint

    def start(self) -> None:
        """Begin to flush a recovered log. Raises OSError."""
        direct = None
        if self._config.is_sync_flush:
            direct = direct_sync(
                self._watcher, self._schedule_from_thread, self._log.end, self._synced_directly
            )
        flusher = Flusher(
            self._log,
            self,
            _pace(self._config),
            on_flushed=self._flushed_in_thread,
            on_failed=self._failed_in_thread,
            on_room=self._room_in_thread,
            direct=direct,
        )
        self._flusher = flusher
        try:
            # What recovery found is not to be found again, and official brokers leave a checkpoint
            # that makes them delete the newest index file after our crash.
            self.sync_side_files(_nothing, _nothing)
        except BaseException:
            self._flusher = None
            raise
        self._is_nobody_waiting = False
        flusher.start()

    @property
    def is_started(self) -> bool:
        return self._flusher is not None

    def stop(self) -> None:
        """Make everything durable, then end.

        Raises:
            StoreFailed: something is not durable.
        """
        if self._flusher is not None:
            self._is_nobody_waiting = True
            self._flusher.stop()

    def release(self) -> None:
        """Tell those who still wait how it ended."""
        self.poll()
        self._fail_waiters()
        self._flusher = None

    # Waiting

    @property
    def flushed_offset(self) -> int:
        return 0 if self._flusher is None else self._flusher.flushed_offset

    def when_durable(self, offset: int, done: Callable[[PutStatus], None]) -> None:
        """Call `done` when the log is synced up to `offset`, or will not be in time."""
        flusher = self._flusher
        if flusher is not None and flusher.flushed_offset >= offset:
            done(PutStatus.PUT_OK)
            return
        if flusher is None or self._admission.failure:
            done(PutStatus.SERVICE_NOT_AVAILABLE)
            return
        now = time.monotonic()
        self._waiters.add(offset, now + self._wait_max_s, done)
        self._unasked_end = offset
        self._unasked_count += 1
        if self._schedule is None:
            self._ask()
            return
        if not self._is_in_burst:
            self._is_in_burst = True
            self._schedule(self._end_burst)
            self._burst_began_at, self._burst_count = now, 0
            self._ask_at = now if self._asks_at_once else now + flusher.mean_sync_s
        self._burst_count += 1
        if now >= self._ask_at:
            self._ask()
            self._ask_at = now + ASK_EVERY_S

    def _end_burst(self) -> None:
        """The turn of the loop ends: messages that are not asked for yet share a sync."""
        self._is_in_burst = False
        if self._unasked_count:
            self._ask()
        if self._flusher is not None:
            lasted_s = time.monotonic() - self._burst_began_at
            self._asks_at_once = self._burst_count == 1 or lasted_s >= self._flusher.mean_sync_s

    def _ask(self) -> None:
        end, count = self._unasked_end, self._unasked_count
        self._unasked_count = 0
        if self._flusher is not None:
            self._flusher.want(end, count)

    @property
    def _undurable(self) -> PutStatus:
        """What those learn whose message is not durable in time."""
        if self._admission.failure:
            return PutStatus.SERVICE_NOT_AVAILABLE
        return PutStatus.FLUSH_DISK_TIMEOUT

    def poll(self) -> None:
        """Serve waiters whose time has come; call it now and then, and without a loop always."""
        if self._flusher is not None:
            self._waiters.release(self._flusher.flushed_offset)
            if self._flusher.failure is not None:
                self._fail_waiters()
        self._waiters.expire(time.monotonic(), self._undurable)

    def _flushed_in_thread(self, offset: int) -> None:
        if self._schedule_from_thread is not None:
            self._schedule_from_thread(lambda: self._waiters.release(offset))

    def _failed_in_thread(self, error: Exception) -> None:
        self._admission.fail(f"the disk failed: {error}")
        if self._schedule_from_thread is not None:
            self._schedule_from_thread(self._fail_waiters)

    def _fail_waiters(self) -> None:
        self._waiters.fail_all(self._undurable)

    def _synced_directly(self) -> None:
        if self._flusher is not None:
            self._flusher.take_direct_outcome()
            self._waiters.release(self._flusher.flushed_offset)

    def _room_in_thread(self, error: NoRoom | None) -> None:
        if error is not None:
            reason = f"no room for queues and index: {error}"
            if self._admission.hinder(Obstacle.NO_ROOM, reason):
                log.error("no_room reason=%s", error)
        elif self._admission.clear(Obstacle.NO_ROOM):
            log.info("room_again")

    # Cutting and cleaning

    def durable_offset(self) -> int:
        """Records below this log offset are durable, and so are their entries."""
        return min(self._checkpoint.dispatched_offset, self._checkpoint.confirmed_offset)

    def no_side_work(self) -> AbstractContextManager[object]:
        """While it is held, no other thread works on queue files and index."""
        return self._side_lock

    def cut_back(self, offset: int) -> None:
        """The log is about to be cut: what follows `offset` from now on is not durable."""
        self._unasked_end = min(self._unasked_end, offset)
        if self._flusher is not None:
            self._flusher.cut_back(offset)

    def fail_waiters_from(self, offset: int) -> None:
        self._waiters.fail_from(offset, self._undurable)

    # Side files: called by the flusher

    @property
    def is_sync_due(self) -> bool:
        """Whether an index file is full: it is not left to a crash."""
        return self._index is not None and self._index.is_sync_due

    def write_side_files(
        self, in_between: Callable[[], None], *, is_thorough: bool = False
    ) -> None:
        """Queues and index to their files; what is hardly worth it waits for a thorough write."""
        with self._side_lock:
            self._write_queues(in_between, is_thorough)
            if self._index is not None:
                with _room_needed():
                    self._index.write_entries()
                self._admission.is_index_busy = False

    def _write_queues(self, in_between: Callable[[], None], is_thorough: bool) -> None:
        dirty, unwritten = self._dispatcher.dirty_queues, self._unwritten
        for _ in range(len(dirty)):  # the loop may add more meanwhile
            unwritten.setdefault(dirty.pop())
        small_writes_left = max(SMALL_WRITES_MIN, len(unwritten) // SMALL_WRITES_ROUNDS)
        for queue in list(unwritten):
            if not is_thorough and queue.unwritten_count <= FEW_ENTRIES_MAX:
                if not small_writes_left:
                    continue
                small_writes_left -= 1
            with _room_needed():
                queue.write()
            del unwritten[queue]
            in_between()

    def sync_side_files(self, sync_log: Callable[[], None], in_between: Callable[[], None]) -> None:
        """Everything that is dispatched now becomes durable, and the checkpoint says so."""
        dispatched_offset, dispatched_at_ms = self._dispatcher.reached
        self.write_side_files(in_between, is_thorough=True)
        sync_log()
        with self._side_lock:
            is_urgent = self._config.is_sync_flush and not self._is_nobody_waiting
            self._files.sync(in_between, may_take_long=not is_urgent)
            indexed_at_ms = dispatched_at_ms
            if self._index is not None:
                with _room_needed():
                    written = self._index.write_whole()
                self._index.sync_written(written)
                # Official brokers delete an index file that is newer than this.
                indexed_at_ms = self._index.durable_timestamp_ms
                dispatched_offset = min(dispatched_offset, self._index.durable_log_offset)
            self._checkpoint = Checkpoint(
                log_timestamp_ms=dispatched_at_ms,
                queues_timestamp_ms=dispatched_at_ms,
                index_timestamp_ms=indexed_at_ms,
                master_flushed_offset=self._checkpoint.master_flushed_offset,
                confirmed_offset=self.flushed_offset,
                dispatched_offset=dispatched_offset,
            )
        # One that could not be written leaves the one before, which promises less.
        with _room_needed():
            write_checkpoint(self._disk, self._config.root / "checkpoint", self._checkpoint)
        if self._index is not None:
            with self._side_lock:
                self._index.write_ends()


@contextmanager
def _room_needed() -> Iterator[None]:
    """Around writes, never around syncs: pages of a failed sync may be gone."""
    try:
        yield
    except OSError as error:
        if error.errno in _WANTS_OF_ROOM:
            raise NoRoom(error.errno, error.strerror, error.filename) from error
        raise


def _pace(config: StoreConfig) -> FlushPace:
    return FlushPace(
        log_interval_ms=config.flush_interval_commit_log,
        log_pages_min=config.flush_commit_log_least_pages,
        log_thorough_interval_ms=config.flush_commit_log_thorough_interval,
        side_interval_ms=config.flush_interval_consume_queue,
        side_thorough_interval_ms=config.flush_consume_queue_thorough_interval,
        is_sync=config.is_sync_flush,
    )


def _nothing() -> None:
    """Recovery has synced the log, and nobody waits yet."""
