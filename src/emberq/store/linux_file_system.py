"""Syncing a whole file system: Linux only. Where it cannot be had, files are synced one by one."""

import ctypes
import os
import re
import sys
from pathlib import Path

# Older kernels sync but do not tell of errors.
KERNEL_MIN = (5, 8)

# ext4, xfs, btrfs, f2fs: whose syncs are known to reach the disk. User-space and stacked file
# systems may not pass them on.
KNOWN_KINDS = frozenset({0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010})
_STATFS_SIZE_MAX = 512


class LinuxFileSystem:
    """Tells of all write errors of the file system since it was opened."""

    def __init__(self, folder: Path, libc: ctypes.CDLL) -> None:
        self._libc = libc
        self._folder = folder
        self._descriptor = os.open(folder, os.O_RDONLY)

    def sync(self) -> None:
        """Wait until everything is on the disk; lets other threads run. Raises OSError."""
        if self._libc.syncfs(self._descriptor) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(self._folder))

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def open_file_system(folder: Path) -> LinuxFileSystem | None:
    """The file system of a folder; None where it cannot be synced as a whole."""
    if not sys.platform.startswith("linux") or _kernel_version() < KERNEL_MIN:
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "syncfs") or _kind_of(folder, libc) not in KNOWN_KINDS:
            return None
        return LinuxFileSystem(folder, libc)
    except OSError:  # no such library, or no such folder
        return None


def _kind_of(folder: Path, libc: ctypes.CDLL) -> int:
    """The file system's magic number, the first word of what `statfs` tells."""
    facts = ctypes.create_string_buffer(_STATFS_SIZE_MAX)
    if libc.statfs(os.fsencode(folder), facts) != 0:
        return 0
    return ctypes.c_long.from_buffer(facts).value & 0xFFFF_FFFF


def _kernel_version() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (0, 0) if found is None else (int(found[1]), int(found[2]))
