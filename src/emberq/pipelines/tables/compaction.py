"""What a compaction makes of a table: which files are joined with which. Pure."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import date
from typing import Protocol

from msgspec import Struct, field

from emberq.spark.archive.data_file import DataFile


class CompactionTerms(Struct, frozen=True, kw_only=True):
    """How the table should be afterwards."""

    file_size_bytes: int
    compression: str
    orphans_after_s: float
    oldest_day: date | None = None  # days before it are dropped


class CompactionPlan(Struct, kw_only=True):
    """What would be done now. Files to delete are names: most of them are in no log."""

    files: list[DataFile]
    dropped: list[DataFile] = field(default_factory=list)
    groups: list[list[DataFile]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)


class Compaction(Protocol):
    def plan(self) -> CompactionPlan:
        """Nothing is written."""

    def run(self, say: Callable[[str], None]) -> Mapping[str, int]:
        """Do it; returns how many files there were, and what became of them."""


def older_files(files: Iterable[DataFile], oldest_day: date | None) -> list[DataFile]:
    """Files of days before that day."""
    if oldest_day is None:
        return []
    return [
        each
        for each in files
        if "date" in each.partition and date.fromisoformat(each.partition["date"]) < oldest_day
    ]


def _of_one_kind(files: Sequence[DataFile]) -> list[Hashable]:
    return [None] * len(files)


def groups_to_join(
    files: Iterable[DataFile],
    small_below_bytes: float,
    file_size_bytes: int,
    kinds_of: Callable[[Sequence[DataFile]], Iterable[Hashable]] = _of_one_kind,
) -> list[list[DataFile]]:
    """Small files of one partition and one kind, put together until they are large enough.

    `kinds_of` is asked once, only of files that have others beside them.
    """
    small: dict[Hashable, list[DataFile]] = defaultdict(list)
    for each in files:
        if each.size_bytes < small_below_bytes:
            small[tuple(each.partition.items())].append(each)
    crowded = [each for together in small.values() if len(together) > 1 for each in together]
    alike: dict[Hashable, list[DataFile]] = defaultdict(list)
    for each, kind in zip(crowded, kinds_of(crowded), strict=True):
        alike[(*each.partition.items(), kind)].append(each)
    groups: list[list[DataFile]] = []
    for same in alike.values():
        same.sort(key=lambda each: (each.broker_name, each.queue_id, each.first_offset))
        groups += _filled(same, file_size_bytes)
    return [group for group in groups if len(group) > 1]


def _filled(files: Iterable[DataFile], size_max: int) -> list[list[DataFile]]:
    groups: list[list[DataFile]] = [[]]
    size = 0
    for each in files:
        if groups[-1] and size + each.size_bytes > size_max:
            groups.append([])
            size = 0
        groups[-1].append(each)
        size += each.size_bytes
    return groups
