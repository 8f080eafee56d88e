"""Journeys that grow while a stream of events runs: a Parquet table whose rows are merged.

A batch of events writes all that is known by then of the messages it speaks of, to a partition of
its own, `batch=7-of-WRITER`: numbers begin anew with another checkpoint, and what was written with
the one before is to stay. Events are kept beside it for as long as others may follow; of those that
come later still, their own rows are put to what was written before. A batch that is done once more
writes the same files again.
"""

import time
from typing import TYPE_CHECKING

from emberq.pipelines.journeys import journeys_of, merged, of_topics
from emberq.pipelines.result_folders import has_rows
from emberq.pipelines.trace_events import SCHEMA
from emberq.spark.archive.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Hidden from whoever reads the table: Spark passes over names that begin so.
_EVENTS = "_events"
CHECKPOINT = "_checkpoint"
_BATCH = "batch"


class JourneyTable:
    def __init__(self, path: str, kept_s: float, topics: list[str]) -> None:
        """Events are put together with others of their message for `kept_s`. Journeys of messages
        of these topics are written, or all if none is named."""
        self._folder = Folder(path)
        self._kept_s = kept_s
        self._topics = topics

    @property
    def checkpoint(self) -> str:
        return f"{self._folder.root}/{CHECKPOINT}"

    def take(self, events: "DataFrame", batch: int, writer: str) -> None:
        """Write the journeys of the messages that events of a writer's batch speak of."""
        session, partition = events.sparkSession, f"{_BATCH}={batch}-of-{writer}"
        own_events = self._address(f"{_EVENTS}/{partition}")
        events.dropDuplicates().write.mode("overwrite").parquet(own_events)
        known = self._events(session)
        spoken_of = session.read.parquet(own_events).select("messageId").distinct()
        own = known.join(spoken_of, "messageId", "left_semi").dropDuplicates()
        # A consumer does not tell the topic: an earlier batch may know it.
        journeys = of_topics(journeys_of(own), self._topics, has_unknown=True)
        journeys.write.mode("overwrite").parquet(self._address(partition))
        self._forget()

    def latest(self, session: "SparkSession") -> "DataFrame":
        """One row per message and group, as of now."""
        schema = journeys_of(session.createDataFrame([], SCHEMA)).schema
        journeys = latest_journeys(session.read.schema(schema).parquet(self._folder.root))
        return of_topics(journeys, self._topics, has_unknown=False)

    def is_empty(self, session: "SparkSession") -> bool:
        return not has_rows(session, self._folder.root)

    def _events(self, session: "SparkSession") -> "DataFrame":
        """All that are kept, without the name of their batch."""
        return session.read.schema(SCHEMA).parquet(self._address(_EVENTS)).drop(_BATCH)

    def _address(self, name: str) -> str:
        return self._folder.address_of(name)

    def _forget(self) -> None:
        """Events of messages about which nothing is expected any more, batch by batch."""
        oldest_s = time.time() - self._kept_s
        written_at_s: dict[str, float] = {}
        for name in self._folder.names(_EVENTS, is_recursive=True):
            batch = "/".join(name.split("/")[:2])
            at_s = self._folder.modified_at_s(name)
            written_at_s[batch] = max(at_s, written_at_s.get(batch, at_s))
        for batch, at_s in written_at_s.items():
            if at_s < oldest_s:
                self._folder.filesystem.delete_dir(self._folder.path_of(batch))


def latest_journeys(rows: "DataFrame") -> "DataFrame":
    """One row per message and group of the rows of such a table."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    if "state" not in rows.columns:  # all were written before there were states
        rows = rows.withColumn("state", f.lit(None).cast("string"))
    return merged(rows.drop(_BATCH))
