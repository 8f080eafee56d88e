"""The file `timercheck`: up to where waiting messages are in the wheel, and slots delivered.

The layout is docs/formats/timer-files.md; 4096 bytes, of which official brokers use the first 56.
"""

from pathlib import Path
from struct import Struct as Layout

from msgspec import Struct
from msgspec.structs import replace

from emberq.model.data_version import DataVersion
from emberq.store.disk import PAGE_SIZE_BYTES, Disk

_FIELDS = Layout(">qqqqqqq")


class TimerCheck(Struct, frozen=True, kw_only=True):
    """What a start can rely on."""

    read_time_ms: int = 0  # all slots before it are delivered
    log_position: int = 0  # all units before it are durable, and in the wheel
    queue_offset: int = 0  # all messages before it are in the timer log, or delivered
    master_queue_offset: int = 0
    version: DataVersion = DataVersion()

    def encode(self) -> bytes:
        return _FIELDS.pack(
            self.read_time_ms,
            self.log_position,
            self.queue_offset,
            self.master_queue_offset,
            self.version.state_version,
            self.version.timestamp_ms,
            self.version.counter,
        )

    def next(
        self, read_time_ms: int, log_position: int, queue_offset: int, now_ms: int
    ) -> "TimerCheck":
        """The one that follows; the version tells when a slave has to copy it."""
        following = replace(
            self,
            read_time_ms=read_time_ms,
            log_position=log_position,
            queue_offset=queue_offset,
            master_queue_offset=queue_offset,
        )
        if following == self:
            return self
        return replace(following, version=self.version.next(now_ms))


def decode_timer_check(content: bytes) -> TimerCheck:
    read_time_ms, position, offset, master_offset, state, changed_at_ms, counter = (
        _FIELDS.unpack_from(content.ljust(_FIELDS.size, b"\0"))
    )
    return TimerCheck(
        read_time_ms=read_time_ms,
        log_position=position,
        queue_offset=offset,
        master_queue_offset=master_offset,
        version=DataVersion(counter=counter, state_version=state, timestamp_ms=changed_at_ms),
    )


def read_timer_check(disk: Disk, path: Path) -> TimerCheck | None:
    """The stored one; None if there is none."""
    if not disk.exists(path):
        return None
    file = disk.open(path, is_writable=False)
    try:
        return decode_timer_check(file.read(0, _FIELDS.size))
    finally:
        file.close()


def write_timer_check(disk: Disk, path: Path, check: TimerCheck) -> None:
    """Store it durably; it is smaller than a sector, so it is never torn."""
    is_new = not disk.exists(path)
    file = disk.create_sparse(path, PAGE_SIZE_BYTES)
    try:
        file.write(0, check.encode())
        file.sync()
    finally:
        file.close()
    if is_new:
        disk.sync_folder(path.parent)
