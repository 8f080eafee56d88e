"""Everything the store asks of the operating system's files, and nothing else.

Tests replace this seam to fail calls and to forget unsynced pages, so no other module of the
store opens, writes, syncs or removes a file.
"""

import errno
import mmap
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from emberq.kernel import BytesInMaking
from emberq.store.linux_file_system import open_file_system

PAGE_SIZE_BYTES = 4096

# Reads only what is cached; where the system has no such call, every cold read takes a thread.
_RWF_NOWAIT = getattr(os, "RWF_NOWAIT", None)


class DiskFile(Protocol):
    """A file of fixed size."""

    path: Path
    size: int

    def write(self, position: int, content: bytes | bytearray | memoryview) -> None:
        """Raises OSError; then the content of the range is undefined."""

    def read(self, position: int, size: int) -> bytes:
        """Read from the disk if need be: may wait. Shorter at the end of the file."""

    def read_cached(self, position: int, size: int) -> bytes | None:
        """Read without waiting for the disk; None if some of it is not in memory."""

    def written_from(self, position: int) -> list[tuple[int, int]]:
        """Ranges from a position on that may hold anything but zeros, as (start, end)."""

    def sync(self) -> None:
        """Make all writes durable. Runs in a thread and lets other threads run."""

    def close(self) -> None: ...


class MappedFile(DiskFile, Protocol):
    """A file that is also mapped; its blocks are reserved, so writing cannot fail."""

    view: memoryview

    @property
    def descriptor(self) -> int:
        """The system's number for it; negative if it has none."""


class FileSystem(Protocol):
    """A whole file system, for when very many of its files are to be made durable."""

    def sync(self) -> None:
        """Make all writes, creations and removals durable. Raises OSError."""

    def close(self) -> None: ...


class Disk(Protocol):
    """The file system as the store sees it."""

    def create_mapped(self, path: Path, size: int) -> MappedFile:
        """A new file with reserved blocks. Raises OSError when there is no room."""

    def open_mapped(self, path: Path, *, is_writable: bool) -> MappedFile: ...

    def create_sparse(self, path: Path, size: int) -> DiskFile:
        """A new file, or an existing one, that costs only what is written to it."""

    def open(self, path: Path, *, is_writable: bool) -> DiskFile: ...

    def exists(self, path: Path) -> bool: ...

    def list(self, folder: Path) -> list[str]:
        """Names in a folder, sorted; empty if it does not exist or is none."""

    def size_of(self, path: Path) -> int: ...

    def modified_at_ms(self, path: Path) -> int: ...

    def remove(self, path: Path) -> None: ...

    def make_folder(self, folder: Path) -> None:
        """Make a folder, and those above it that are missing, durably."""

    def remove_folder(self, folder: Path) -> None:
        """Remove an empty folder; one that is not empty stays."""

    def sync_folder(self, folder: Path) -> None:
        """Make creations and removals in a folder durable."""

    def file_system(self, folder: Path) -> FileSystem | None:
        """The file system of a folder; None if it cannot be synced as a whole.

        Tells of errors since it was opened: open it before the writes that it is to sync.
        """

    def used_ratio(self, folder: Path) -> float:
        """Share of the partition in use, 0 to 1; negative if it cannot be told."""

    def room(self, folder: Path) -> tuple[int, int]:
        """Bytes of the partition, and how many of them are free for us; zeros if unknown."""


