"""Whether the files of a batch are where the table will look for them."""

from collections.abc import Collection, Sequence

from emberq.errors import TableError
from emberq.spark.archive.data_file import DataFile
from emberq.spark.archive.folder import Folder


def check_present(
    folder: Folder, files: Sequence[DataFile], condemned: Collection[str] = ()
) -> None:
    """Asked just before a commit: what is committed without its files is lost. Condemned ones are
    about to be deleted.

    Raises:
        TableError: a file is not there, or not as it was written.
    """
    found = folder.sizes_bytes([each.path for each in files])
    gone = [
        (each, size_bytes)
        for each, size_bytes in zip(files, found, strict=True)
        if size_bytes != each.size_bytes or each.path in condemned
    ]
    if not gone:
        return
    first, size_bytes = gone[0]
    state = "is being deleted"
    if size_bytes != first.size_bytes:
        state = "is not there" if size_bytes is None else f"has {size_bytes} bytes"
    raise TableError(
        f"{len(gone)} of {len(files)} files of the batch are not as its tasks wrote them: "
        f"{folder.path_of(first.path)} {state}, {first.size_bytes} bytes were written. Either "
        "tasks run where path is another folder: give one that all machines share, or an address "
        "such as s3://…. Or compact deletes them: its orphansAfter has to be longer than a batch. "
        "Nothing was committed, the next run repeats the batch"
    )
