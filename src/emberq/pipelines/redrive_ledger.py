"""Which dead letters were sent back: small Parquet files in a folder, one per piece that was sent.

The driver lists, reads and writes them, all through one file system. Tasks have no part in it:
what an address means to them may be another place, and then nothing would be found again.
"""

import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from emberq.errors import ConfigError, TableError
from emberq.pipelines.checkpoints import Checkpoint, checkpoint_at
from emberq.pipelines.connected import is_connected
from emberq.spark.archive.folder import Folder, is_object_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Where a dead letter lies.
PLACE = ("topic", "brokerName", "queueId", "queueOffset")
# The place is for people, and for ledgers of before ids: there it is all that is known.
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("topic", pa.string()),
        ("brokerName", pa.string()),
        ("queueId", pa.int32()),
        ("queueOffset", pa.int64()),
    ]
)
_IDS = pa.schema([SCHEMA.field("id")])
_PLACES = pa.schema([SCHEMA.field(name) for name in PLACE])
# Letters of the topics of one run that are remembered; their ids take about 100 bytes each.
REMEMBERED_MAX = 2_000_000


class RedriveLedger:
    """One run at a time writes to a folder."""

    def __init__(self, address: str, folder: Checkpoint) -> None:
        self._address = address
        self._folder = folder

    def check_writable(self) -> None:
        """Raises TableError, before anything is sent that could not be noted."""
        probe = f"probe-{uuid.uuid4().hex}"
        with self._readable_failures():
            self._folder.write_new(probe, b"\n")
            self._folder.delete(probe)

    def add(self, letters: pa.Table) -> None:
        """Remember letters, in one step; other columns than the ledger's are left out."""
        sink = pa.BufferOutputStream()
        pq.write_table(letters.select(SCHEMA.names).cast(SCHEMA), sink)
        name = f"sent-{time.time_ns():020}-{uuid.uuid4().hex}.parquet"
        with self._readable_failures():
            self._folder.write_new(name, sink.getvalue().to_pybytes())

    def remembered(self, topics: Collection[str]) -> tuple[pa.Table, pa.Table]:
        """Ids of letters of these topics that were sent; and of those that ledgers of before ids
        remember, their places. Raises TableError."""
        ids, places = [_IDS.empty_table()], [_PLACES.empty_table()]
        count = 0
        wanted = pa.array(sorted(topics), pa.string())  # of no topic, Arrow knows no type
        with self._readable_failures():
            for name in self._folder.names(""):
                if not name.endswith(".parquet"):
                    continue
                letters = pq.read_table(pa.BufferReader(self._folder.read(name)))
                letters = letters.filter(pc.field("topic").isin(wanted))
                if "id" in letters.column_names:
                    ids.append(letters.select(["id"]).cast(_IDS))
                else:
                    places.append(letters.select(list(PLACE)).cast(_PLACES))
                count += letters.num_rows
                if count > REMEMBERED_MAX:
                    raise TableError(
                        f"the ledger {self._address} remembers more than {REMEMBERED_MAX:,} "
                        "letters: begin another one, with `since` behind those of this one"
                    )
        return pa.concat_tables(ids), pa.concat_tables(places)

    @contextmanager
    def _readable_failures(self) -> Iterator[None]:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # noqa: PLC0415

        try:
            yield
        except (OSError, pa.ArrowException, Py4JJavaError) as error:
            raise TableError(f"the ledger {self._address}: {error}") from error


def ledger_at(address: str, session: "SparkSession") -> RedriveLedger:
    """Where Spark's own file systems have it, those of object stores by their clients in Arrow.

    Raises:
        ConfigError: it cannot be reached, or would be gone with the machine of the driver.
        TableError: no client is there for it.
    """
    if is_object_store(address):
        return RedriveLedger(address, Folder(address))
    folder = checkpoint_at(address, session)
    if isinstance(folder, Folder) and not urlsplit(address).scheme and _is_anywhere(session):
        raise ConfigError(
            f"ledger={address!r} would end with the machine of the driver: give an address such as "
            "hdfs:///state/billing, or file:///shared/billing"
        )
    return RedriveLedger(address, folder)


def _is_anywhere(session: "SparkSession") -> bool:
    """Whether the driver runs on any machine of a cluster."""
    return (
        not is_connected(session)
        and session.conf.get("spark.submit.deployMode", "client") == "cluster"
    )
