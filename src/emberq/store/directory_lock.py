"""One process per store directory: the official `lock` file."""

import os
from pathlib import Path

from emberq.errors import StoreInUse


class DirectoryLock:
    """Holds an exclusive lock on the first byte of `lock`, where official brokers lock it too."""

    def __init__(self, root: Path) -> None:
        self._path = root / "lock"
        root.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock_first_byte(self._descriptor)
        except OSError:
            os.close(self._descriptor)
            raise StoreInUse(f"{root} is in use by another broker") from None
        os.pwrite(self._descriptor, b"lock", 0)

    def release(self) -> None:
        os.close(self._descriptor)


def _lock_first_byte(descriptor: int) -> None:
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError:
        import msvcrt  # noqa: PLC0415

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]  # Windows only
        return
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
