"""A disk in memory that fails when told to, and that can lose power at any point of its history."""

import errno
import os
import threading
from pathlib import Path
from random import Random

from msgspec import Struct

from emberq.store.disk import PAGE_SIZE_BYTES
from emberq.testing.disk_history import Operation, Step, after_power_loss

Content = bytes | bytearray | memoryview

SIZE_BYTES = 1 << 40  # what the disk says of itself; nothing is ever full

FALLIBLE = frozenset(
    {Operation.CREATE, Operation.WRITE, Operation.SYNC, Operation.SYNC_FOLDER, Operation.REMOVE}
)


class Fault(Struct, frozen=True):
    """Fail the `number`th fallible operation, counted from 0, and the like of it from then on;
    if `within` is set, only operations on paths that contain it."""

    number: int
    error: int = errno.EIO
    is_lasting: bool = True
    operations: frozenset[Operation] = FALLIBLE
    within: str = ""


class FaultyDisk:
    """Implements `emberq.store.disk.Disk`. Folders at and above `root` exist and stay.

    A smaller `page_size` than the real one makes torn files likely where little is written.
    """

    def __init__(
        self, root: Path, *, fault: Fault | None = None, page_size: int = PAGE_SIZE_BYTES
    ) -> None:
        self.root = root
        self.page_size = page_size
        self.fault = fault
        self.history: list[Step] = []
        self.steps_before = 0  # of the history: they only tell what the disk began with
        self.fallible_count = 0
        self.used = 0.0  # share of the disk that it says is in use
        self.failures = 0
        self._contents: dict[Path, bytearray] = {}
        self._folders: set[Path] = {root}
        self.modified_ms: dict[Path, int] = {}  # what files say, 0 unless set here
        self._lock = threading.RLock()  # history and files change together

    # What tests ask

    def note(self, note: object) -> None:
        """Mark this point of the history: an acknowledgement, for example."""
        self._step(Step(Operation.NOTE, self.root, note=note))

    def content_of(self, path: Path) -> bytearray:
        """The bytes of a file as they are: change them to damage it."""
        return self._contents[path]

    def files(self) -> list[Path]:
        return sorted(self._contents)

    def copy(self) -> "FaultyDisk":
        """The disk as it is, synced, without history and without faults."""
        copy = FaultyDisk(self.root, page_size=self.page_size)
        with self._lock:
            contents = {path: bytearray(was) for path, was in self._contents.items()}
            copy._begin_with(contents, set(self._folders))
        return copy

    def after_power_loss(self, random: Random, steps: int | None = None) -> "FaultyDisk":
        """The disk that is found if power failed behind the first `steps` of the history."""
        with self._lock:
            history = self.history[:steps]
        disk = FaultyDisk(self.root, page_size=self.page_size)
        disk._begin_with(*after_power_loss(self.root, history, random, self.page_size))
        return disk

    # The seam

    def create_mapped(self, path: Path, size: int) -> "FaultyFile":
        return self._create(path, size)

    def open_mapped(self, path: Path, *, is_writable: bool) -> "FaultyFile":
        return self.open(path, is_writable=is_writable)

    def create_sparse(self, path: Path, size: int) -> "FaultyFile":
        return self._create(path, size)

    def _create(self, path: Path, size: int) -> "FaultyFile":
        with self._lock:
            self._make_folders(path.parent)
            if path not in self._contents or len(self._contents[path]) < size:
                self._may_fail(Operation.CREATE, path)
                before = self._contents.get(path, bytearray())
                # A new object: views of the old one keep it from growing.
                self._contents[path] = before + bytes(size - len(before))
                self._step(Step(Operation.CREATE, path, size=size))
            return FaultyFile(self, path, self._contents[path])

    def open(self, path: Path, *, is_writable: bool) -> "FaultyFile":
        with self._lock:
            if path not in self._contents:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            return FaultyFile(self, path, self._contents[path], is_writable=is_writable)

    def exists(self, path: Path) -> bool:
        return path in self._contents or path in self._folders

    def list(self, folder: Path) -> list[str]:
        with self._lock:
            inside = [path.name for path in self._contents if path.parent == folder]
            return sorted(inside + [path.name for path in self._folders if path.parent == folder])

    def size_of(self, path: Path) -> int:
        return len(self._contents[path])

    def modified_at_ms(self, path: Path) -> int:
        return self.modified_ms.get(path, 0)

    def remove(self, path: Path) -> None:
        with self._lock:
            if path in self._contents:
                self._may_fail(Operation.REMOVE, path)
                del self._contents[path]
                self._step(Step(Operation.REMOVE, path))

    def make_folder(self, folder: Path) -> None:
        with self._lock:
            if folder != self.root and folder not in self._folders:
                self.make_folder(folder.parent)
                self._make_folders(folder)
                self.sync_folder(folder.parent)

    def remove_folder(self, folder: Path) -> None:
        with self._lock:
            if folder in self._folders and not self.list(folder):
                self._folders.discard(folder)
                self._step(Step(Operation.REMOVE_FOLDER, folder))

    def sync_folder(self, folder: Path) -> None:
        with self._lock:
            if folder not in self._folders:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
            self._may_fail(Operation.SYNC_FOLDER, folder)
            self._step(Step(Operation.SYNC_FOLDER, folder))

    def file_system(self, folder: Path) -> "FaultyFileSystem":
        return FaultyFileSystem(self)

    def sync_whole(self) -> None:
        with self._lock:
            self._may_fail(Operation.SYNC, self.root)
            for path in self._contents:
                self._step(Step(Operation.SYNC, path))
            for folder in self._folders:
                self._step(Step(Operation.SYNC_FOLDER, folder))

    def used_ratio(self, folder: Path) -> float:
        return self.used

    def room(self, folder: Path) -> tuple[int, int]:
        return SIZE_BYTES, int(SIZE_BYTES * (1 - self.used))

    # Inside

    def _begin_with(self, contents: dict[Path, bytearray], folders: set[Path]) -> None:
        """Take over files as the durable beginning of the history."""
        self._contents, self._folders = contents, folders
        for folder in sorted(folders - {self.root}):
            self._step(Step(Operation.MAKE_FOLDER, folder))
        for path, content in contents.items():
            self._step(Step(Operation.CREATE, path, size=len(content)))
            self._step(Step(Operation.WRITE, path, content=bytes(content)))
            self._step(Step(Operation.SYNC, path))
        for folder in folders:
            self._step(Step(Operation.SYNC_FOLDER, folder))
        self.steps_before = len(self.history)

    def _make_folders(self, folder: Path) -> None:
        if folder not in self._folders and self.root in folder.parents:
            self._make_folders(folder.parent)
            self._folders.add(folder)
            self._step(Step(Operation.MAKE_FOLDER, folder))

    def _step(self, step: Step) -> None:
        with self._lock:
            self.history.append(step)

    def _may_fail(self, operation: Operation, path: Path) -> None:
        fault = self.fault
        number = self.fallible_count
        self.fallible_count += 1
        if fault is None or number < fault.number or operation not in fault.operations:
            return
        if (self.failures and not fault.is_lasting) or fault.within not in str(path):
            return
        self.failures += 1
        if operation is Operation.SYNC:
            self._step(Step(operation, path, has_failed=True))
        raise OSError(fault.error, os.strerror(fault.error), str(path))

    def write_at(self, file: "FaultyFile", position: int, content: Content) -> None:
        with self._lock:
            if self._contents.get(file.path) is file.content:  # not removed meanwhile
                self._may_fail(Operation.WRITE, file.path)
                step = Step(Operation.WRITE, file.path, position=position, content=bytes(content))
                self._step(step)
            file.content[position : position + len(content)] = content

    def sync_file(self, file: "FaultyFile") -> None:
        with self._lock:
            self._may_fail(Operation.SYNC, file.path)
            self._step(Step(Operation.SYNC, file.path))


