"""The stream reader: lives in one process of the driver as long as its query; only `read` runs
in tasks. Spark's checkpoint decides where a query goes on, never the group's offsets."""

import logging
import time
from collections.abc import Collection, Iterator, Sequence
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
from emberq.spark.links import WORTH_A_RETRY
from emberq.spark.offsets import Offsets, read_offsets, write_offsets
from emberq.spark.options import GROUP, LATEST, Position, SourceOptions
from emberq.spark.planning import Partition, QueueSlice, new_slices, plan_partitions
from emberq.spark.positions import begin_offsets, listed, times_of, with_pins
from emberq.spark.record_sizes import RecordSizes
from emberq.spark.shipping import Shipped
from emberq.spark.stream_progress import StreamProgress

log = logging.getLogger(__name__)

# How often routes are asked for new queues and topics.
ROUTES_EVERY_S = 5.0
# What an idle stream costs an official broker, and how long it may look away: by how long nothing
# has come.
IDLE_REQUESTS_PER_S = 4.0
QUIET_SHARE = 0.5

Heads = dict[MessageQueue, QueueHead]


class StreamReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, columns: Sequence[Column]) -> None:
        if options.store is not None:
            raise ConfigError("a store directory does not grow: read it as a batch")
        if options.view not in ("messages", "index", "archive"):
            raise ConfigError(f"the view {options.view} is a snapshot: read it as a batch")
        self._options = options
        self._columns = tuple(columns)
        self._driver: Driver | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What travels to tasks."""
        return {"_options": self._options, "_columns": self._columns, "_driver": None}

    @property
    def _live(self) -> "Driver":
        if self._driver is None:
            options = self._options
            # Before anything was found nobody waits: a wrong name or address is told at once.
            first_place, place = BrokerPlace(options), BrokerPlace(options, options.broker_wait_s)
            self._driver = Driver(options, first_place, place)
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
        planned = self._live.partitions(read_offsets(start), read_offsets(end))
        return [SlicesPartition(each) for each in planned]

    def commit(self, end: dict[str, Any]) -> None:
        self._live.commit(read_offsets(end))

    # In tasks

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from emberq.spark.reading import read_slices  # noqa: PLC0415 - planners decode nothing

        return read_slices(slices_of(partition), self._columns, self._options)


class Driver:
    """The half that never leaves the driver."""

    def __init__(
        self, options: SourceOptions, first_place: BrokerPlace, place: BrokerPlace
    ) -> None:
        self._options = options
        self._first_place = first_place
        self._place = place
        self._progress = StreamProgress(options.trigger, fails_on_loss=options.fails_on_loss)
        self._queues: list[MessageQueue] = []
        self._queues_at_s = float("-inf")
        self._heads: Heads = {}
        self._heads_at_s = self._news_at_s = self._looked_at_s = float("-inf")
        self._held_back_at: Offsets | None = None  # where messages wait for more
        self._start: Offsets | None = None  # as this process found it: of the first batch
        # Without a group, a start that another process would find elsewhere.
        self._is_start_moving = False
        self._is_first = False
        self._unpinned: set[MessageQueue] = set()
        self._is_freezing = False

    def freeze(self) -> None:
        """Read what is there at the first look, which knows the queues of the checkpoint."""
        self._is_freezing = True

    def start(self) -> Offsets:
        """The same at every call, and with a group the same after a restart."""
        if self._start is None:
            self._start = self._resolved_start()
        return self._start

    def _resolved_start(self) -> Offsets:
        options, place = self._options, self._first_place
        heads = place.heads(self._first_queues(), options.group)
        position, is_asked_for = _first_position(options.start, heads)
        start = resolve_start(place, position, heads, options)
        if options.group is not None:
            return self._pinned(options.group, start, heads, is_asked_for=is_asked_for)
        if not position.is_repeatable:
            log.warning(
                "start_not_repeatable: without consumerGroup a query that starts at %s begins "
                "with an empty batch",
                position.word or "the latest offsets",
            )
            self._is_start_moving = self._is_first = True
        return start

    def _pinned(self, group: str, found: Offsets, heads: Heads, *, is_asked_for: bool) -> Offsets:
        """What a run before this one wrote down counts, even where it could not be found again."""
        start = with_pins(found, heads, is_asked_for=is_asked_for)
        dropped = [queue for queue in start if heads[queue].start not in (None, start[queue])]
        if dropped:
            was = heads[dropped[0]].start
            _tell_start(f"and not at {was} as written down before", group, dropped, start)
            self._first_place.unpin(group, dropped)
        moved = [queue for queue in start if start[queue] != found[queue]]
        if moved:
            why = f"as written down before its first batch, and not at {found[moved[0]]}"
            _tell_start(why, group, moved, start)
        return self._first_place.pin(group, start)

    def next_end(self, start: Offsets, is_all: bool) -> Offsets:
        progress, heads = self._progress, self._recent_heads(start)
        if self._is_freezing:
            progress.freeze(heads)
            self._is_freezing = False
        is_first, self._is_first = self._is_first and start == self._start, False
        if is_first:  # its end is then stored by Spark before anything is read
            return start
        reach = progress.reach(start, heads)
        anew = [queue for queue in reach if _is_anew(queue, start, reach)]
        begins = self._begins(start, {queue: heads[queue] for queue in anew}) if anew else {}
        if begins:
            log.info("queues_begin count=%d names=%s", len(begins), listed(begins))
        sizes = RecordSizes(self._place, self._backlog(start, reach))
        end = progress.next_end(start, reach, begins, time.monotonic(), sizes, is_all=is_all)
        self._held_back_at = start if end == start else None
        return end

    def _backlog(self, start: Offsets, reach: Offsets) -> list[QueueSlice]:
        """Ranges whose sizes decide how far a batch goes."""
        if self._options.trigger.bytes_max is None:
            return []
        ranges = (QueueSlice(queue, start.get(queue, 0), stop) for queue, stop in reach.items())
        return [each for each in ranges if each.count > 0]

    def _begins(self, start: Offsets, heads: Heads) -> Offsets:
        """Where queues begin that were not there before, or are not what they were. Raises
        DataLost."""
        options = self._options
        found = {**heads, **self._place.heads(list(heads), options.group)}
        new = {queue: head for queue, head in found.items() if queue not in start}
        times = {} if options.start is None else times_of(options.start, new)
        by_time = self._place.offsets_by_time(times) if times else {}
        begins = {queue: head.min_offset for queue, head in found.items()}
        begins |= begin_offsets(options.start, new, by_time)
        if not options.queues:  # whoever names them may add old ones
            self._progress.check_begins(start, begins, found)
        return begins

    def known_heads(self) -> Heads:
        return self._heads if self._has_asked else self._fresh_heads({})

    def partitions(self, start: Offsets, end: Offsets) -> list[Partition]:
        there = self._place.know([queue for queue in end if end[queue] != start.get(queue)])
        slices = new_slices(self._batch_begins(start, end, there), end)
        return plan_partitions(slices, self._options.partition, RecordSizes(self._place, slices))

    def _batch_begins(
        self, start: Offsets, end: Offsets, there: Collection[MessageQueue]
    ) -> Offsets:
        is_first = start == self._start
        if is_first and self._is_start_moving:
            # The empty first batch, planned again with a start that has moved on.
            return {queue: min(start.get(queue, stop), stop) for queue, stop in end.items()}
        anew = [queue for queue in there if _is_anew(queue, start, end)]
        if self._options.fails_on_loss:
            anew = [queue for queue in anew if queue not in start]
        if not anew:
            return start
        # Batches of ours end where such queues begin; those of older releases have read them.
        heads = self._place.heads(anew, self._options.group)
        begins = self._begins(start, heads)
        if is_first:  # begun when a broker was there that is away now
            begins |= {queue: head.start for queue, head in heads.items() if head.start is not None}
        return {**start, **{queue: min(first, end[queue]) for queue, first in begins.items()}}

    def commit(self, end: Offsets) -> None:
        """A batch is done: its start is never needed again, and tools may see how far it is."""
        group = self._options.group
        if group is None:
            return
        heads = self.known_heads()  # of those that are there
        done = {
            queue: offset
            for queue, offset in end.items()
            # Beyond its end a queue was made anew: that offset is its predecessor's.
            if queue in heads and offset <= heads[queue].max_offset
        }
        try:
            self._note_done(group, done)
        except WORTH_A_RETRY as error:
            if self._options.fails_on_loss:
                raise
            log.warning("offsets_not_stored group=%s reason=%s", group, error)

    def _note_done(self, group: str, done: Offsets) -> None:
        # If losses do not matter nobody waits: the next batch stores them again.
        place = self._place if self._options.fails_on_loss else self._first_place
        if self._options.commit == "source":
            place.commit(group, done)
        pinned = [queue for queue in done if queue not in self._unpinned]
        if pinned:
            place.unpin(group, pinned)
            self._unpinned.update(pinned)

    # Heads: asked for when they are needed, and not more often than the options say

    @property
    def _has_asked(self) -> bool:
        return self._heads_at_s > float("-inf")

    def _recent_heads(self, start: Offsets) -> Heads:
        wait_s = self._options.idle_poll_s - (time.monotonic() - self._looked_at_s)
        if wait_s > 0:
            if start != self._held_back_at and self._has_more(start):
                return self._heads
            time.sleep(wait_s)
        self._looked_at_s = time.monotonic()
        is_due = self._looked_at_s - self._heads_at_s >= self._pause_s()
        return self._fresh_heads(start) if is_due else self._heads

    def _has_more(self, start: Offsets) -> bool:
        return any(head.max_offset > start.get(queue, 0) for queue, head in self._heads.items())

    def _pause_s(self) -> float:
        """Official brokers are asked queue by queue: the longer nothing has come, the less often,
        down to so many requests a second."""
        count = self._place.requests_of_heads(self._queues) if self._has_asked else 1
        if count == 1:
            return 0.0
        quiet_s = self._heads_at_s - self._news_at_s
        return min(count / IDLE_REQUESTS_PER_S, quiet_s * QUIET_SHARE)

    def _fresh_heads(self, start: Offsets) -> Heads:
        if time.monotonic() - self._queues_at_s >= ROUTES_EVERY_S:
            self._keep_queues(self._place.queues(list(start)))
        before, self._heads = self._heads, self._place.heads_there(self._queues)
        self._queues = list(self._heads)  # of the others until routes are asked for again
        self._heads_at_s = time.monotonic()
        if self._heads != before:
            self._news_at_s = self._heads_at_s
        return self._heads

    def _first_queues(self) -> list[MessageQueue]:
        return self._keep_queues(self._first_place.queues())

    def _keep_queues(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        self._queues, self._queues_at_s = queues, time.monotonic()
        return queues


def _first_position(asked: Position | None, heads: Heads) -> tuple[Position, bool]:
    """Where a query begins, and whether the options say so: else what its group has says it."""
    has_offsets = any(head.committed is not None for head in heads.values())
    is_begun = any(head.start is not None for head in heads.values())
    if asked is None or (asked.word == GROUP and is_begun and not has_offsets):
        return Position(word=GROUP if has_offsets else LATEST), False
    return asked, True


def _is_anew(queue: MessageQueue, start: Offsets, end: Offsets) -> bool:
    """Whether a queue is new, or was made anew: then it ends before it was read up to."""
    return queue not in start or end[queue] < start[queue]


def _tell_start(why: str, group: str, queues: list[MessageQueue], start: Offsets) -> None:
    log.warning(
        "start_of_group group=%s queues=%d: begins at %d of %s, %s",
        group,
        len(queues),
        start[queues[0]],
        listed(queues[:1]),
        why,
    )
