"""Folders that jobs write rows to: whether there are any, and whose the folder is."""

from typing import TYPE_CHECKING

from emberq.errors import ConfigError
from emberq.pipelines.checkpoints import (
    Checkpoint,
    checkpoint_at,
    newest_batch,
    planned_batch,
    writer_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Hidden from whoever reads the rows: Spark passes over names that begin so.
OWNER_FILE = "_emberq-writer"
# Spark's own list of what a stream has written, by the numbers of its batches.
SPARK_LOG = "_spark_metadata"
# What Spark says of no folder, and of one without rows.
_NOTHING_YET = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")


def has_rows(session: "SparkSession", address: str) -> bool:
    """Asked of Spark: the folder may be another machine's."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - an extra

    # All files below it, however they are divided.
    reader = session.read.option("recursiveFileLookup", "true")
    try:
        return not reader.parquet(address).isEmpty()
    except AnalysisException as error:
        if error.getCondition() not in _NOTHING_YET:
            raise
        return False


def check_new(session: "SparkSession", address: str) -> None:
    """Raises ConfigError for a folder with rows: those of a second run would be there twice."""
    if has_rows(session, address) or _is_owned(address, session):
        raise ConfigError(
            f"path={address!r} has been written to, and rows would be there twice: delete it, or "
            "name another folder"
        )


def check_of_batches(session: "SparkSession | None", address: str) -> None:
    """Raises ConfigError for a folder that a run which did not go on wrote to."""
    if _has_loose_rows(_visible(address, session)):
        raise ConfigError(
            f"path={address!r} was written to by a run without every: name another folder"
        )


def claim(address: str, checkpoint: str, session: "SparkSession | None") -> None:
    """Make a folder that of the query with this checkpoint.

    Spark numbers the batches of a query from 0, and of those whose numbers a folder has seen it
    writes nothing, without a word: windows would be lost.

    Raises:
        ConfigError: it is that of another query, or cannot be reached from here.
    """
    own, folder = checkpoint_at(checkpoint, session), checkpoint_at(address, session)
    writer = writer_of(checkpoint, session)
    if OWNER_FILE not in _base_names(folder, "") and _is_foreign(folder, own):
        raise _other(address)
    folder.write_new(OWNER_FILE, writer.encode())
    if folder.read(OWNER_FILE).decode() != writer:
        raise _other(address)


def _is_foreign(folder: Checkpoint, own: Checkpoint) -> bool:
    """Of a folder from before owners were noted: whether another query has written to it."""
    written = newest_batch(folder.names(SPARK_LOG))
    if written is None:
        return _has_loose_rows(folder)
    planned = planned_batch(own)
    return planned is None or planned < written


def _other(address: str) -> ConfigError:
    return ConfigError(
        f"path={address!r} belongs to another run or checkpoint, and windows of this one would be "
        "lost there: name the checkpoint that wrote it, or another folder"
    )


def _is_owned(address: str, session: "SparkSession") -> bool:
    folder = _visible(address, session)
    return folder is not None and OWNER_FILE in _base_names(folder, "")


def _has_loose_rows(folder: Checkpoint | None) -> bool:
    """Whether there are rows in the folder itself, and not in folders of batches."""
    return folder is not None and any(
        name.endswith(".parquet") and not name.startswith(("_", "."))
        for name in _base_names(folder, "")
    )


def _visible(address: str, session: "SparkSession | None") -> Checkpoint | None:
    try:
        return checkpoint_at(address, session)
    except ConfigError:
        return None  # only Spark's server sees it


def _base_names(folder: Checkpoint, below: str) -> set[str]:
    return {name.rsplit("/", 1)[-1] for name in folder.names(below)}
