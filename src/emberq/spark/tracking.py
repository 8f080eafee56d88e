"""A listener of queries: a group's offsets, lag and pace as soon as a micro-batch is done."""

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from emberq.errors import ConfigError, EmberqError
from emberq.model.queue import MessageQueue
from emberq.spark.broker_place import BrokerPlace
from emberq.spark.offsets import VERSION_KEY, Offsets, read_offsets
from emberq.spark.options import SourceOptions
from emberq.spark.positions import listed
from emberq.spark.query_metrics import QueryMeasures, QueryMetrics

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

log = logging.getLogger(__name__)

# Of the queues that are behind, the line of a batch names so many, the furthest behind first.
NAMED_MAX = 10
_RUN = "addBatch"  # the part of a trigger's time that there is if it ran a batch


class OffsetTracker(StreamingQueryListener):
    """Commits of batches that overtake each other do no harm: offsets only move forward.

    What a batch's bytes were Spark does not say.
    """

    def __init__(
        self, options: SourceOptions, query: str | None, metrics: QueryMetrics | None = None
    ) -> None:
        assert options.group is not None
        self._place = BrokerPlace(options)
        self._group = options.group
        self._query = query
        self._measures = None if metrics is None else QueryMeasures(metrics)
        # Of the last batch. Messages behind, over all queues and of each that the query reads.
        self.lag: int | None = None
        self.lag_by_queue: dict[MessageQueue, int] = {}
        self.rows = 0
        self.batch_s = 0.0

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.batch_s if self.batch_s else 0.0

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
        self.lag_by_queue = {
            queue: max(0, latest.get(queue, offset) - offset) for queue, offset in end.items()
        }
        self.lag = sum(self.lag_by_queue.values())
        self.rows, self.batch_s = progress.numInputRows, progress.batchDuration / 1000
        self._tell(progress)
        self._measure(progress)
        # Queues that are gone, or away, keep their last end in a query's offsets.
        there = {queue: offset for queue, offset in end.items() if not latest or queue in latest}
        try:
            self._place.commit(self._group, there)
        except EmberqError as error:  # the query itself does not depend on it
            log.warning("offsets_not_committed group=%s reason=%s", self._group, error)

    def _measure(self, progress: "StreamingQueryProgress") -> None:
        if self._measures is None:
            return
        query = progress.name or ""
        if _RUN in progress.durationMs:  # a query that waits says so as well
            self._measures.batch_done(self._group, query, self.rows, self.batch_s)
        self._measures.behind(self._group, query, self.lag_by_queue)

    def _tell(self, progress: "StreamingQueryProgress") -> None:
        log.info(
            "batch_done query=%s batch=%d rows=%d seconds=%.3f rows_per_s=%.0f lag=%d behind=%s",
            progress.name,
            progress.batchId,
            self.rows,
            self.batch_s,
            self.rows_per_s,
            self.lag,
            _behind(self.lag_by_queue),
        )


def _behind(lag: Mapping[MessageQueue, int]) -> str:
    """`orders broker-a/0: 12, orders broker-a/1: 7`"""
    waiting = sorted((-count, queue) for queue, count in lag.items() if count)
    named = [f"{listed([queue])}: {-count}" for count, queue in waiting[:NAMED_MAX]]
    if len(waiting) > NAMED_MAX:
        named.append(f"and {len(waiting) - NAMED_MAX} more")
    return ", ".join(named) or "none"


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
