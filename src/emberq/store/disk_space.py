"""How full the disk is, and when that keeps the store from taking messages."""

import logging

from msgspec import Struct

from emberq.store.admission import Admission, Obstacle
from emberq.store.config import StoreConfig
from emberq.store.disk import Disk

log = logging.getLogger(__name__)


class DiskUsage(Struct, frozen=True, kw_only=True):
    """Used shares of the partitions, 0 to 1, negative where unknown; bytes of the log's one."""

    commit_log_ratio: float
    queues_ratio: float
    index_ratio: float
    total_bytes: int
    free_bytes: int

    @property
    def fullest_ratio(self) -> float:
        return max(self.commit_log_ratio, self.queues_ratio)

    @property
    def is_unknown(self) -> bool:
        return min(self.commit_log_ratio, self.queues_ratio) < 0


class DiskSpace:
    """Looks at the partitions of a store."""

    def __init__(self, config: StoreConfig, disk: Disk, admission: Admission) -> None:
        self._config = config
        self._disk = disk
        self._admission = admission

    def follow(self, config: StoreConfig) -> None:
        self._config = config

    def usage(self) -> DiskUsage:
        """One system call per partition, no waiting for the disk."""
        log_folder, root = self._config.commit_log_folder, self._config.root
        total, free = self._disk.room(log_folder)
        return DiskUsage(
            commit_log_ratio=self._disk.used_ratio(log_folder),
            queues_ratio=self._disk.used_ratio(root / "consumequeue"),
            index_ratio=self._disk.used_ratio(root / "index"),
            total_bytes=total,
            free_bytes=free,
        )

    def check(self) -> DiskUsage:
        """Refuse messages above the limit, take them again below it."""
        usage = self.usage()
        limit = self._config.disk_refused_ratio
        if usage.fullest_ratio > limit:
            reason = f"the disk is full: {usage.fullest_ratio:.0%} used, {limit:.0%} allowed"
            if self._admission.hinder(Obstacle.DISK_FULL, reason):
                log.error("disk_full ratio=%.2f limit=%.2f", usage.fullest_ratio, limit)
        elif self._admission.clear(Obstacle.DISK_FULL):
            log.info("disk_has_room ratio=%.2f limit=%.2f", usage.fullest_ratio, limit)
        return usage
