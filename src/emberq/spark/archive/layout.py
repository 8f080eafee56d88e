"""Where the files of an archive go: partitions, names, sizes. Pure."""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from msgspec import Struct, structs

from emberq.errors import ConfigError
from emberq.model.queue import MessageQueue

if TYPE_CHECKING:
    from emberq.spark.planning import QueueSlice

_TIME_FORMATS = {"date": "%Y-%m-%d", "hour": "%H"}
PARTITION_COLUMNS = ("topic", "brokerName", "queueId", *_TIME_FORMATS)
# In place of columns, for files that are all in one folder; no column at all means the same.
NO_PARTITIONS = "none"
COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "none")
FILE_SIZE_BYTES = 256 * 1024 * 1024
_HOUR_S = 3600


class ArchiveLayout(Struct, frozen=True, kw_only=True):
    """How an archive's files are laid out. `writer` keeps two archives in one folder apart."""

    root: str
    writer: str = ""
    partition_by: tuple[str, ...] = ("topic", "date")
    file_size_bytes: int = FILE_SIZE_BYTES
    compression: str = "zstd"
    keeps_partition_columns: bool = False

    def __post_init__(self) -> None:
        structs.force_setattr(self, "partition_by", partition_columns(self.partition_by))
        for name in self.partition_by:
            if name not in PARTITION_COLUMNS:
                known = ", ".join(PARTITION_COLUMNS)
                raise ConfigError(f"archive.partitionBy={name!r}: expected some of {known}")

    @property
    def is_timed(self) -> bool:
        return any(name in _TIME_FORMATS for name in self.partition_by)

    def partition(self, queue: MessageQueue, hour: int) -> dict[str, str]:
        """The partition of a queue's messages in one hour since 1970, UTC."""
        moment = datetime.fromtimestamp(hour * _HOUR_S, UTC)
        texts = {
            "topic": queue.topic,
            "brokerName": queue.broker_name,
            "queueId": str(queue.queue_id),
            **{name: moment.strftime(form) for name, form in _TIME_FORMATS.items()},
        }
        return {name: texts[name] for name in self.partition_by}

    def file_stem(self, each: "QueueSlice", attempt: str) -> str:
        """Whose file it is, and nobody else's: the same range of another topic, or read again by a
        task that was taken for lost, must not write over what is in the table."""
        mark = hashlib.sha256(self.writer.encode()).hexdigest()[:8]
        broker, number = quote(each.queue.broker_name, safe=""), each.queue.queue_id
        return f"{broker}-{number}-{each.first:020d}-{each.stop:020d}-{mark}-{attempt}"


def partition_columns(names: Iterable[str]) -> tuple[str, ...]:
    """The columns that an option names, none of them for `none`."""
    columns = tuple(dict.fromkeys(names))
    return () if columns == (NO_PARTITIONS,) else columns


def partition_path(partition: dict[str, str]) -> str:
    """The folder of a partition, as Hive and Spark write it."""
    return "/".join(f"{name}={quote(value, safe='')}" for name, value in partition.items())


def partition_of(path: str) -> dict[str, str]:
    """What the folders of a file say: `topic=orders/date=2026-11-17/…`."""
    pairs = (folder.partition("=") for folder in path.split("/")[:-1])
    return {key: unquote(value) for key, equals, value in pairs if equals}
