"""Journeys that grow while a stream of events runs: a Parquet table in which later rows count.

A batch of events writes all that is known by then of the messages it speaks of, to a partition of
its own, `batch=7`. Events are kept beside it for as long as others may follow. A batch that is
done once more writes the same files again.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from emberq.pipelines.journeys import journeys_of
from emberq.spark.archive.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Hidden from whoever reads the table: Spark passes over names that begin so.
_EVENTS = "_events"
CHECKPOINT = "_checkpoint"
_BATCH = "batch"


class JourneyTable:
    def __init__(
        self, path: str, kept_s: float, wanted: "Callable[[DataFrame], DataFrame]"
    ) -> None:
        """Events are put together with others of their message for `kept_s`; `wanted` says which
        journeys are written."""
        self._folder = Folder(path)
        self._kept_s = kept_s
        self._wanted = wanted

    @property
    def checkpoint(self) -> str:
        return f"{self._folder.root}/{CHECKPOINT}"

    def take(self, events: "DataFrame", batch: int) -> None:
        """Write the journeys of the messages that events of a batch speak of."""
        session = events.sparkSession
        events.dropDuplicates().write.mode("overwrite").parquet(self._events_of(batch))
        known = self._events(session)
        spoken_of = session.read.parquet(self._events_of(batch)).select("messageId").distinct()
        own = known.join(spoken_of, "messageId", "left_semi").dropDuplicates()
        journeys = self._wanted(journeys_of(own))
        journeys.write.mode("overwrite").parquet(self._address(f"{_BATCH}={batch}"))
        self._forget()

    def latest(self, session: "SparkSession") -> "DataFrame":
        """One row per message and group, as of now."""
        return latest_journeys(session.read.parquet(self._folder.root))

    @property
    def is_empty(self) -> bool:
        return not any(
            name.startswith(f"{_BATCH}=") for name in self._folder.names("", is_recursive=True)
        )

    def _events(self, session: "SparkSession") -> "DataFrame":
        """All that are kept, without the number of their batch."""
        return session.read.parquet(self._address(_EVENTS)).drop(_BATCH)

    def _events_of(self, batch: int) -> str:
        return self._address(f"{_EVENTS}/{_BATCH}={batch}")

    def _address(self, name: str) -> str:
        return self._folder.address_of(name)

    def _forget(self) -> None:
        """Events of messages about which nothing is expected any more."""
        oldest_s = time.time() - self._kept_s
        for name in self._folder.names(_EVENTS, is_recursive=True):
            if self._folder.modified_at_s(name) < oldest_s:
                self._folder.delete(name)


def latest_journeys(rows: "DataFrame") -> "DataFrame":
    """Of each message the rows of the last batch that spoke of it."""
    from pyspark.sql import Window  # noqa: PLC0415 - an extra
    from pyspark.sql import functions as f  # noqa: PLC0415

    newest = f.max(_BATCH).over(Window.partitionBy("messageId"))
    return rows.withColumn("_newest", newest).filter(f"{_BATCH} = _newest").drop("_newest", _BATCH)
