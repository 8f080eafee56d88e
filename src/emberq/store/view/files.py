"""Files of a store whose names are positions: opened for reading only, a bounded number at a time.

Read with `pread`, never through mappings: a file that shrinks or a disk that fails is an OSError
here, and would be the end of the process there.
"""

from bisect import bisect_right
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from emberq.store.disk import Disk, DiskFile

NAME_DIGITS = 20
OPEN_FILES_MAX = 128


class ReadOnlyFiles:
    """Reads from files by path."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self._open: OrderedDict[Path, DiskFile] = OrderedDict()

    def read(self, path: Path, position: int, size: int) -> bytes:
        """Shorter at the end of the file. Raises OSError."""
        file = self._open.get(path)
        if file is None:
            file = self._open[path] = self.disk.open(path, is_writable=False)
            if len(self._open) > OPEN_FILES_MAX:
                self._open.popitem(last=False)[1].close()
        else:
            self._open.move_to_end(path)
        return file.read(position, size)

    def names(self, folder: Path) -> list[str]:
        """Names in a folder; none if it is missing or a file."""
        try:
            return self.disk.list(folder)
        except NotADirectoryError:
            return []

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()


class PlacedFile(NamedTuple):
    """A file and the range of positions that it holds."""

    start: int
    size: int
    path: Path

    @property
    def end(self) -> int:
        return self.start + self.size


class FileChain:
    """Files that continue one another by name; some may be missing, or shorter than the others."""

    def __init__(self, files: ReadOnlyFiles, folders: list[Path]) -> None:
        self._files = files
        self.files = sorted(
            PlacedFile(int(name), size, folder / name)
            for folder in folders
            for name in files.names(folder)
            if name.isdigit() and len(name) == NAME_DIGITS
            if (size := _size_if_present(files.disk, folder / name))
        )
        self._starts = [file.start for file in self.files]

    def file_at(self, position: int) -> PlacedFile | None:
        index = bisect_right(self._starts, position) - 1
        if index < 0 or position >= self.files[index].end:
            return None
        return self.files[index]

    def file_after(self, position: int) -> PlacedFile | None:
        """The first file that starts at or behind a position."""
        index = bisect_right(self._starts, position - 1)
        return self.files[index] if index < len(self.files) else None

    def read(self, position: int, size: int) -> bytes:
        """Bytes across files, up to the first that is missing. Raises OSError."""
        parts: list[bytes] = []
        while size > 0:
            file = self.file_at(position)
            if file is None:
                break
            part = self._files.read(
                file.path, position - file.start, min(size, file.end - position)
            )
            if not part:
                break
            parts.append(part)
            position += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _size_if_present(disk: Disk, path: Path) -> int:
    try:
        return disk.size_of(path)
    except FileNotFoundError:  # deleted by its broker since it was listed
        return 0
