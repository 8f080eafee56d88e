"""The stream reader: lives in one process of the driver as long as its query; only `read` runs
in tasks. Spark's checkpoint decides where a query goes on, never the group's offsets."""

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from emberq.client.core.scanned import QueueHead
from emberq.errors import ConfigError
from emberq.model.queue import MessageQueue
from emberq.spark.batch_reader import SlicesPartition, resolve_start, slices_of
from emberq.spark.broker_place import BrokerPlace
from emberq.spark.columns import Column
from emberq.spark.offsets import Offsets, read_offsets, write_offsets
from emberq.spark.options import GROUP, LATEST, Position, SourceOptions, TriggerLimits
from emberq.spark.planning import new_slices, plan_partitions
from emberq.spark.record_sizes import RecordSizes
from emberq.spark.shipping import Shipped
from emberq.spark.stream_progress import StreamProgress

log = logging.getLogger(__name__)

# How often routes are asked for new queues and topics.
ROUTES_EVERY_S = 5.0

Heads = dict[MessageQueue, QueueHead]


class StreamReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, columns: Sequence[Column]) -> None:
        if options.store is not None:
            raise ConfigError("a store directory does not grow: read it as a batch")
        if options.view not in ("messages", "index", "archive"):
            raise ConfigError(f"the view {options.view} is a snapshot: read it as a batch")
        self._options = options
        self._columns = tuple(columns)
        self._driver: _Driver | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What travels to tasks."""
        return {"_options": self._options, "_columns": self._columns, "_driver": None}

    @property
    def _live(self) -> "_Driver":
        if self._driver is None:
            self._driver = _Driver(self._options)
        return self._driver

    # On the driver

    def prepareForTriggerAvailableNow(self) -> None:
        self._live.freeze()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark knows one limit; the options hold the others, and all of them count."""
        limits = self._options.trigger
        if limits.rows_max is not None:
            return ReadMaxRows(limits.rows_max)
        if limits.bytes_max is not None:
            return ReadMaxBytes(limits.bytes_max)
        if limits.rows_min is not None:
            return ReadMinRows(limits.rows_min)
        return ReadAllAvailable()

    def initialOffset(self) -> dict[str, Any]:
        return write_offsets(self._live.start())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        is_all = isinstance(limit, ReadAllAvailable)
        return write_offsets(self._live.next_end(read_offsets(start), is_all))

    def reportLatestOffset(self) -> dict[str, Any]:
        return write_offsets(
            {queue: head.max_offset for queue, head in self._live.known_heads().items()}
        )

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._live.partitions(read_offsets(start), read_offsets(end))

    def commit(self, end: dict[str, Any]) -> None:
        self._live.commit(read_offsets(end))

    # In tasks

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from emberq.spark.reading import read_slices  # noqa: PLC0415 - planners decode nothing

        return read_slices(slices_of(partition), self._columns, self._options)


