"""Whether a process holds a store's `lock` file, asked without taking the lock."""

import sys
from enum import Enum
from pathlib import Path
from struct import Struct as Layout
from struct import calcsize

from msgspec import Struct

# `struct flock` of 64-bit Linux: type, whence, start, length, process id.
_FLOCK = Layout("hhqqi" if calcsize("P") == 8 else "hhiii")


class LockState(Enum):
    FREE = "free"
    HELD = "held"
    UNKNOWN = "unknown"  # this system cannot tell


class LockProbe(Struct, frozen=True):
    state: LockState
    process_id: int | None = None  # of the holder; None also when it lives in another container


def probe_lock(path: Path) -> LockProbe:
    """Ask who holds the first byte of a file exclusively. Raises OSError.

    Not for a process that itself holds the lock: closing any descriptor of the file gives it up.
    """
    if sys.platform != "linux":
        return LockProbe(LockState.UNKNOWN)
    import fcntl  # noqa: PLC0415 - not on Windows

    try:
        with path.open("rb") as file:
            asked = _FLOCK.pack(fcntl.F_WRLCK, 0, 0, 1, 0)
            answer = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, asked))
    except FileNotFoundError:
        return LockProbe(LockState.FREE)
    if answer[0] == fcntl.F_UNLCK:
        return LockProbe(LockState.FREE)
    return LockProbe(LockState.HELD, answer[4] if answer[4] > 0 else None)
