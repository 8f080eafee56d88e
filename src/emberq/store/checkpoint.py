"""The checkpoint file: up to when log, queues and index are known to be on disk.

Layout in docs/formats/store-files.md; 4096 bytes, of which official brokers use the first 48.
"""

from pathlib import Path
from struct import Struct as Layout
from zlib import crc32

from msgspec import Struct

from emberq.store.disk import PAGE_SIZE_BYTES, Disk

# Log, queue and index timestamps; master's flushed offset, confirmed offset, dispatched offset.
_FIELDS = Layout(">qqqqqq")
# EmberQ's mark behind them, and a checksum of them: official brokers write only the fields.
_MARK = Layout(">8sI")
_MARK_TEXT = b"EmberQ\0\1"
_SIZE = _FIELDS.size + _MARK.size

# Brokers start recovery this much earlier than the checkpoint says.
SAFETY_MS = 3_000


class Checkpoint(Struct, frozen=True, kw_only=True):
    """Store times of the last records that are durable, and positions of 5.x brokers."""

    log_timestamp_ms: int = 0
    queues_timestamp_ms: int = 0
    index_timestamp_ms: int = 0
    master_flushed_offset: int = 0
    confirmed_offset: int = 0
    dispatched_offset: int = 0  # start of the last dispatched record
    # Written by EmberQ, which syncs queues and index before it names the dispatched offset.
    is_marked: bool = False

    @property
    def vouched_offset(self) -> int:
        """Records below this log offset are whole, and durable in queues and index."""
        return self.dispatched_offset if self.is_marked else 0

    @property
    def safe_timestamp_ms(self) -> int:
        """Everything stored before this is in the log and in its queues."""
        return max(0, min(self.log_timestamp_ms, self.queues_timestamp_ms) - SAFETY_MS)

    @property
    def safe_index_timestamp_ms(self) -> int:
        return min(self.safe_timestamp_ms, self.index_timestamp_ms)


def read_checkpoint(disk: Disk, path: Path) -> Checkpoint:
    """The stored checkpoint; all zero if there is none."""
    if not disk.exists(path):
        return Checkpoint()
    file = disk.open(path, is_writable=False)
    try:
        content = file.read(0, _SIZE).ljust(_SIZE, b"\0")
    finally:
        file.close()
    log, queues, index, master, confirmed, dispatched = _FIELDS.unpack_from(content)
    return Checkpoint(
        log_timestamp_ms=log,
        queues_timestamp_ms=queues,
        index_timestamp_ms=index,
        master_flushed_offset=master,
        confirmed_offset=confirmed,
        dispatched_offset=dispatched,
        is_marked=content[_FIELDS.size :] == _mark(content[: _FIELDS.size]),
    )


def write_checkpoint(disk: Disk, path: Path, checkpoint: Checkpoint) -> None:
    """Store a checkpoint durably; it is smaller than a sector, so it is never torn."""
    fields = _FIELDS.pack(
        checkpoint.log_timestamp_ms,
        checkpoint.queues_timestamp_ms,
        checkpoint.index_timestamp_ms,
        checkpoint.master_flushed_offset,
        checkpoint.confirmed_offset,
        checkpoint.dispatched_offset,
    )
    file = disk.create_sparse(path, PAGE_SIZE_BYTES)
    try:
        file.write(0, fields + _mark(fields))
        file.sync()
    finally:
        file.close()


def _mark(fields: bytes) -> bytes:
    return _MARK.pack(_MARK_TEXT, crc32(fields))
