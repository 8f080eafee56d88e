"""Files of consume queues: sparse, of equal size, a bounded number of them open."""

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from emberq.store.disk import Disk, DiskFile, FileSystem
from emberq.store.erasing import pieces_not_zero

NAME_DIGITS = 20
OPEN_FILES_MAX = 1024
# With more files to sync than this, syncing the whole file system is faster.
SINGLE_SYNCS_MAX = 256


class QueueFiles:
    """Opens queue files by path and start position; keeps a bounded number of them open.

    Used by the loop, the flusher and reading threads. Nobody waits for another one's disk: the
    lock guards the tables only, and a file that was forgotten closes with its last user.
    """

    def __init__(self, disk: Disk, file_size: int, *, is_writable: bool = True) -> None:
        self.file_size = file_size
        self.disk = disk
        self._is_writable = is_writable
        # By path, as text: making and hashing a Path costs more than the look-up.
        self._open: OrderedDict[str, DiskFile] = OrderedDict()
        self._unsynced: set[str] = set()
        self._changed_folders: set[Path] = set()
        self._file_system: FileSystem | None = None
        self._removals = 0
        self._lock = Lock()  # guards the tables

    def read(self, folder: Path, position: int, size: int) -> bytes:
        """Bytes of a queue, waiting for the disk if need be; shorter where the files end."""
        parts: list[bytes] = []
        for path, at, count in self._ranges(folder, position, size):
            try:
                part = self._opened(path).read(at, count)
            except FileNotFoundError:
                break
            parts.append(part)
            if len(part) < count:
                break
        return b"".join(parts)

    def read_cached(self, folder: Path, position: int, size: int) -> bytes | None:
        """Bytes of a queue if all are in memory."""
        parts: list[bytes] = []
        for path, at, count in self._ranges(folder, position, size):
            try:
                part = self._opened(path).read_cached(at, count)
            except FileNotFoundError:
                return None
            if part is None:
                return None
            parts.append(part)
        return b"".join(parts)

    def write(self, folder: Path, position: int, content: bytes) -> None:
        """Write entries, making files as needed. Raises OSError."""
        written = 0
        for path, at, count in self._ranges(folder, position, len(content)):
            file = self._created(path)
            with self._lock:
                self._unsynced.add(path)
            file.write(at, content[written : written + count])
            written += count

    def open_file_system(self, folder: Path) -> None:
        """Be ready to sync very many files at once; before they are written, so that no error
        escapes."""
        self._file_system = self.disk.file_system(folder)

    def sync(self, in_between: Callable[[], None], *, may_take_long: bool = False) -> None:
        """Make all that was written durable. Raises OSError.

        There may be many files: `in_between` is called after each, for what cannot wait so long;
        if nothing is that urgent, `may_take_long` allows a faster way.
        """
        with self._lock:
            unsynced, self._unsynced = self._unsynced, set()
            folders, self._changed_folders = self._changed_folders, set()
        file_system = self._file_system
        if may_take_long and file_system is not None and len(unsynced) > SINGLE_SYNCS_MAX:
            file_system.sync()
            return
        for path in unsynced:
            try:
                self._opened(path).sync()
            except FileNotFoundError:
                continue  # deleted meanwhile
            in_between()
        for folder in folders:
            try:
                self.disk.sync_folder(folder)
            except FileNotFoundError:
                continue
            in_between()

    def starts(self, folder: Path) -> list[int]:
        """Byte positions at which the files of a queue start."""
        names = self.disk.list(folder)
        return [int(name) for name in names if name.isdigit() and len(name) == NAME_DIGITS]

    def are_whole(self, folder: Path, starts: list[int]) -> bool:
        """Whether the files follow one another, each in its full length."""
        return starts == list(range(starts[0], starts[-1] + 1, self.file_size)) and all(
            self._size_of(self._path(folder, start)) == self.file_size for start in starts
        )

    def fit(self, folder: Path, starts: list[int]) -> bool:
        """Whether files with these starts can have been made in the configured size.

        Those that a crash left short get it: official brokers start with no other size.
        """
        if any(start % self.file_size for start in starts):
            return False
        for start in starts:
            path = self._path(folder, start)
            size = self._size_of(path)
            if size > self.file_size:
                return False
            if size < self.file_size:
                self._created(path)
                with self._lock:
                    self._unsynced.add(path)
        return True

    def is_written_after(self, folder: Path, starts: list[int], position: int) -> bool:
        """Whether anything but zeros stands behind a position."""
        for start in starts:
            if start + self.file_size > position:
                file = self._opened(self._path(folder, start))
                if any(True for _ in pieces_not_zero(file, max(position - start, 0))):
                    return True
        return False

    def remove(self, folder: Path, start: int) -> None:
        path = self._path(folder, start)
        self.disk.remove(Path(path))
        # Afterwards: a reader may open it until it is gone, and a new file may get its name.
        with self._lock:
            self._removals += 1
            self._open.pop(path, None)
            self._unsynced.discard(path)
            self._changed_folders.add(folder)

    def remove_all(self, folder: Path) -> None:
        for start in self.starts(folder):
            self.remove(folder, start)
        self.disk.remove_folder(folder)
        self.disk.remove_folder(folder.parent)
        with self._lock:
            self._changed_folders |= {folder.parent, folder.parent.parent}

    def erase_after(self, folder: Path, position: int) -> None:
        """Zero what stands behind a position: it would be read as entries after a restart.

        The first file stays, though empty: it tells where the queue begins.
        """
        starts = self.starts(folder)
        for start in reversed(starts):
            if start >= position and start != starts[0]:
                self.remove(folder, start)
            elif start + self.file_size > position:
                file = self._opened(self._path(folder, start))
                for at, size in pieces_not_zero(file, max(position - start, 0)):
                    self.write(folder, start + at, bytes(size))

    def close(self) -> None:
        with self._lock:
            for file in self._open.values():
                file.close()
            self._open.clear()
        if self._file_system is not None:
            self._file_system.close()
            self._file_system = None

    def _ranges(self, folder: Path, position: int, size: int) -> list[tuple[str, int, int]]:
        ranges = []
        while size > 0:
            at = position % self.file_size
            count = min(size, self.file_size - at)
            ranges.append((self._path(folder, position - at), at, count))
            position += count
            size -= count
        return ranges

    @staticmethod
    def _path(folder: Path, start: int) -> str:
        return f"{folder}/{start:0{NAME_DIGITS}d}"

    def _size_of(self, path: str) -> int:
        file = self._open.get(path)
        return self.disk.size_of(Path(path)) if file is None else file.size

    def _opened(self, path: str) -> DiskFile:
        with self._lock:
            file = self._open.get(path)
            if file is not None:
                self._open.move_to_end(path)
                return file
            removals = self._removals
        file = self.disk.open(Path(path), is_writable=self._is_writable)
        with self._lock:
            if removals == self._removals:  # else it may be gone, and its name another file's
                self._remember(path, file)
        return file

    def _created(self, path: str) -> DiskFile:
        """Only the flusher and recovery make files, and nothing is removed meanwhile."""
        file = self._open.get(path)
        if file is not None and file.size == self.file_size:
            with self._lock:
                self._remember(path, file)
            return file
        made = Path(path)
        if file is None:
            try:
                file = self.disk.open(made, is_writable=True)
            except FileNotFoundError:
                folder = made.parent
                with self._lock:
                    self._changed_folders |= {folder, folder.parent, folder.parent.parent}
        if file is None or file.size < self.file_size:
            file = self.disk.create_sparse(made, self.file_size)
        with self._lock:
            self._remember(path, file)
        return file

    def _remember(self, path: str, file: DiskFile) -> None:
        self._open[path] = file
        self._open.move_to_end(path)
        while len(self._open) > OPEN_FILES_MAX:
            self._open.popitem(last=False)
