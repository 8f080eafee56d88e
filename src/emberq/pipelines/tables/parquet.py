"""Parquet files with a log of EmberQ's own: numbered JSON files, each one commit.

`_emberq_log/00000000000000000007.json` is the eighth commit: which files it added and removed,
and which batch of which writer it was. Every 64th commit has a snapshot of the whole state beside
it. Names that begin with an underscore are invisible to readers of Parquet folders.
"""

import itertools
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

import msgspec
import pyarrow as pa
from msgspec import Struct

from emberq.errors import TableError
from emberq.pipelines.tables.columns import (
    as_words,
    footers,
    from_words,
    unified,
    with_partitions,
    without,
)
from emberq.pipelines.tables.fitting import check_columns, check_partitions
from emberq.pipelines.tables.leftovers import delete_files, left_behind
from emberq.pipelines.tables.presence import check_present
from emberq.spark.archive.data_file import DataFile
from emberq.spark.archive.folder import Folder
from emberq.spark.archive.layout import partition_of

LOG_FOLDER = "_emberq_log"
SNAPSHOT_EVERY = 64
COMMIT_ATTEMPTS_MAX = 100
_NUMBER_WIDTH = 20
_SNAPSHOT = ".snapshot.json"
_NOT_KEPT = -1
_NO_COLUMNS = pa.schema([])
_JOINED = r"joined-[0-9a-f]{32}\.parquet"  # as `parquet_compaction` names files

_Content = TypeVar("_Content")


class Commit(Struct, kw_only=True, rename="camel"):
    """`columns` are those of all files of the table, the added ones among them. `condemned` are
    files that no commit named and that are about to be deleted: none may add them any more."""

    at_ms: int
    writer: str = ""
    batch: int = -1
    added: list[DataFile] = msgspec.field(default_factory=list)
    removed: list[str] = msgspec.field(default_factory=list)
    condemned: list[str] = msgspec.field(default_factory=list)
    deleted: list[str] = msgspec.field(default_factory=list)
    columns: dict[str, str] | None = None


class State(Struct, kw_only=True, rename="camel"):
    """Everything that the commits up to a number say.

    `removed` has when files were removed that are in the folder still; removals before
    `removals_since_ms` are not in it. Files that are `condemned` may be gone by now. Without
    `columns` only the files know what they hold.
    """

    files: dict[str, DataFile] = msgspec.field(default_factory=dict)
    batches: dict[str, int] = msgspec.field(default_factory=dict)
    removed: dict[str, int] = msgspec.field(default_factory=dict)
    condemned: set[str] = msgspec.field(default_factory=set)
    removals_since_ms: int = _NOT_KEPT  # what snapshots of early versions say, by not saying it
    columns: dict[str, str] | None = None

    def apply(self, commit: Commit) -> None:
        for path in commit.removed:
            self.files.pop(path, None)
            self.removed[path] = commit.at_ms
        for each in commit.added:
            self.files[each.path] = each
            self.removed.pop(each.path, None)
        self.condemned.update(commit.condemned)
        for path in commit.deleted:
            self.removed.pop(path, None)
            self.condemned.discard(path)
        if commit.columns is not None:
            self.columns = commit.columns
        elif commit.writer and commit.added:  # by an early version; exchanges bring no columns
            self.columns = None
        if commit.writer:
            self.batches[commit.writer] = max(
                commit.batch, self.batches.get(commit.writer, commit.batch)
            )


