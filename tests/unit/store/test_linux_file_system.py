"""A whole file system is synced where Linux can do it and tell of errors."""

import ctypes
import errno
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from emberq.store import linux_file_system
from emberq.store.linux_file_system import LinuxFileSystem, open_file_system

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has it")


def test_a_known_file_system_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    kind = linux_file_system._kind_of(tmp_path, libc)
    monkeypatch.setattr(linux_file_system, "KNOWN_KINDS", frozenset({kind}))

    file_system = open_file_system(tmp_path)
    assert file_system is not None
    file_system.sync()
    file_system.close()

    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        file_system.sync()


def test_a_failed_sync_is_told(tmp_path: Path) -> None:
    def syncfs(descriptor: int) -> int:
        ctypes.set_errno(errno.EIO)
        return -1

    file_system = LinuxFileSystem(tmp_path, SimpleNamespace(syncfs=syncfs))  # type: ignore[arg-type]  # the one call it makes

    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        file_system.sync()
    file_system.close()


def test_unknown_file_systems_and_old_kernels_are_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_file_system(Path("/proc")) is None
    assert open_file_system(tmp_path / "missing") is None
    monkeypatch.setattr(linux_file_system, "KERNEL_MIN", (99, 0))
    assert open_file_system(tmp_path) is None
