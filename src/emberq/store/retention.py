"""How long messages are kept: by age, by the disk's fill, by command."""

import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from emberq.store.commit_log import CommitLog
from emberq.store.config import StoreConfig
from emberq.store.disk import Disk
from emberq.store.queue_table import QueueTable

log = logging.getLogger(__name__)

SEGMENTS_PER_RUN_MAX = 10
MANUAL_RUNS = 20  # what one command of an administrator arms
QUEUES_PER_STEP = 200

# Used share of the partition above which old segments go regardless of age, and above which
# nothing more is taken in.
FORCED_RATIO = 0.85
REFUSED_RATIO = 0.90
_HOUR_MS = 3_600_000


class IndexFiles(Protocol):
    def remove_before(self, log_min_offset: int) -> None: ...


class DiskUse(Struct, frozen=True):
    """How full the disk is, and what follows from it."""

    ratio: float

    @property
    def is_forced(self) -> bool:
        return self.ratio > FORCED_RATIO

    @property
    def is_refused(self) -> bool:
        return self.ratio > REFUSED_RATIO


class Retention:
    """Deletes the oldest segments, then what pointed to them."""

    def __init__(
        self,
        config: StoreConfig,
        disk: Disk,
        commit_log: CommitLog,
        queues: QueueTable,
        index: IndexFiles | None,
        *,
        now_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._disk = disk
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._now_ms = now_ms
        self._manual_runs = 0

    def arm(self) -> None:
        """Delete expired segments now, whatever the hour."""
        self._manual_runs = MANUAL_RUNS

    def disk_use(self) -> DiskUse:
        """The fuller of the partitions of log and queues."""
        ratios = (
            self._disk.used_ratio(self._config.commit_log_folder),
            self._disk.used_ratio(self._config.root / "consumequeue"),
        )
        return DiskUse(max(ratios))

    def run(self) -> Iterator[None]:
        """Delete what may go; a generator, so that a loop can do other things in between."""
        use = self.disk_use()
        is_forced = self._config.clean_file_forcibly_enable and use.is_forced
        if not (self._is_hour() or self._is_full(use) or self._is_armed()):
            return
        removed = 0
        while removed < SEGMENTS_PER_RUN_MAX and (is_forced or self._is_first_expired()):
            path = self._log.remove_first()
            if path is None:
                break
            removed += 1
            log.info(
                "segment_deleted path=%s disk_ratio=%.2f forced=%s", path, use.ratio, is_forced
            )
            yield
        if removed:
            yield from self._trim()

    def _trim(self) -> Iterator[None]:
        log_min = self._log.min_offset
        for number, queue in enumerate(self._queues, start=1):
            queue.raise_min_offset(log_min)
            if number % QUEUES_PER_STEP == 0:
                yield
        if self._index is not None:
            self._index.remove_before(log_min)
        yield

    def _is_hour(self) -> bool:
        # Hours of the machine's own time zone, as the key says.
        hour = datetime.fromtimestamp(self._now_ms() / 1000).hour  # noqa: DTZ006
        hours = {text.strip() for text in self._config.delete_when.split(";") if text.strip()}
        return any(text.isdigit() and int(text) == hour for text in hours)

    def _is_full(self, use: DiskUse) -> bool:
        limit = min(max(self._config.disk_max_used_space_ratio, 10), 95) / 100
        return use.ratio > limit or use.ratio < 0

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
