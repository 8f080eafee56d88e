"""Parquet files with a log of EmberQ's own: numbered JSON files, each one commit.

`_emberq_log/00000000000000000007.json` is the eighth commit: which files it added and removed,
and which batch of which writer it was. Every 64th commit has a snapshot of the whole state beside
it. Names that begin with an underscore are invisible to readers of Parquet folders.
"""

import time
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from emberq.errors import TableError
from emberq.pipelines.tables.leftovers import delete_files, is_data_file
from emberq.spark.archive.data_file import DataFile
from emberq.spark.archive.folder import Folder

LOG_FOLDER = "_emberq_log"
SNAPSHOT_EVERY = 64
COMMIT_ATTEMPTS_MAX = 100
_NUMBER_WIDTH = 20
_NOT_KEPT = -1

_Content = TypeVar("_Content")


class Commit(Struct, kw_only=True, rename="camel"):
    at_ms: int
    writer: str = ""
    batch: int = -1
    added: list[DataFile] = msgspec.field(default_factory=list)
    removed: list[str] = msgspec.field(default_factory=list)
    deleted: list[str] = msgspec.field(default_factory=list)


class State(Struct, kw_only=True, rename="camel"):
    """Everything that the commits up to a number say.

    `removed` has when files were removed that are in the folder still; removals before
    `removals_since_ms` are not in it.
    """

    files: dict[str, DataFile] = msgspec.field(default_factory=dict)
    batches: dict[str, int] = msgspec.field(default_factory=dict)
    removed: dict[str, int] = msgspec.field(default_factory=dict)
    removals_since_ms: int = _NOT_KEPT  # what snapshots of early versions say, by not saying it

    def apply(self, commit: Commit) -> None:
        for path in commit.removed:
            self.files.pop(path, None)
            self.removed[path] = commit.at_ms
        for each in commit.added:
            self.files[each.path] = each
            self.removed.pop(each.path, None)
        for path in commit.deleted:
            self.removed.pop(path, None)
        if commit.writer:
            self.batches[commit.writer] = max(
                commit.batch, self.batches.get(commit.writer, commit.batch)
            )


class ParquetTable:
    """A folder of Parquet files whose log says which of them count."""

    keeps_partition_columns = False

    def __init__(self, root: str) -> None:
        self._folder = Folder(root)
        self._state = State(removals_since_ms=0)
        self._next = 0

    @property
    def root(self) -> str:
        return self._folder.root

    @property
    def folder(self) -> Folder:
        return self._folder

    @property
    def is_made(self) -> bool:
        self._refresh()
        return self._next > 0

    def last_batch(self, writer: str) -> int | None:
        self._refresh()
        return self._state.batches.get(writer)

    def append(self, writer: str, batch: int, files: Sequence[DataFile]) -> bool:
        for _ in range(COMMIT_ATTEMPTS_MAX):
            last = self.last_batch(writer)
            if last is not None and last >= batch:
                return False
            if self._commit(Commit(at_ms=_now_ms(), writer=writer, batch=batch, added=[*files])):
                return True
        raise TableError(f"{self.root}: {COMMIT_ATTEMPTS_MAX} commits of others came first")

    def replace(self, removed: Sequence[str], added: Sequence[DataFile]) -> None:
        for _ in range(COMMIT_ATTEMPTS_MAX):
            self._refresh()
            gone = [path for path in removed if path not in self._state.files]
            if gone:
                raise TableError(f"{self.root}: {gone[0]} was replaced by somebody else meanwhile")
            if self._commit(Commit(at_ms=_now_ms(), added=[*added], removed=[*removed])):
                return
        raise TableError(f"{self.root}: {COMMIT_ATTEMPTS_MAX} commits of others came first")

    def leftovers(self, before_s: float) -> list[str]:
        """Files that may be deleted: those that the log removed before then, and those that it
        never named and that were written before then. Both in seconds since 1970."""
        # The folder first: what is committed between the two is in the log then.
        return self._leftovers(self._folder.modified_times(), before_s)

    def _leftovers(self, written_s: Mapping[str, float], before_s: float) -> list[str]:
        self._refresh()
        state = self._state
        return sorted(
            name
            for name, at_s in written_s.items()
            if name not in state.files
            and is_data_file(name)
            and at_s <= before_s
            and state.removed.get(name, state.removals_since_ms) <= before_s * 1000
        )

    def delete_leftovers(self, before_s: float) -> list[str]:
        """Delete what may be, and have the log forget it."""
        written_s = self._folder.modified_times()
        deleted = delete_files(self._folder, self._leftovers(written_s, before_s), before_s)
        left = written_s.keys() - set(deleted)
        self._forget(
            [
                path
                for path, at_ms in self._state.removed.items()
                if path not in left and at_ms <= before_s * 1000
            ]
        )
        return deleted

    def _forget(self, deleted: list[str]) -> None:
        for _ in range(COMMIT_ATTEMPTS_MAX):
            if not deleted or self._commit(Commit(at_ms=_now_ms(), deleted=deleted)):
                return
            self._refresh()
        raise TableError(f"{self.root}: {COMMIT_ATTEMPTS_MAX} commits of others came first")

    def files(self) -> list[DataFile]:
        self._refresh()
        return sorted(self._state.files.values(), key=lambda each: each.path)

    def _commit(self, commit: Commit) -> bool:
        number = self._next
        if not self._folder.write_new(_commit_name(number), msgspec.json.encode(commit)):
            return False
        self._state.apply(commit)
        self._next = number + 1
        if self._next % SNAPSHOT_EVERY == 0:
            self._folder.write_new(_snapshot_name(number), msgspec.json.encode(self._state))
        return True

    def _refresh(self) -> None:
        """Read what others committed since."""
        # Drafts of commits have a name with a dot; one whose writer was killed stays for ever.
        names = [name for name in self._folder.names(LOG_FOLDER) if "/." not in name]
        commits = {_number_of(name): name for name in names if not name.endswith(".snapshot.json")}
        snapshots = {_number_of(name): name for name in names if name.endswith(".snapshot.json")}
        newest = max(snapshots, default=-1)
        if newest >= self._next:
            self._state = self._read(snapshots[newest], State)
            if self._state.removals_since_ms == _NOT_KEPT:
                # Whatever was removed by then was removed before the snapshot was written.
                written_s = self._folder.modified_at_s(snapshots[newest])
                self._state.removals_since_ms = round(written_s * 1000)
            self._next = newest + 1
        while (name := commits.get(self._next)) is not None:
            self._state.apply(self._read(name, Commit))
            self._next += 1

    def _read(self, name: str, kind: type[_Content]) -> _Content:
        try:
            return msgspec.json.decode(self._folder.read(name), type=kind)
        except msgspec.DecodeError as error:
            raise TableError(f"{self._folder.path_of(name)} is damaged: {error}") from error


def _commit_name(number: int) -> str:
    return f"{LOG_FOLDER}/{number:0{_NUMBER_WIDTH}d}.json"


def _snapshot_name(number: int) -> str:
    return f"{LOG_FOLDER}/{number:0{_NUMBER_WIDTH}d}.snapshot.json"


def _number_of(name: str) -> int:
    return int(name.rsplit("/", 1)[-1].split(".", 1)[0])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
