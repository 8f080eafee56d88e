"""Files in a table's folder that do not count any more, or never did."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from emberq.spark.archive.folder import Folder
from emberq.spark.archive.layout import PARTITION_COLUMNS

# Who has one of these in a folder keeps a table there: EmberQ, Delta, Iceberg, a stream of Spark.
_LOGS = frozenset({"_emberq_log", "_delta_log", "metadata", "_spark_metadata"})
# As `ArchiveLayout.file_stem` and the writer name files; early versions gave attempts no mark.
_WRITTEN = r".+-\d+-\d{20}-\d{20}-[0-9a-f]{8}(-[0-9a-f]{12})?-\d+\.parquet"


def left_behind(names: Collection[str], log: str, joined: str) -> set[str]:
    """Those of all names in a table's folder that nobody but its writers can have made.

    People keep other tables and files of their own below a table. So these are files as archives
    name them, or compactions (`joined`, a pattern), and drafts of them; in folders of partitions;
    never where another log than the table's own, `log`, may name them.
    """
    pattern = re.compile(rf"({_WRITTEN}|{joined})|\.({_WRITTEN}|{joined})\.[0-9a-f]{{32}}")
    others = {table for name in names for table in _tables(name, log)}
    return {name for name in names if _is_ours(name, pattern, others)}


def _tables(name: str, own_log: str) -> Iterator[str]:
    """Folders that have a log in which this file is, but for the table's own."""
    *folders, _ = name.split("/")
    for depth, folder in enumerate(folders):
        if folder in _LOGS and (depth > 0 or folder != own_log):
            yield "/".join(folders[:depth])


def _is_ours(name: str, pattern: re.Pattern[str], others: set[str]) -> bool:
    *folders, file = name.split("/")
    return (
        all(_is_partition(folder) for folder in folders)
        and pattern.fullmatch(file) is not None
        and others.isdisjoint(_with_parents(folders))
    )


def _is_partition(folder: str) -> bool:
    column, equals, _ = folder.partition("=")
    return bool(equals) and column in PARTITION_COLUMNS


def _with_parents(folders: Sequence[str]) -> Iterator[str]:
    return ("/".join(folders[:depth]) for depth in range(len(folders) + 1))


def delete_files(folder: Folder, names: Iterable[str], before_s: float) -> list[str]:
    """Delete those that were written before then, seconds since 1970; returns their names.

    Asked of each file just before: early versions wrote the files of a repeated batch under the
    names that a crash had left behind.
    """
    deleted = []
    for name in names:
        if folder.modified_at_s(name) > before_s:
            continue
        try:
            folder.delete(name)
        except FileNotFoundError:  # somebody else deletes as well
            continue
        deleted.append(name)
    return deleted