class ParquetTable:
    """A folder of Parquet files whose log says which of them count.

    Who appends to it says what the rows of its files are.
    """

    keeps_partition_columns = False
    takes_columns = True

    def __init__(
        self, root: str, rows: pa.Schema = _NO_COLUMNS, partition_by: Sequence[str] = ()
    ) -> None:
        self._folder = Folder(root)
        self._rows = rows
        self._partition_by = tuple(partition_by)
        self._state = State(removals_since_ms=0, columns={})
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

    def schema(self) -> pa.Schema | None:
        if not self.is_made:
            return None
        return with_partitions(self._columns(), itertools.chain(*self._ways()))

    def check(self) -> None:
        there = self.schema()
        if there is None:
            return
        check_columns(self.root, there, self._rows, takes_columns=self.takes_columns)
        ways = self._ways()
        if ways:
            check_partitions(self.root, ways, self._partition_by)

    def _ways(self) -> Collection[tuple[str, ...]]:
        """In which files are partitioned: by their paths, which have the columns in order."""
        return dict.fromkeys(tuple(partition_of(path)) for path in self._state.files)

    def _columns(self) -> pa.Schema:
        """What the files hold: as the log says, or they themselves where it does not."""
        if self._state.columns is not None:
            return from_words(self._state.columns)
        return unified(footers(self._folder, list(self._state.files)))

    def _columns_with_own(self) -> dict[str, str] | None:
        if not self._rows.names:
            return None
        own = without(self._rows, self._partition_by)
        return as_words(unified([(self.root, self._columns()), ("what is archived", own)]))

    def last_batch(self, writer: str) -> int | None:
        self._refresh()
        return self._state.batches.get(writer)

    def append(self, writer: str, batch: int, files: Sequence[DataFile]) -> bool:
        for _ in range(COMMIT_ATTEMPTS_MAX):
            last = self.last_batch(writer)
            if last is not None and last >= batch:
                return False
            check_present(self._folder, files, self._state.condemned)
            commit = Commit(
                at_ms=_now_ms(),
                writer=writer,
                batch=batch,
                added=[*files],
                columns=self._columns_with_own(),
            )
            if self._commit(commit):
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
        """Files that may be deleted: those that the log removed before then, and those of its
        writers that it never named and that were written before then. Both in seconds since
        1970."""
        # The folder first: what is committed between the two is in the log then.
        return self._leftovers(self._folder.modified_times(), before_s)

    def _leftovers(self, written_s: Mapping[str, float], before_s: float) -> list[str]:
        self._refresh()
        state = self._state
        ours = left_behind(written_s.keys(), LOG_FOLDER, _JOINED)
        return sorted(
            name
            for name, at_s in written_s.items()
            if name not in state.files
            and (name in state.removed or name in ours)
            and at_s <= before_s
            and state.removed.get(name, state.removals_since_ms) <= before_s * 1000
        )

    def delete_leftovers(self, before_s: float) -> list[str]:
        """Delete what may be, and have the log forget it."""
        written_s = self._folder.modified_times()
        names = self._condemned(written_s, before_s)
        deleted = delete_files(self._folder, names, before_s)
        left = written_s.keys() - set(deleted)
        removed = (path for path, at_ms in self._state.removed.items() if at_ms <= before_s * 1000)
        self._forget([path for path in (*removed, *self._state.condemned) if path not in left])
        return deleted

    def _condemned(self, written_s: Mapping[str, float], before_s: float) -> list[str]:
        """Leftovers, none of which is committed any more: a batch that is under way for long could
        have written them."""
        for _ in range(COMMIT_ATTEMPTS_MAX):
            names = self._leftovers(written_s, before_s)
            known = self._state.removed.keys() | self._state.condemned
            new = [name for name in names if name not in known]
            if not new or self._commit(Commit(at_ms=_now_ms(), condemned=new)):
                return names
        raise TableError(f"{self.root}: {COMMIT_ATTEMPTS_MAX} commits of others came first")

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
        if not self._next:
            self._take_snapshot()
        # By their names: listing a long log takes longer than asking for one file that is missing.
        while (commit := self._commit_of(self._next)) is not None:
            self._state.apply(commit)
            self._next += 1

    def _take_snapshot(self) -> None:
        """The newest one, if there is any: it makes the commits up to it unnecessary."""
        names = self._folder.names(LOG_FOLDER)
        # Drafts of commits have a name with a dot; one whose writer was killed stays for ever.
        ended = [name for name in names if name.endswith(_SNAPSHOT) and "/." not in name]
        newest = max(ended, default=None)
        if newest is None:
            return
        self._state = self._read(newest, State)
        if self._state.removals_since_ms == _NOT_KEPT:
            # Whatever was removed by then was removed before the snapshot was written.
            self._state.removals_since_ms = round(self._folder.modified_at_s(newest) * 1000)
        self._next = _number_of(newest) + 1

    def _commit_of(self, number: int) -> Commit | None:
        try:
            return self._read(_commit_name(number), Commit)
        except FileNotFoundError:
            return None

    def _read(self, name: str, kind: type[_Content]) -> _Content:
        try:
            return msgspec.json.decode(self._folder.read(name), type=kind)
        except msgspec.DecodeError as error:
            raise TableError(f"{self._folder.path_of(name)} is damaged: {error}") from error


def _commit_name(number: int) -> str:
    return f"{LOG_FOLDER}/{number:0{_NUMBER_WIDTH}d}.json"


def _snapshot_name(number: int) -> str:
    return f"{LOG_FOLDER}/{number:0{_NUMBER_WIDTH}d}{_SNAPSHOT}"


def _number_of(name: str) -> int:
    return int(name.rsplit("/", 1)[-1].split(".", 1)[0])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
