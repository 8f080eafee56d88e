"""A listener of queries: a group's offsets and lag as soon as a micro-batch is done."""

import json
import logging
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from emberq.errors import ConfigError, EmberqError
from emberq.spark.broker_place import BrokerPlace
from emberq.spark.offsets import VERSION_KEY, Offsets, read_offsets
from emberq.spark.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

log = logging.getLogger(__name__)


class OffsetTracker(StreamingQueryListener):
    """Commits of batches that overtake each other do no harm: offsets only move forward."""

    def __init__(self, options: SourceOptions, query: str | None) -> None:
        assert options.group is not None
        self._place = BrokerPlace(options)
        self._group = options.group
        self._query = query
        self.lag: int | None = None  # of the last batch, over all queues

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self.take(event.progress)

    def take(self, progress: "StreamingQueryProgress") -> None:
        """What a batch reached. Spark tells listeners in its own time: whoever ends with the
        query hands over its last progress."""
        if self._query is not None and progress.name != self._query:
            return
        end, latest = _offsets(progress, "endOffset"), _offsets(progress, "latestOffset")
        if not end:
            return
        self.lag = sum(max(0, latest.get(queue, offset) - offset) for queue, offset in end.items())
        try:
            self._place.commit(self._group, end)
        except EmberqError as error:  # the query itself does not depend on it
            log.warning("offsets_not_committed group=%s reason=%s", self._group, error)
            return
        log.info(
            "batch_done query=%s batch=%d rows=%d lag=%d",
            progress.name,
            progress.batchId,
            progress.numInputRows,
            self.lag,
        )


def _offsets(progress: "StreamingQueryProgress", name: str) -> Offsets:
    """Of all sources that are ours."""
    offsets: Offsets = {}
    for source in progress.sources:
        text = getattr(source, name)
        if text and VERSION_KEY in text:
            try:
                offsets |= read_offsets(json.loads(text))
            except (ValueError, ConfigError):
                log.warning("offsets_unreadable text=%s", text[:200])
    return offsets
