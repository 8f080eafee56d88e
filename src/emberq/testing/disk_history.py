"""What a disk may hold after a power failure, told from the history of what was done to it."""

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from random import Random

from msgspec import Struct


class Operation(Enum):
    """What can be made to fail, and what a history consists of."""

    CREATE = "create"
    WRITE = "write"
    SYNC = "sync"
    REMOVE = "remove"
    SYNC_FOLDER = "sync folder"
    MAKE_FOLDER = "make folder"
    REMOVE_FOLDER = "remove folder"
    NOTE = "note"


class Step(Struct, frozen=True):
    """One operation that took place; a failed sync is one too, for what it leaves behind."""

    operation: Operation
    path: Path
    position: int = 0
    content: bytes = b""
    size: int = 0
    has_failed: bool = False
    note: object = None


def after_power_loss(
    root: Path, history: list[Step], random: Random, page_size: int
) -> tuple[dict[Path, bytearray], set[Path]]:
    """Files and folders that a machine may find; the history begins with an empty disk.

    Of each page some version since its file's last sync, of each name some meaning since its
    folder's last sync.
    """
    return _Wreck(root, history, page_size).as_found(random)


class _File:
    """Versions of a file's pages; the first of each is durable, the last the newest."""

    def __init__(self, size: int, page_size: int) -> None:
        self.size = size
        self._page_size = page_size
        self.is_size_durable = False
        self.pages: dict[int, list[bytes]] = {}
        # Pages whose sync failed: a later sync that succeeds does not write them.
        self.forgotten: set[int] = set()

    def write(self, position: int, content: bytes) -> None:
        page_size = self._page_size
        end = position + len(content)
        for page in range(position // page_size, -(-end // page_size)):
            at = page * page_size
            versions = self.pages.setdefault(page, [bytes(page_size)])
            changed = bytearray(versions[-1])
            first, last = max(position, at), min(end, at + page_size)
            changed[first - at : last - at] = content[first - position : last - position]
            versions.append(bytes(changed))
            self.forgotten.discard(page)

    def sync(self, *, has_failed: bool) -> None:
        unsynced = {page for page, versions in self.pages.items() if len(versions) > 1}
        if has_failed:
            self.forgotten |= unsynced
            return
        self.is_size_durable = True
        for page in unsynced - self.forgotten:
            del self.pages[page][:-1]

    def as_found(self, random: Random) -> bytearray:
        if not self.is_size_durable and random.random() < 0.5:
            return bytearray()
        choose = random.choice((random.choice, _oldest, _newest))
        content = bytearray(self.size)
        for page, versions in self.pages.items():
            at = page * self._page_size
            content[at : at + self._page_size] = choose(versions)
        return content[: self.size]


def _oldest(versions: list[bytes]) -> bytes:
    return versions[0]


def _newest(versions: list[bytes]) -> bytes:
    return versions[-1]


class _Wreck:
    """Replays a history, keeping apart what is durable and what only may be."""

    def __init__(self, root: Path, history: list[Step], page_size: int) -> None:
        self._root = root
        self._page_size = page_size
        # What each name has stood for since its folder was synced, the durable meaning first.
        # None: nothing; True: a folder.
        self._names: dict[Path, list[_File | bool | None]] = {}
        for step in history:
            _REPLAYS[step.operation](self, step)

    def as_found(self, random: Random) -> tuple[dict[Path, bytearray], set[Path]]:
        contents: dict[Path, bytearray] = {}
        folders = {self._root}
        for path in sorted(self._names):  # a folder before what is in it
            if path.parent in folders:
                meaning = random.choice(self._names[path])
                if isinstance(meaning, _File):
                    contents[path] = meaning.as_found(random)
                elif meaning:
                    folders.add(path)
        return contents, folders

    def _rename(self, path: Path, meaning: "_File | bool | None") -> None:
        self._names.setdefault(path, [None]).append(meaning)

    def _file(self, path: Path) -> "_File | None":
        meaning = self._names.get(path, [None])[-1]
        return meaning if isinstance(meaning, _File) else None

    def create(self, step: Step) -> None:
        file = self._file(step.path)
        if file is None:
            self._rename(step.path, _File(step.size, self._page_size))
        else:
            file.size, file.is_size_durable = step.size, False

    def write(self, step: Step) -> None:
        file = self._file(step.path)
        if file is not None:
            file.write(step.position, step.content)

    def sync(self, step: Step) -> None:
        file = self._file(step.path)
        if file is not None:
            file.sync(has_failed=step.has_failed)

    def remove(self, step: Step) -> None:
        self._rename(step.path, None)

    def make_folder(self, step: Step) -> None:
        self._rename(step.path, True)

    def sync_folder(self, step: Step) -> None:
        for path, meanings in self._names.items():
            if path.parent == step.path:
                del meanings[:-1]

    def skip(self, step: Step) -> None:
        """A note leaves no trace on disk."""


_REPLAYS: dict[Operation, Callable[[_Wreck, Step], None]] = {
    Operation.CREATE: _Wreck.create,
    Operation.WRITE: _Wreck.write,
    Operation.SYNC: _Wreck.sync,
    Operation.REMOVE: _Wreck.remove,
    Operation.REMOVE_FOLDER: _Wreck.remove,
    Operation.MAKE_FOLDER: _Wreck.make_folder,
    Operation.SYNC_FOLDER: _Wreck.sync_folder,
    Operation.NOTE: _Wreck.skip,
}