class _PlainFile:
    """Owns its descriptor from the first line on: whoever made it need not close it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._descriptor = descriptor
        self.path = path
        self.size = os.fstat(descriptor).st_size

    def write(self, position: int, content: bytes | bytearray | memoryview) -> None:
        written = os.pwrite(self._descriptor, content, position)
        while written < len(content):  # a signal or a nearly full disk
            written += os.pwrite(
                self._descriptor, memoryview(content)[written:], position + written
            )

    @property
    def descriptor(self) -> int:
        return self._descriptor

    def extend(self, size: int) -> None:
        if self.size < size:
            os.ftruncate(self._descriptor, size)
            self.size = size

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, position)

    def read_cached(self, position: int, size: int) -> bytes | None:
        if _RWF_NOWAIT is None:
            return None
        content = BytesInMaking(size)
        try:
            count = os.preadv(self._descriptor, [content], position, _RWF_NOWAIT)
        except OSError:  # not cached, or a file system that cannot tell
            return None
        return content.finished() if count == size else None

    def written_from(self, position: int) -> list[tuple[int, int]]:
        if not hasattr(os, "SEEK_DATA"):
            return [(position, self.size)] if position < self.size else []
        ranges = []
        try:
            while True:
                start = os.lseek(self._descriptor, position, os.SEEK_DATA)
                position = os.lseek(self._descriptor, start, os.SEEK_HOLE)
                ranges.append((start, position))
        except OSError as error:
            if error.errno != errno.ENXIO:  # only holes up to the end
                raise
        return ranges

    def sync(self) -> None:
        _sync_data(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        """Files that were deleted while a thread read them are closed by the last reader."""
        self.close()


class _MappedFile(_PlainFile):
    def __init__(self, path: Path, descriptor: int, *, is_writable: bool) -> None:
        super().__init__(path, descriptor)
        access = mmap.ACCESS_WRITE if is_writable else mmap.ACCESS_READ
        self._mapping: mmap.mmap | None = mmap.mmap(descriptor, self.size, access=access)
        self.view = memoryview(self._mapping)

    def expect_appends(self) -> None:
        """Nothing is in the file yet, so nothing is to be read ahead of the writer: where a disk
        is set to read far ahead, each such read would make 8 MiB of zeros, 20 ms on the loop."""
        if self._mapping is not None and hasattr(mmap, "MADV_RANDOM"):
            self._mapping.madvise(mmap.MADV_RANDOM)

    def write(self, position: int, content: bytes | bytearray | memoryview) -> None:
        assert self._mapping is not None, f"{self.path} is closed"
        self._mapping[position : position + len(content)] = content

    def close(self) -> None:
        """Readers may hold views: the mapping goes when the last of them does."""
        self.view = memoryview(b"")
        self._mapping = None
        super().close()


class RealDisk:
    """The disk of this machine."""

    def create_mapped(self, path: Path, size: int) -> MappedFile:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _reserve(descriptor, size)
        except OSError:
            os.close(descriptor)
            path.unlink(missing_ok=True)  # half a file would stop the next start
            raise
        file = _MappedFile(path, descriptor, is_writable=True)
        file.expect_appends()
        return file

    def open_mapped(self, path: Path, *, is_writable: bool) -> MappedFile:
        descriptor = os.open(path, os.O_RDWR if is_writable else os.O_RDONLY)
        return _MappedFile(path, descriptor, is_writable=is_writable)

    def create_sparse(self, path: Path, size: int) -> DiskFile:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _PlainFile(path, os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
        file.extend(size)
        return file

    def open(self, path: Path, *, is_writable: bool) -> DiskFile:
        return _PlainFile(path, os.open(path, os.O_RDWR if is_writable else os.O_RDONLY))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def list(self, folder: Path) -> list[str]:
        try:
            return sorted(os.listdir(folder))  # noqa: PTH208 - a Path per queue file is slow
        except (FileNotFoundError, NotADirectoryError):
            return []

    def size_of(self, path: Path) -> int:
        return path.stat().st_size

    def modified_at_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def make_folder(self, folder: Path) -> None:
        if not folder.is_dir():
            self.make_folder(folder.parent)
            folder.mkdir(exist_ok=True)
            self.sync_folder(folder.parent)

    def remove_folder(self, folder: Path) -> None:
        try:
            folder.rmdir()
        except OSError:
            return

    def sync_folder(self, folder: Path) -> None:
        if os.name != "posix":
            return
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def file_system(self, folder: Path) -> FileSystem | None:
        return open_file_system(folder)

    def used_ratio(self, folder: Path) -> float:
        status = _partition_of(folder)
        if status is None:
            return -1.0
        _, used, available = status
        # Rounded up to whole percents, as official brokers compare it.
        return -(-100 * used // (used + available)) / 100 if used + available else -1.0

    def room(self, folder: Path) -> tuple[int, int]:
        status = _partition_of(folder)
        return (0, 0) if status is None else (status[0], status[2])


def _partition_of(folder: Path) -> tuple[int, int, int] | None:
    """Bytes in all, used, and available to us; None if the system does not tell."""
    for existing in _upwards(folder):
        try:
            if hasattr(os, "statvfs"):
                status = os.statvfs(existing)
                size = status.f_frsize
                used = status.f_blocks - status.f_bfree
                return status.f_blocks * size, used * size, status.f_bavail * size
            usage = shutil.disk_usage(existing)
        except OSError:  # not made yet
            continue
        return usage.total, usage.used, usage.free
    return None


def _upwards(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.absolute().parents


def _reserve(descriptor: int, size: int) -> None:
    """Give the file its size and its blocks, so that writing to its mapping never fails."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
        return
    zeros = bytes(1024 * 1024)
    position = os.fstat(descriptor).st_size
    while position < size:
        position += os.pwrite(descriptor, zeros[: size - position], position)


def _sync_data(descriptor: int) -> None:
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)
