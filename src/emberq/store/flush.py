"""The flusher: one thread that makes the store durable, and those who wait for it.

Under SYNC_FLUSH a waiter is released when the log is synced up to its message. All waiters that
came while one sync ran share the next.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from emberq.errors import StoreFailed
from emberq.store.commit_log import CommitLog
from emberq.store.direct_sync import DirectSync
from emberq.store.disk import PAGE_SIZE_BYTES
from emberq.store.results import PutStatus

log = logging.getLogger(__name__)


class NoRoom(OSError):
    """Queues, index or checkpoint could not be written: a full disk, too many open files.

    Nothing is lost by it: what is not written stays in memory, and writing it later is the same.
    """


class SideFiles(Protocol):
    """Queues and index: written often, synced rarely.

    There may be very many; `in_between` is called often, for what cannot wait for all of them.
    """

    @property
    def is_sync_due(self) -> bool:
        """Whether they should be synced now, whatever the pace."""

    def write_side_files(self, in_between: Callable[[], None]) -> None:
        """Raises OSError, NoRoom."""

    def sync_side_files(self, sync_log: Callable[[], None], in_between: Callable[[], None]) -> None:
        """Make them durable, the log too, and note it in the checkpoint. Raises OSError, NoRoom."""


class FlushPace(Struct, frozen=True, kw_only=True):
    """How often what is flushed; milliseconds and pages of 4 KiB."""

    log_interval_ms: int = 500
    log_pages_min: int = 4
    log_thorough_interval_ms: int = 10_000
    side_interval_ms: int = 1_000
    side_thorough_interval_ms: int = 60_000
    is_sync: bool = False


class Flusher:
    """Runs the syncs. `on_flushed(offset)`, `on_failed(error)` and `on_room(error)` are called in
    its thread; the last one with None when there is room again."""

    def __init__(
        self,
        commit_log: CommitLog,
        side_files: SideFiles,
        pace: FlushPace,
        *,
        on_flushed: Callable[[int], None],
        on_failed: Callable[[Exception], None],
        on_room: Callable[[NoRoom | None], None] = lambda error: None,
        direct: DirectSync | None = None,
    ) -> None:
        self._log = commit_log
        self._side_files = side_files
        self._pace = pace
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._on_room = on_room
        self._direct = direct
        self._has_room = True
        self._woken = threading.Condition()
        self._wanted = 0
        self._is_stopped = False
        self._cuts = 0
        self.failure: Exception | None = None
        self.flushed_offset = commit_log.end
        self._thread = threading.Thread(target=self._run, name="emberq-flush", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def mean_sync_s(self) -> float:
        """How long a sync takes that may begin while messages are being put; else infinite.

        Python's own thread could not begin before a burst of messages ends.
        """
        return math.inf if self._direct is None else self._direct.mean_s()

    def want(self, offset: int, count: int = 1) -> None:
        """Ask for a sync up to this offset, soon; for so many messages more."""
        active = self._log.active
        if (
            self._direct is not None
            and active is not None
            and self.flushed_offset >= self._log.active_start
            and self._direct.request(active, offset, count)
        ):
            return
        with self._woken:
            if offset > self._wanted:
                self._wanted = offset
                self._woken.notify()

    def cut_back(self, offset: int) -> None:
        """The log is about to be cut: what is written behind `offset` from now on is not synced."""
        with self._woken:
            self._cuts += 1
            self._wanted = min(self._wanted, offset)
            self.flushed_offset = min(self.flushed_offset, offset)
            if self._direct is not None:
                self._direct.cut_back(offset)

    def take_direct_outcome(self) -> None:
        """A direct sync has ended; called on the loop."""
        if self._direct is None or self.failure is not None:
            return
        try:
            synced_offset = self._direct.synced_offset()
        except OSError as error:
            self._fail(error)
            return
        with self._woken:
            self.flushed_offset = max(self.flushed_offset, synced_offset)

    def stop(self) -> None:
        """Sync everything, then end.

        Raises:
            StoreFailed: not everything is durable, now or already before.
        """
        with self._woken:
            self._is_stopped = True
            self._woken.notify()
        if self._thread.is_alive():
            self._thread.join()
        self.take_direct_outcome()
        if self.failure is None:
            try:
                self._side_files.sync_side_files(self._sync_whole_log, _nothing)
            except OSError as error:
                self._fail(error)
        if self._direct is not None:
            self._direct.stop()
            self._direct = None
        if self.failure is not None:
            raise StoreFailed(f"not everything is on disk: {self.failure}") from self.failure

    def _run(self) -> None:
        pace = self._pace
        now = time.monotonic()
        next_log = now + pace.log_interval_ms / 1000
        next_log_thorough = now + pace.log_thorough_interval_ms / 1000
        next_side = now + pace.side_interval_ms / 1000
        next_side_thorough = now + pace.side_thorough_interval_ms / 1000
        try:
            while True:
                due = min(next_log, next_side)
                with self._woken:
                    self._woken.wait_for(
                        lambda: self._is_stopped or self._wanted > self.flushed_offset,
                        timeout=max(0.0, due - time.monotonic()),
                    )
                    if self._is_stopped:
                        return
                    is_wanted = self._wanted > self.flushed_offset
                now = time.monotonic()
                if is_wanted:
                    self._sync_log(self._log.end)
                if now >= next_log:
                    next_log = now + pace.log_interval_ms / 1000
                    is_thorough = now >= next_log_thorough
                    if is_thorough:
                        next_log_thorough = now + pace.log_thorough_interval_ms / 1000
                    self._flush_log(0 if is_thorough else pace.log_pages_min)
                if now >= next_side:
                    next_side = now + pace.side_interval_ms / 1000
                    # Whether there is room again is tried here only, at this pace.
                    self._side_work(self._write_side_files)
                if self._has_room and (now >= next_side_thorough or self._side_files.is_sync_due):
                    next_side_thorough = now + pace.side_thorough_interval_ms / 1000
                    self._side_work(self._sync_side_files)
        except OSError as error:
            self._fail(error)
        except Exception as error:
            self._fail(error)  # or the store would go on without ever being durable
            raise

    def _write_side_files(self) -> None:
        self._side_files.write_side_files(self._sync_wanted)
        if not self._has_room:
            # The checkpoint may be what there was no room for.
            self._sync_side_files()

    def _sync_side_files(self) -> None:
        self._side_files.sync_side_files(self._sync_whole_log, self._sync_wanted)

    def _side_work(self, work: Callable[[], None]) -> None:
        """The log goes on being synced while there is no room for what can be made from it."""
        try:
            work()
        except NoRoom as error:
            self._has_room = False
            self._on_room(error)
        else:
            if not self._has_room:
                self._has_room = True
                self._on_room(None)

    def _fail(self, error: Exception) -> None:
        if self.failure is not None:
            return  # told already: after a failure nothing is synced any more
        log.error("flush_failed reason=%s", error)
        self._on_failed(error)  # first: who sees the failure must see the refusal too
        self.failure = error

    def _flush_log(self, pages_min: int) -> None:
        end = self._log.end
        dirty = end // PAGE_SIZE_BYTES - self.flushed_offset // PAGE_SIZE_BYTES
        if end > self.flushed_offset and (pages_min == 0 or dirty >= pages_min):
            self._sync_log(end)

    def _sync_whole_log(self) -> None:
        self._sync_log(self._log.end)

    def _sync_wanted(self) -> None:
        if self._wanted > self.flushed_offset:
            self._sync_log(self._log.end)

    def _sync_log(self, end: int) -> None:
        """Sync every segment between what is durable and `end`."""
        offset, cuts = self.flushed_offset, self._cuts
        while offset < end:
            found = self._log.segment_at(offset)
            if found is None:  # deleted by retention, which deletes only what is synced
                offset += self._log.segment_size - offset % self._log.segment_size
                continue
            segment, position = found
            if self._direct is None:
                segment.sync()
            else:  # a failure is reported once per file: both must see it
                self._direct.sync_now(segment)
            offset += segment.size - position
        with self._woken:
            if end <= self.flushed_offset or cuts != self._cuts:
                return  # cut meanwhile: other bytes may stand there now
            self.flushed_offset = end
            if self._direct is not None:
                self._direct.note_synced(end)
        self._on_flushed(end)


def _nothing() -> None:
    """Nobody waits while the store closes."""


class FlushWaiters:
    """Calls to make when the log is durable up to an offset; lives on the loop's thread."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, float, Callable[[PutStatus], None]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int, deadline: float, done: Callable[[PutStatus], None]) -> None:
        """Call `done(PUT_OK)` when durable, with another status otherwise; offsets only grow."""
        self._waiting.append((offset, deadline, done))

    def release(self, flushed_offset: int) -> None:
        waiting, take, durable = self._waiting, self._waiting.popleft, PutStatus.PUT_OK
        while waiting and waiting[0][0] <= flushed_offset:
            take()[2](durable)

    def expire(self, now: float, status: PutStatus) -> None:
        waiting = self._waiting
        while waiting and waiting[0][1] <= now:
            waiting.popleft()[2](status)

    def fail_all(self, status: PutStatus) -> None:
        while self._waiting:
            self._waiting.popleft()[2](status)

    def fail_from(self, offset: int, status: PutStatus) -> None:
        """The log was cut at `offset`: what was waited for behind it will never be durable."""
        waiting = self._waiting
        while waiting and waiting[-1][0] > offset:
            waiting.pop()[2](status)
