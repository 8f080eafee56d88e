"""Writing a small file so that a crash leaves the old content or the new one, never a mixture."""

import os
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Write `content` durably; the previous content stays beside it as `.bak`.

    Raises:
        OSError: the disk is full, the folder cannot be written; the file is as it was.
    """
    path = path.resolve()  # a link stays a link
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".tmp")
    try:
        with fresh.open("wb") as file:
            _take_permissions(path, fresh)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _keep_backup(path)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def backup_of(path: Path) -> Path:
    """Where the content before the last replacement is."""
    path = path.resolve()
    return path.with_name(path.name + ".bak")


def _take_permissions(path: Path, fresh: Path) -> None:
    """Who must not read the old content must not read the new one either."""
    try:
        fresh.chmod(path.stat().st_mode & 0o777)
    except FileNotFoundError:
        return


def _keep_backup(path: Path) -> None:
    backup = backup_of(path)
    scratch = path.with_name(path.name + ".bak.tmp")
    try:
        # A second name for the same content; the file itself is never absent.
        scratch.unlink(missing_ok=True)
        scratch.hardlink_to(path)
        scratch.replace(backup)
    except FileNotFoundError:
        return  # the first version has no predecessor
    except OSError:  # a file system without links
        backup.write_bytes(path.read_bytes())


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
