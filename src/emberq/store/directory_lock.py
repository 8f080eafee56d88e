"""One store per directory, in this process and among all: the official `lock` file."""

import errno
import os
from pathlib import Path
from threading import Lock

from emberq.errors import StoreInUse

# Systems lock for a process, not for a descriptor: a second store of the same process would get
# the lock too, and by closing its descriptor give up the first one's.
_held: set[Path] = set()
_held_lock = Lock()


class DirectoryLock:
    """Holds an exclusive lock on the first byte of `lock`, where official brokers lock it too."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root.resolve()
        with _held_lock:
            if self._root in _held:
                raise StoreInUse(f"{root} is in use by another store of this process")
            self._descriptor = _locked(self._root / "lock", root)
            _held.add(self._root)

    def release(self) -> None:
        with _held_lock:
            _held.discard(self._root)
            os.close(self._descriptor)


def _locked(path: Path, root: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _lock_first_byte(descriptor)
        os.pwrite(descriptor, b"lock", 0)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            raise StoreInUse(f"{root} is in use by another process") from None
        raise
    return descriptor


def _lock_first_byte(descriptor: int) -> None:
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError:
        import msvcrt  # noqa: PLC0415

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]  # Windows only
        return
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