class _Driver:
    """The half that never leaves the driver."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._place = BrokerPlace(options, options.broker_wait_s)
        # Before anything was found: a wrong name or address is told at once.
        self._first_place = BrokerPlace(options)
        self._progress = StreamProgress(options.trigger, fails_on_loss=options.fails_on_loss)
        self._unlimited = StreamProgress(TriggerLimits(), fails_on_loss=options.fails_on_loss)
        self._queues: list[MessageQueue] = []
        self._queues_at_s = -ROUTES_EVERY_S
        self._heads: Heads = {}
        self._heads_at_s = float("-inf")
        self._pinned_start: Offsets | None = None
        self._is_first = False
        self._is_pinned = False

    def freeze(self) -> None:
        heads = self._first_place.heads(self._first_queues())
        self._progress.freeze(heads)
        self._unlimited.freeze(heads)

    def start(self) -> Offsets:
        """The same at every call, and with a group the same after a restart."""
        if self._pinned_start is None:
            self._pinned_start = self._resolved_start()
        return self._pinned_start

    def _resolved_start(self) -> Offsets:
        group, options, place = self._options.group, self._options, self._first_place
        heads = place.heads(self._first_queues(), group)
        position = options.start
        if position is None:
            has_offsets = any(head.committed is not None for head in heads.values())
            position = Position(word=GROUP if has_offsets else LATEST)
        if group is not None:
            # What a run before this one wrote down counts, even where it could not be found again.
            missing = {queue: head for queue, head in heads.items() if head.start is None}
            start = resolve_start(place, position, missing, options) if missing else {}
            pinned = place.pin(
                group, {**start, **{q: h.start for q, h in heads.items() if h.start is not None}}
            )
            self._is_pinned = True
            return pinned
        if not position.is_repeatable:
            log.warning(
                "start_not_repeatable: without consumerGroup a query that starts at %s begins "
                "with an empty batch",
                position.word or "the latest offsets",
            )
            self._is_first = True
        return resolve_start(place, position, heads, options)

    def next_end(self, start: Offsets, is_all: bool) -> Offsets:
        if self._is_first:  # its end is then stored by Spark before anything is read
            self._is_first = False
            return start
        progress = self._unlimited if is_all else self._progress
        heads = self._recent_heads(start)
        reach = progress.reach(start, heads)
        begins = {**{queue: heads[queue].min_offset for queue in heads}, **start}
        sizes = RecordSizes(self._place)
        return progress.next_end(begins, reach, time.monotonic(), sizes)

    def known_heads(self) -> Heads:
        return self._heads or self._fresh_heads({})

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        options = self._options
        self._place.know(list(end))
        new = [queue for queue in end if queue not in start]
        begins = dict(start)
        if new:
            heads = self._place.heads(new)
            begins |= {queue: heads[queue].min_offset for queue in new if queue in heads}
        is_repeatable = options.group is not None or (
            options.start is not None and options.start.is_repeatable
        )
        for queue, stop in end.items():
            if begins.get(queue, 0) > stop and not (is_repeatable and options.fails_on_loss):
                # Either the empty first batch, planned again with a start that has moved on, or a
                # queue that was made anew, whose messages are read from the first on.
                begins[queue] = stop if not is_repeatable else 0
        slices = new_slices(begins, end)
        sizes = RecordSizes(self._place)
        return [SlicesPartition(each) for each in plan_partitions(slices, options.partition, sizes)]

    def commit(self, end: Offsets) -> None:
        """A batch is done: its start is never needed again, and tools may see how far it is."""
        group = self._options.group
        if group is None:
            return
        self._place.know(list(end))
        if self._options.commit == "source":
            self._place.commit(group, end)
        if self._is_pinned or self._pinned_start is None:
            self._place.unpin(group, list(end))
            self._is_pinned = False
            self._pinned_start = self._pinned_start or end

    # Heads: asked for when they are needed, and not more often than the options say

    def _recent_heads(self, start: Offsets) -> Heads:
        age_s = time.monotonic() - self._heads_at_s
        wait_s = self._options.idle_poll_s - age_s
        if wait_s > 0:
            has_more = any(
                head.max_offset > start.get(queue, 0) for queue, head in self._heads.items()
            )
            if has_more:
                return self._heads
            time.sleep(wait_s)
        return self._fresh_heads(start)

    def _fresh_heads(self, start: Offsets) -> Heads:
        now_s = time.monotonic()
        if not self._queues or now_s - self._queues_at_s >= ROUTES_EVERY_S:
            self._keep_queues(self._place.queues(list(start)))
        self._heads = self._place.heads(self._queues)
        self._heads_at_s = time.monotonic()
        return self._heads

    def _first_queues(self) -> list[MessageQueue]:
        return self._keep_queues(self._first_place.queues())

    def _keep_queues(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        self._queues, self._queues_at_s = queues, time.monotonic()
        return queues
