"""A disk that remembers what it could lose: every version of each page since the last sync."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from emberq.store.disk import PAGE_SIZE_BYTES, DiskFile, RealDisk

# Given a page and how many versions of it there are, the one that the power failure leaves:
# 0 is the synced one, the last is what was written last.
ChooseVersion = Callable[[Path, int, int], int]


class PowerLossDisk(RealDisk):
    """Real files, of which `lose_power` forgets unsynced pages, creations and removals.

    A smaller `page_size` than the real one only makes more kinds of torn files possible.
    """

    def __init__(self, page_size: int = PAGE_SIZE_BYTES) -> None:
        self.page_size = page_size
        self.versions: dict[Path, dict[int, list[bytes]]] = {}
        self._created: set[Path] = set()
        self._removed: dict[Path, bytes] = {}
        self.before_write: Callable[[Path, int], None] = lambda _path, _position: None
        self.before_sync: Callable[[Path], None] = lambda _path: None

    def create_sparse(self, path: Path, size: int) -> DiskFile:
        if not path.exists():
            self._created.add(path)
        return _TrackedFile(self, super().create_sparse(path, size))

    def open(self, path: Path, *, is_writable: bool) -> DiskFile:
        return _TrackedFile(self, super().open(path, is_writable=is_writable))

    def remove(self, path: Path) -> None:
        if path.exists() and path not in self._created:
            self._removed[path] = self._as_synced(path)
        self._created.discard(path)
        self.versions.pop(path, None)
        super().remove(path)

    def sync_folder(self, folder: Path) -> None:
        super().sync_folder(folder)
        self._created = {path for path in self._created if path.parent != folder}
        self._removed = {p: c for p, c in self._removed.items() if p.parent != folder}

    def lose_power(self, choose: ChooseVersion, *, forgets_folders: bool = True) -> None:
        """Leave the files as a power failure might; those who had them open must not write on."""
        for path, pages in self.versions.items():
            with path.open("r+b") as file:
                for page, versions in pages.items():
                    file.seek(page * self.page_size)
                    file.write(versions[choose(path, page, len(versions))])
        if forgets_folders:
            for path in self._created:
                path.unlink(missing_ok=True)
            for path, content in self._removed.items():
                path.write_bytes(content)
        self.versions = {}
        self._created, self._removed = set(), {}

    def _as_synced(self, path: Path) -> bytes:
        content = bytearray(path.read_bytes())
        for page, versions in self.versions.get(path, {}).items():
            at = page * self.page_size
            content[at : at + len(versions[0])] = versions[0]
        return bytes(content)


class _TrackedFile:
    def __init__(self, disk: PowerLossDisk, file: DiskFile) -> None:
        self._disk = disk
        self._file = file
        self.path = file.path
        self.size = file.size

    def write(self, position: int, content: bytes | bytearray | memoryview) -> None:
        self._disk.before_write(self.path, position)
        pages = self._disk.versions.setdefault(self.path, {})
        size = self._disk.page_size
        touched = range(position // size, (position + len(content) - 1) // size + 1)
        for page in touched:
            if page not in pages:
                pages[page] = [self._file.read(page * size, size)]
        self._file.write(position, content)
        for page in touched:
            pages[page].append(self._file.read(page * size, size))

    def read(self, position: int, size: int) -> bytes:
        return self._file.read(position, size)

    def read_cached(self, position: int, size: int) -> bytes | None:
        return self._file.read_cached(position, size)

    def written_from(self, position: int) -> list[tuple[int, int]]:
        return self._file.written_from(position)

    def sync(self) -> None:
        self._disk.before_sync(self.path)
        self._file.sync()
        self._disk.versions.pop(self.path, None)

    def close(self) -> None:
        self._file.close()


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for one example of a property test, in memory where the system has such."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
