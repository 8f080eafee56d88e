"""Settings of the store: official keys, our units in the names of what is derived."""

from pathlib import Path

from msgspec import Struct, field

from emberq.errors import ConfigError
from emberq.record.layout import BLANK_SIZE_MIN
from emberq.store.disk import PAGE_SIZE_BYTES

QUEUE_ENTRY_SIZE_BYTES = 20
SEVERAL_FOLDERS = ","  # between the folders of a log that lies in several


class FlushKind:
    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


class StoreConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """Keys of broker.conf that concern the store. Times are milliseconds unless named otherwise."""

    store_path_root_dir: str = ""
    store_path_commit_log: str = ""
    mapped_file_size_commit_log: int = 1024 * 1024 * 1024
    mapped_file_size_consume_queue: int = 300_000 * QUEUE_ENTRY_SIZE_BYTES
    max_message_size: int = 4 * 1024 * 1024
    flush_disk_type: str = FlushKind.ASYNC_FLUSH
    flush_interval_commit_log: int = 500
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10_000
    flush_interval_consume_queue: int = 1_000
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval: int = 60_000
    sync_flush_timeout: int = 5_000
    delete_when: str = "04"
    file_reserved_time: int = 72
    disk_max_used_space_ratio: int = 75
    disk_space_warning_level_ratio: int = 90
    disk_space_clean_forcibly_ratio: int = 85
    clean_file_forcibly_enable: bool = True
    clean_resource_interval: int = 10_000
    delete_file_batch_max: int = 10
    delete_commit_log_files_interval: int = 100
    message_index_enable: bool = True
    message_index_safe: bool = False
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    max_msgs_num_batch: int = 64
    access_message_in_memory_max_ratio: int = 40
    check_crc_on_recover: bool = field(name="checkCRCOnRecover", default=True)
    enabled_append_prop_crc: bool = field(name="enabledAppendPropCRC", default=False)

    def __post_init__(self) -> None:
        if self.mapped_file_size_commit_log % PAGE_SIZE_BYTES or (
            self.mapped_file_size_commit_log < PAGE_SIZE_BYTES
        ):
            raise ConfigError(
                f"mappedFileSizeCommitLog={self.mapped_file_size_commit_log}: "
                f"expected a multiple of {PAGE_SIZE_BYTES}"
            )
        if self.flush_disk_type not in (FlushKind.ASYNC_FLUSH, FlushKind.SYNC_FLUSH):
            raise ConfigError(
                f"flushDiskType={self.flush_disk_type!r}: choose ASYNC_FLUSH or SYNC_FLUSH"
            )

        if SEVERAL_FOLDERS in self.store_path_commit_log:
            raise ConfigError(
                f"storePathCommitLog={self.store_path_commit_log}: EmberQ keeps its log in one"
                " folder; move all segments into it and name it alone"
            )

    @property
    def root(self) -> Path:
        return Path(self.store_path_root_dir) if self.store_path_root_dir else Path.home() / "store"

    @property
    def commit_log_folder(self) -> Path:
        if self.store_path_commit_log:
            return Path(self.store_path_commit_log)
        return self.root / "commitlog"

    @property
    def queue_file_size_bytes(self) -> int:
        """The configured size, rounded up to whole entries."""
        entries = -(-self.mapped_file_size_consume_queue // QUEUE_ENTRY_SIZE_BYTES)
        return entries * QUEUE_ENTRY_SIZE_BYTES

    @property
    def is_sync_flush(self) -> bool:
        return self.flush_disk_type == FlushKind.SYNC_FLUSH

    @property
    def disk_cleaned_ratio(self) -> float:
        """Used share of the disk above which expired segments go at any hour."""
        return _clamped(self.disk_max_used_space_ratio, 10, 95) / 100

    @property
    def disk_forced_ratio(self) -> float:
        """Used share above which the oldest segments go whatever their age."""
        return _clamped(self.disk_space_clean_forcibly_ratio, 30, 85) / 100

    @property
    def disk_refused_ratio(self) -> float:
        """Used share above which nothing more is taken in."""
        return _clamped(self.disk_space_warning_level_ratio, 35, 90) / 100

    @property
    def record_size_max_bytes(self) -> int:
        """What a segment can hold besides the blank that ends it."""
        return self.mapped_file_size_commit_log - BLANK_SIZE_MIN


def _clamped(percent: int, low: int, high: int) -> int:
    """Official brokers take such a value for the nearest sensible one."""
    return min(max(percent, low), high)
