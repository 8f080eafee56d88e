"""The timer log: units back to back in files of equal size, the newest in memory until a flush."""

from collections.abc import Iterator
from pathlib import Path

from emberq.errors import StoreDamaged
from emberq.store.disk import Disk
from emberq.store.queue_files import QueueFiles
from emberq.store.timers.units import (
    BLANK,
    BLANK_MAGIC,
    UNIT,
    UNIT_SIZE,
    ending,
    is_unit,
    iter_units,
    unit_capacity,
)

READ_SIZE_BYTES = 64 * 1024
SCAN_SIZE_BYTES = 5_000 * UNIT_SIZE


class TimerLog:
    """Positions count bytes over all files. One thread appends; others read and write files."""

    def __init__(self, disk: Disk, folder: Path, file_size: int) -> None:
        self._files = QueueFiles(disk, file_size)
        self._folder = folder
        self._file_size = file_size
        self._units_end = unit_capacity(file_size) * UNIT_SIZE  # within each file
        # Where the newest units begin, and those that the files lack: one pair, so that no thread
        # sees one without the other. Only the loop's thread changes it.
        self.tail: tuple[int, bytearray] = (0, bytearray())

    @property
    def end(self) -> int:
        start, units = self.tail
        return start + len(units)

    @property
    def unwritten_bytes(self) -> int:
        return len(self.tail[1])

    def append(self, unit: bytes) -> int:
        """Returns its position."""
        start, units = self.tail
        position = start + len(units)
        at = position % self._file_size
        if at >= self._units_end:
            rest = self._file_size - at
            units += ending(rest)
            position += rest
        units += unit
        return position

    # Files: in threads

    def write(self, position: int, content: bytes) -> None:
        """Make units durable. Raises OSError."""
        if content:
            self._files.write(self._folder, position, content)
        self._files.sync(_nothing, may_take_long=True)

    def forget_before(self, position: int) -> None:
        """The files have all units before a position."""
        start, units = self.tail
        self.tail = (position, units[position - start :])

    def read(self, position: int, size: int) -> bytes:
        """Bytes of the files; shorter where they end."""
        return self._files.read(self._folder, position, size)

    def piece(self, position: int) -> tuple[bytes, int]:
        """Units of one file from a unit's position on, and the position behind them: of the next
        unit, wherever that stands. May wait."""
        at = position % self._file_size
        size = min(SCAN_SIZE_BYTES, self._units_end - at)
        is_rest = at + size >= self._units_end
        return self.read(position, size), position + (self._file_size - at if is_rest else size)

    def file_start(self, position: int) -> int:
        return position - position % self._file_size

    def remove_before(self, log_offset: int) -> int:
        """Remove files of messages that the commit log has deleted; returns how many went."""
        removed = 0
        for start in self._files.starts(self._folder)[:-1]:
            last = self.read(start + self._units_end - UNIT_SIZE, UNIT_SIZE)
            if len(last) < UNIT_SIZE or UNIT.unpack(last)[5] >= log_offset:
                break
            self._files.remove(self._folder, start)
            removed += 1
        return removed

    def close(self) -> None:
        self._files.close()

    # Recovery

    def first_position(self) -> int | None:
        """Where the files begin; None if there are none.

        Raises:
            StoreDamaged: they are not of the configured size.
        """
        starts = self._files.starts(self._folder)
        if not starts:
            return None
        if not self._files.fit(self._folder, starts):
            raise StoreDamaged(
                f"{self._folder}: files are not of mappedFileSizeTimerLog={self._file_size} bytes"
            )
        self.tail = (starts[-1] + self._file_size, bytearray())  # until a scan knows better
        return starts[0]

    def scan(self, position: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Positions and units from the start of a unit on; the end of the log is behind the last
        one that was taken."""
        self.tail = (position, bytearray())
        while True:
            at = position % self._file_size
            if at >= self._units_end:
                if not self._is_ended(position):
                    return
                position += self._file_size - at
                continue
            size = min(SCAN_SIZE_BYTES, self._units_end - at)
            reached = position + size
            for unit in iter_units(self.read(position, size)):
                position += UNIT_SIZE
                self.tail = (position, bytearray())
                yield position - UNIT_SIZE, unit
            if position < reached:
                return

    def _is_ended(self, position: int) -> bool:
        content = self.read(position, BLANK.size)
        return len(content) == BLANK.size and BLANK.unpack(content)[2] == BLANK_MAGIC

    def cut(self, position: int) -> None:
        """End at a position. What stands behind it must never be taken for units again."""
        self.tail = (position, bytearray())
        self._files.erase_after(self._folder, position)


class UnitReader:
    """Follows chains backwards in a thread: units that are near come from one read."""

    def __init__(self, log: TimerLog) -> None:
        self._log = log
        self._start, self._content = 0, b""

    def unit(self, position: int) -> tuple[int, ...] | None:
        """None: no unit stands there."""
        start, units = self._log.tail
        if position >= start:
            at = position - start
            return _unit(units, at)
        at = position - self._start
        if not 0 <= at <= len(self._content) - UNIT_SIZE:
            behind = position + UNIT_SIZE
            self._start = max(self._log.file_start(position), behind - READ_SIZE_BYTES)
            self._content = self._log.read(self._start, behind - self._start)
            at = position - self._start
        return _unit(self._content, at)


def _unit(content: bytes | bytearray, at: int) -> tuple[int, ...] | None:
    if at < 0 or at + UNIT_SIZE > len(content) or not is_unit(content, at):
        return None
    return UNIT.unpack_from(content, at)


def _nothing() -> None:
    """Nobody waits in between."""
