"""Files of consume queues: sparse, of equal size, opened when needed and closed when many are."""

from collections import OrderedDict
from pathlib import Path
from threading import Lock

from emberq.store.disk import Disk, DiskFile

NAME_DIGITS = 20
OPEN_FILES_MAX = 1024


class QueueFiles:
    """Opens queue files by path and start position; keeps a bounded number of them open.

    Used by the loop and the flusher: a file that was closed behind one's back is opened again.
    """

    def __init__(self, disk: Disk, file_size: int, *, is_writable: bool = True) -> None:
        self.file_size = file_size
        self.disk = disk
        self._is_writable = is_writable
        self._open: OrderedDict[Path, DiskFile] = OrderedDict()
        self._lock = Lock()  # guards the table of open files
        self._unsynced: set[Path] = set()

    def read(self, folder: Path, position: int, size: int) -> bytes:
        """Bytes of a queue, waiting for the disk if need be; shorter where the files end."""
        parts: list[bytes] = []
        for path, at, count in self._ranges(folder, position, size):
            try:
                with self._lock:
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
                with self._lock:
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
            with self._lock:
                self._created(path).write(at, content[written : written + count])
                self._unsynced.add(path)
            written += count

    def sync(self) -> None:
        """Make all that was written durable. Raises OSError."""
        with self._lock:
            unsynced, self._unsynced = self._unsynced, set()
        for path in unsynced:
            try:
                with self._lock:
                    file = self._opened(path)
                    self._open.pop(path)  # nobody closes it while it syncs
            except FileNotFoundError:
                continue  # deleted meanwhile
            try:
                file.sync()
            except OSError:
                self._unsynced |= unsynced
                raise
            finally:
                self._keep(path, file)

    def starts(self, folder: Path) -> list[int]:
        """Byte positions at which the files of a queue start."""
        names = self.disk.list(folder)
        return [int(name) for name in names if name.isdigit() and len(name) == NAME_DIGITS]

    def remove(self, folder: Path, start: int) -> None:
        path = folder / f"{start:0{NAME_DIGITS}d}"
        with self._lock:
            file = self._open.pop(path, None)
            self._unsynced.discard(path)
            if file is not None:
                file.close()
        self.disk.remove(path)

    def remove_all(self, folder: Path) -> None:
        for start in self.starts(folder):
            self.remove(folder, start)
        self.disk.remove_folder(folder)
        self.disk.remove_folder(folder.parent)

    def erase_after(self, folder: Path, position: int) -> None:
        """Zero what stands behind a position: it would be read as entries after a restart."""
        for start in self.starts(folder):
            if start >= position:
                self.remove(folder, start)
            elif start + self.file_size > position:
                self._erase_tail(folder, position, start + self.file_size)

    def close(self) -> None:
        with self._lock:
            for file in self._open.values():
                file.close()
            self._open.clear()

    def _erase_tail(self, folder: Path, position: int, end: int) -> None:
        step = 256 * 1024
        while position < end:
            content = self.read(folder, position, min(step, end - position))
            if not content:
                return
            if content.strip(b"\0"):
                self.write(folder, position, bytes(len(content)))
            position += len(content)

    def _ranges(self, folder: Path, position: int, size: int) -> list[tuple[Path, int, int]]:
        ranges = []
        while size > 0:
            at = position % self.file_size
            count = min(size, self.file_size - at)
            ranges.append((folder / f"{position - at:0{NAME_DIGITS}d}", at, count))
            position += count
            size -= count
        return ranges

    def _opened(self, path: Path) -> DiskFile:
        file = self._open.get(path)
        if file is None:
            file = self.disk.open(path, is_writable=self._is_writable)
            self._remember(path, file)
        else:
            self._open.move_to_end(path)
        return file

    def _created(self, path: Path) -> DiskFile:
        file = self._open.get(path)
        if file is None:
            file = self.disk.create_sparse(path, self.file_size)
            self._remember(path, file)
        return file

    def _keep(self, path: Path, file: DiskFile) -> None:
        with self._lock:
            if path in self._open:
                file.close()
            else:
                self._remember(path, file)

    def _remember(self, path: Path, file: DiskFile) -> None:
        self._open[path] = file
        while len(self._open) > OPEN_FILES_MAX:
            _, oldest = self._open.popitem(last=False)
            oldest.close()
