"""How long messages are kept: by age, by the disk's fill, by command.

Deletes the oldest segments, then what pointed to them. Readers keep what they hold: a removed file
goes when the last of them lets go of it.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from emberq.seldom import Seldom
from emberq.store.commit_log import CommitLog
from emberq.store.config import StoreConfig
from emberq.store.disk import Disk
from emberq.store.disk_space import DiskUsage
from emberq.store.queue_table import QueueTable

log = logging.getLogger(__name__)

MANUAL_RUNS = 20  # what one command of an administrator arms
# Queues that are looked at before other threads get their turn.
QUEUES_PER_STEP = 200
PAUSE_BETWEEN_STEPS_MS = 1
NOTHING_TO_DELETE_LOGGED_EVERY_S = 600.0
_HOUR_MS = 3_600_000


class IndexFiles(Protocol):
    def remove_before(self, log_min_offset: int) -> None: ...


class StoreState(Protocol):
    """What retention must know of the rest of the store."""

    def durable_offset(self) -> int:
        """Records below this log offset are durable, and so are their entries."""

    def no_side_work(self) -> AbstractContextManager[object]:
        """While it is held, no other thread works on queue files and index."""


class Retention:
    """Lives in one thread, that of the cleaner or of a command; they take turns."""

    def __init__(
        self,
        config: StoreConfig,
        disk: Disk,
        commit_log: CommitLog,
        queues: QueueTable,
        index: IndexFiles | None,
        state: StoreState,
        *,
        now_ms: Callable[[], int],
        usage: Callable[[], DiskUsage],
        pause: Callable[[int], bool],
    ) -> None:
        """`pause(milliseconds)` lets others work, and tells whether the store is to be closed;
        `usage` looks at the disk."""
        self._config = config
        self._disk = disk
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._state = state
        self._now_ms = now_ms
        self._usage = usage
        self._pause = pause
        self._seldom = Seldom(NOTHING_TO_DELETE_LOGGED_EVERY_S)
        self._manual_runs = 0
        self._trimmed_until = 0

    def follow(self, config: StoreConfig) -> None:
        self._config = config

    def arm(self) -> None:
        """Delete expired segments now, whatever the hour."""
        self._manual_runs = MANUAL_RUNS

    def run(self) -> int:
        """Delete what may go; returns the number of segments. Raises OSError."""
        removed = self._remove_segments()
        self._trim_behind_log()
        return removed

    # Segments

    def _remove_segments(self) -> int:
        usage = self._usage()
        is_full = self._is_full(usage)
        if not (self._is_hour() or is_full or self._is_armed()):
            return 0
        removed = 0
        while removed < self._config.delete_file_batch_max:
            # Asked again after each: forced deletion takes no more than it needs to.
            is_forced = self._is_forced(usage)
            if not is_forced and not self._is_first_expired():
                break
            if removed and self._pause(self._config.delete_commit_log_files_interval):
                break
            path = self._log.remove_first(self._state.durable_offset())
            if path is None:
                break
            removed += 1
            log.info(
                "segment_deleted path=%s disk_ratio=%.2f forced=%s",
                path,
                usage.fullest_ratio,
                is_forced,
            )
            # At once: until then queues begin with messages that nobody can read.
            try:
                self._trim_behind_log()
            except OSError as error:  # segments go all the same; behind them it is tried again
                log.warning("queues_not_trimmed reason=%s", error)
            usage = self._usage()
        if is_full and not removed and self._seldom.held_back() is not None:
            log.warning("disk_full_soon ratio=%.2f: nothing to delete", usage.fullest_ratio)
        return removed

    def _is_hour(self) -> bool:
        # Hours of the machine's own time zone, as the key says.
        hour = datetime.fromtimestamp(self._now_ms() / 1000).hour  # noqa: DTZ006
        hours = (text.strip() for text in self._config.delete_when.split(";"))
        return any(text.isdecimal() and int(text) == hour for text in hours)

    def _is_full(self, usage: DiskUsage) -> bool:
        return usage.is_unknown or usage.fullest_ratio > self._config.disk_cleaned_ratio

    def _is_forced(self, usage: DiskUsage) -> bool:
        is_enabled = self._config.clean_file_forcibly_enable
        return is_enabled and usage.fullest_ratio > self._config.disk_forced_ratio

    def _is_armed(self) -> bool:
        if self._manual_runs == 0:
            return False
        self._manual_runs -= 1
        return True

    def _is_first_expired(self) -> bool:
        first = self._log.first_path
        if first is None:
            return False
        age_ms = self._now_ms() - self._disk.modified_at_ms(first)
        return age_ms >= self._config.file_reserved_time * _HOUR_MS

    # Queues and index

    def _trim_behind_log(self) -> None:
        log_min = self._log.min_offset
        if log_min > self._trimmed_until and self._trim(log_min):
            self._trimmed_until = log_min

    def _trim(self, log_min: int) -> bool:
        """Remove what leads nowhere; False if the store is to be closed meanwhile."""
        for number, queue in enumerate(self._queues, start=1):
            if queue.begins_before(log_min):
                # Held per queue: the flusher, and who waits for it, must not wait for all.
                with self._state.no_side_work():
                    if not queue.is_removed:
                        queue.raise_min_offset(log_min)
            if number % QUEUES_PER_STEP == 0 and self._pause(PAUSE_BETWEEN_STEPS_MS):
                return False
        if self._index is not None:
            with self._state.no_side_work():
                self._index.remove_before(log_min)
        return True