class FaultyFileSystem:
    """Implements `emberq.store.disk.FileSystem`."""

    def __init__(self, disk: FaultyDisk) -> None:
        self._disk = disk

    def sync(self) -> None:
        self._disk.sync_whole()

    def close(self) -> None:
        """Nothing to let go of."""


class FaultyFile:
    """Implements `emberq.store.disk.MappedFile`, and so `DiskFile`."""

    def __init__(
        self, disk: FaultyDisk, path: Path, content: bytearray, *, is_writable: bool = True
    ) -> None:
        self._disk = disk
        self._is_writable = is_writable
        self.content = content
        self.path = path
        self.size = len(content)
        self.view = memoryview(content)
        self.descriptor = -1

    def write(self, position: int, content: Content) -> None:
        assert self._is_writable, f"{self.path} is open for reading"
        assert position + len(content) <= self.size, f"a write behind the end of {self.path}"
        self._disk.write_at(self, position, content)

    def read(self, position: int, size: int) -> bytes:
        return bytes(self.content[position : position + size])

    def read_cached(self, position: int, size: int) -> bytes | None:
        content = self.read(position, size)
        return content if len(content) == size else None

    def written_from(self, position: int) -> list[tuple[int, int]]:
        return [(position, self.size)] if position < self.size else []

    def sync(self) -> None:
        self._disk.sync_file(self)

    def close(self) -> None:
        """Views that readers hold stay valid."""
