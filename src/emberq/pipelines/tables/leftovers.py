"""Files in a table's folder that do not count any more, or never did."""

from collections.abc import Iterable

from emberq.spark.archive.folder import Folder


def is_data_file(name: str) -> bool:
    """Data files and drafts of them; never logs, checkpoints or what else people keep there."""
    *folders, file = name.split("/")
    if name.startswith("_") or any(each.startswith(("_", ".")) for each in folders):
        return False
    return ".parquet" in file


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
