"""A store directory: which of its parts are there, and in which state its broker left it."""

from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from msgspec import Struct

from emberq.errors import StoreError
from emberq.store.checkpoint import Checkpoint, read_checkpoint
from emberq.store.disk import Disk, RealDisk
from emberq.store.index_layout import NAME_DIGITS as INDEX_NAME_DIGITS
from emberq.store.view.files import ReadOnlyFiles
from emberq.store.view.index import IndexFileView
from emberq.store.view.lock import LockProbe, LockState, probe_lock
from emberq.store.view.log import LogView
from emberq.store.view.queue import QueueView


class RunState(Enum):
    """What `abort` and `lock` say together."""

    RUNNING = "running"
    STARTING_OR_STOPPING = "starting or stopping"
    STOPPED = "stopped"
    KILLED = "killed"  # the next start recovers
    KILLED_OR_RUNNING = "killed or running"  # the lock cannot be asked, or is a copy


class StoreState(Struct, frozen=True):
    run: RunState
    lock: LockProbe
    has_abort: bool

    @property
    def is_settled(self) -> bool:
        """Whether log, queues and index should agree to the last record."""
        return self.run is RunState.STOPPED


class StoreView:
    """Reads a store directory; nothing in it is created, locked or changed.

    Raises StoreError if the directory is no store, and OSError if it cannot be read.
    """

    def __init__(
        self, root: Path, *, log_folders: tuple[Path, ...] = (), disk: Disk | None = None
    ) -> None:
        self.root = root
        self._disk = disk or RealDisk()
        self.files = ReadOnlyFiles(self._disk)
        names = _names_in(self._disk, root)
        folders = list(log_folders) or [root / "commitlog"]
        if not log_folders and "commitlog" not in names and "consumequeue" not in names:
            raise StoreError(f"{root} is not a store: {_missing(root, names)}")
        for folder in log_folders:
            _names_in(self._disk, folder)
        self.log = LogView(self.files, folders)

    def state(self) -> StoreState:
        has_abort = self._disk.exists(self.root / "abort")
        lock = probe_lock(self.root / "lock")
        if lock.state is LockState.HELD:
            run = RunState.RUNNING if has_abort else RunState.STARTING_OR_STOPPING
        elif not has_abort:
            run = RunState.STOPPED
        elif lock.state is LockState.FREE:
            run = RunState.KILLED
        else:
            run = RunState.KILLED_OR_RUNNING
        return StoreState(run, lock, has_abort)

    def checkpoint(self) -> Checkpoint | None:
        path = self.root / "checkpoint"
        return read_checkpoint(self._disk, path) if self._disk.exists(path) else None

    def topics(self) -> list[str]:
        """Topics that have queues."""
        return self.files.names(self.root / "consumequeue")

    def queues(self, topic: str | None = None) -> Iterator[QueueView]:
        """Queues that have files, by topic and number."""
        for name in self.topics() if topic is None else [topic]:
            folder = self.root / "consumequeue" / name
            for queue_id in sorted(int(n) for n in self.files.names(folder) if n.isdigit()):
                queue = QueueView(name, queue_id, folder / str(queue_id), self.files)
                if queue.files:
                    yield queue

    def queue(self, topic: str, queue_id: int) -> QueueView | None:
        """One queue; None if it has no files."""
        folder = self.root / "consumequeue" / topic / str(queue_id)
        queue = QueueView(topic, queue_id, folder, self.files)
        return queue if queue.files else None

    def index_files(self) -> list[IndexFileView]:
        """Index files, oldest first."""
        folder = self.root / "index"
        return [
            IndexFileView(folder / name, self.files)
            for name in self.files.names(folder)
            if name.isdigit() and len(name) == INDEX_NAME_DIGITS
        ]

    def close(self) -> None:
        self.files.close()


def _names_in(disk: Disk, folder: Path) -> list[str]:
    if not disk.exists(folder):
        raise StoreError(f"{folder} does not exist")
    if not folder.is_dir():
        raise StoreError(f"{folder} is not a directory")
    return disk.list(folder)


def _missing(root: Path, names: list[str]) -> str:
    if any(len(name) == 20 and name.isdigit() for name in names):
        return f"it looks like a part of one, try {root.resolve().parent}"
    if "store" in names:
        return f"try {root / 'store'}"
    if any(name.startswith("dledger-") for name in names):
        return "logs of DLedger groups are not read"
    return "it has neither commitlog nor consumequeue"
