"""Pages of the log, made ready ahead of its writer by a thread of their own.

The first touch of a page has the system find memory for it and clear it, up to 43 % of what a
broker's loop did with bodies of 16 KiB. So the thread touches the pages that a fast writer will
come to next. Where every message waits for a sync this would have zeros synced too; there, pages
are brought in one by one instead: those that the system reads ahead together are also written
together, and with 8 MiB of read-ahead a sync of ten kilobytes wrote a megabyte.

Only where `log_pages` was compiled; without it everything works the same.
"""

import logging
import os
import threading
import time
from typing import Protocol

from emberq.store.commit_log import CommitLog
from emberq.store.disk import PAGE_SIZE_BYTES, MappedFile

log = logging.getLogger(__name__)

LOOK_EVERY_BYTES = 1024 * 1024
# A slow writer touches few pages, and what is ready long before it is used is flushed as zeros.
SPEED_MIN_BYTES_S = 16 * 1024 * 1024
AHEAD_S = 0.03
AHEAD_MAX_BYTES = 16 * 1024 * 1024


class Pages(Protocol):
    """The module `log_pages`."""

    def bring_in(self, view: memoryview, position: int, size: int, /) -> None: ...

    def take_singly(self, view: memoryview, descriptor: int, position: int, /) -> None: ...


def compiled_pages() -> Pages | None:
    if os.environ.get("EMBERQ_PURE", "") not in ("", "0"):
        return None
    try:
        from emberq.store import log_pages  # noqa: PLC0415 - may not be compiled
    except ImportError:
        return None
    return log_pages


class LogGround:
    """`reach` is called on the loop's thread, the rest happens in one of its own."""

    def __init__(self, commit_log: CommitLog, pages: Pages, *, is_sync_flush: bool) -> None:
        self._log = commit_log
        self._pages = pages
        self._is_sync_flush = is_sync_flush
        self._seen_end, self._seen_at = 0, 0.0
        self._look_from = 0
        self._followed: MappedFile | None = None
        self._changed = threading.Condition()
        self._wanted: tuple[MappedFile, int, int] | None = None
        self._is_stopped = False
        # The thread's own.
        self._file: MappedFile | None = None
        self._ready_end = 0
        self._thread = threading.Thread(target=self._run, name="emberq-ground", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def reach(self, log_end: int) -> None:
        """The log has grown up to here; once per turn of the loop."""
        if log_end >= self._look_from or self._log.active is not self._followed:
            self._look(log_end)

    def stop(self) -> None:
        """End, before the log is closed."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _look(self, log_end: int) -> None:
        active = self._log.active
        if active is None or active.descriptor < 0:
            return
        now = time.monotonic()
        grown, took_s = log_end - self._seen_end, now - self._seen_at
        self._seen_end, self._seen_at = log_end, now
        self._look_from = log_end + LOOK_EVERY_BYTES
        is_new, self._followed = active is not self._followed, active
        position = log_end - self._log.active_start
        if self._is_sync_flush:
            if is_new:
                self._want(active, position, position)
            return
        if grown < SPEED_MIN_BYTES_S * took_s:
            return
        ahead = min(int(grown / took_s * AHEAD_S) if took_s else 0, AHEAD_MAX_BYTES)
        start = -(-position // PAGE_SIZE_BYTES) * PAGE_SIZE_BYTES
        self._want(active, start, min(start + ahead, active.size))

    def _want(self, file: MappedFile, start: int, end: int) -> None:
        with self._changed:
            self._wanted = (file, start, end)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_stopped or self._wanted is not None)
                if self._is_stopped or self._wanted is None:
                    return
                (file, start, end), self._wanted = self._wanted, None
            try:
                self._prepare(file, start, end)
            except OSError as error:  # an older system: the writer does it itself, as ever
                log.info("log_pages_not_prepared reason=%s", error)
                return

    def _prepare(self, file: MappedFile, start: int, end: int) -> None:
        if self._is_sync_flush:
            self._pages.take_singly(file.view, file.descriptor, start)
            return
        if file is not self._file:
            self._file, self._ready_end = file, 0
        start = max(start, self._ready_end)
        if start < end:
            self._pages.bring_in(file.view, start, end - start)
            self._ready_end = end
