"""One finished Parquet file of a table, as the task that wrote it describes it."""

from msgspec import Struct


class DataFile(Struct, frozen=True, kw_only=True, rename="camel"):
    """A file, and which messages are in it: a range of one queue, or of none after compaction."""

    path: str  # below the table's folder
    rows: int
    size_bytes: int
    partition: dict[str, str]
    topic: str = ""
    broker_name: str = ""
    queue_id: int = -1
    first_offset: int = -1
    next_offset: int = -1
