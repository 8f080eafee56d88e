"""What jobs read and write in the checkpoint of their query, wherever Spark keeps it."""

import uuid
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from emberq.errors import ConfigError
from emberq.pipelines.connected import is_connected
from emberq.spark.archive.addresses import is_local
from emberq.spark.archive.folder import Folder
from emberq.spark.offsets import Offsets, read_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITER_FILE = "emberq-writer"
_OFFSETS = "offsets"
_COMMITS = "commits"
# Lines of a file of offsets before those of the sources: a version, and Spark's own settings.
_HEAD_LINES = 2


class Checkpoint(Protocol):
    def names(self, below: str) -> list[str]:
        """Files in a folder, hidden ones too; none if there is no such folder."""

    def read(self, name: str) -> bytes: ...

    def write_new(self, name: str, content: bytes) -> bool:
        """Write a file that must not exist; False if it does."""

    def delete(self, name: str) -> None: ...


def checkpoint_at(address: str, session: "SparkSession | None" = None) -> Checkpoint:
    """A checkpoint on this machine, or reached through the file systems of a session.

    Raises:
        ConfigError: it cannot be reached from here.
    """
    if session is None or is_connected(session):
        if not is_local(address):
            raise ConfigError(
                f"checkpoint {address}: only Spark's server reaches it; jobs on a server of Spark "
                "Connect need a folder that both see"
            )
        return Folder(address)
    if is_local(address) and (":" in address or _is_default_local(session)):
        return Folder(address)
    return _HadoopFolder(session, address)


def writer_of(address: str, session: "SparkSession | None" = None) -> str:
    """One writer per checkpoint: batch numbers begin anew with a new checkpoint.

    Raises:
        ConfigError: the checkpoint cannot be reached from here.
    """
    checkpoint = checkpoint_at(address, session)
    checkpoint.write_new(WRITER_FILE, uuid.uuid4().hex.encode())
    return checkpoint.read(WRITER_FILE).decode()


def planned_batch(checkpoint: Checkpoint) -> int | None:
    """The number of the last batch that a query has begun; None if it has begun none."""
    return newest_batch(checkpoint.names(_OFFSETS))


def newest_batch(names: Iterable[str]) -> int | None:
    """Of files that Spark names by batches: `commits/12`, `_spark_metadata/9.compact`."""
    numbers = [name.rsplit("/", 1)[-1].removesuffix(".compact") for name in names]
    return max((int(number) for number in numbers if number.isdigit()), default=None)


def done_offsets(address: str, session: "SparkSession | None" = None) -> Offsets | None:
    """Where a query will go on, in all its topics: the ends of its last finished batch.

    None: it has finished none, or its checkpoint cannot be seen from here.
    """
    try:
        checkpoint = checkpoint_at(address, session)
    except ConfigError:
        return None
    number = newest_batch(checkpoint.names(_COMMITS))
    if number is None:
        return None
    lines = checkpoint.read(f"{_OFFSETS}/{number}").decode().splitlines()[_HEAD_LINES:]
    done: Offsets = {}
    for line in lines:
        # Other sources that a function joined have offsets of their own kind.
        with suppress(msgspec.DecodeError, ConfigError):
            for queue, offset in read_offsets(msgspec.json.decode(line)).items():
                done[queue] = min(offset, done.get(queue, offset))
    return done


def forget_drafts(address: str, session: "SparkSession | None" = None) -> None:
    """Be able to start after a driver that was killed while it planned its very first batch.

    It leaves drafts of files in its checkpoint and no batch, and Spark takes such a checkpoint for
    another query's. Once a batch is planned, nothing is touched.
    """
    try:
        checkpoint = checkpoint_at(address, session)
    except ConfigError:
        return  # not to be helped from here
    left = [name for part in (_OFFSETS, _COMMITS) for name in checkpoint.names(part)]
    if all(name.rsplit("/", 1)[-1].startswith(".") for name in left):
        for name in left:
            checkpoint.delete(name)


def _is_default_local(session: "SparkSession") -> bool:
    """Whether Spark takes an address without a scheme for a folder of this machine."""
    return str(_hadoop_conf(session).get("fs.defaultFS")).startswith("file:")


def _hadoop_conf(session: "SparkSession") -> Any:
    return session.sparkContext._jsc.hadoopConfiguration()


class _HadoopFolder:
    """A folder in HDFS, or in an object store whose Hadoop client is among Spark's jars."""

    def __init__(self, session: "SparkSession", address: str) -> None:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # noqa: PLC0415

        self._error = Py4JJavaError
        jvm: Any = session._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._root = address.rstrip("/")
        try:
            self._files = self._path(address).getFileSystem(_hadoop_conf(session))
        except Py4JJavaError as error:
            reason = error.java_exception.getMessage()
            raise ConfigError(f"checkpoint {address}: Spark cannot reach it: {reason}") from error

    def _at(self, name: str) -> Any:
        return self._path(f"{self._root}/{name}")

    def names(self, below: str) -> list[str]:
        folder = self._at(below)
        if not self._files.exists(folder):
            return []
        found = self._files.listStatus(folder)
        return sorted(f"{below}/{each.getPath().getName()}" for each in found if each.isFile())

    def read(self, name: str) -> bytes:
        stream = self._files.open(self._at(name))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def write_new(self, name: str, content: bytes) -> bool:
        """Whole or not at all: under a name of its own first, which is then given the right one."""
        target, draft = self._at(name), self._at(f".{name}.{uuid.uuid4().hex}")
        if self._files.exists(target):
            return False
        stream = self._files.create(draft, False)
        stream.write(content)
        stream.close()
        try:
            is_ours = bool(self._files.rename(draft, target))
        except self._error:  # some file systems say so when the target is there
            is_ours = False
        if not is_ours:
            self._files.delete(draft, False)
        return is_ours

    def delete(self, name: str) -> None:
        self._files.delete(self._at(name), False)
