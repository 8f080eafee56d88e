"""Queues in a store directory, EmberQ's or an official broker's, without any broker."""

import logging
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from emberq.client.core.scanned import QueueHead
from emberq.errors import DataLost, StoreError, TopicNotFound
from emberq.model.queue import MessageQueue
from emberq.model.system_topics import is_system_topic
from emberq.spark.local_files import (
    ENTRIES_TOGETHER,
    next_held,
    next_written,
    read_entries,
    slice_contents,
)
from emberq.spark.options import SourceOptions
from emberq.spark.planning import Partition, QueueSlice
from emberq.store.view.directory import StoreView
from emberq.store.view.queue import QueueView

log = logging.getLogger(__name__)

# A directory does not say which broker wrote it.
BROKER_NAME = "store"
SAMPLED_ENTRIES = 256
# So many damaged records one behind the other, as at the end of a log that was copied while it was
# written, and those behind them are as good as missing.
UNREADABLE_MAX = 64


class StorePlace:
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._found: dict[MessageQueue, QueueView | None] = {}
        try:
            self._view = StoreView(Path(options.store or ""))
        except OSError as error:
            raise StoreError(f"{options.store} cannot be read: {error}") from error

    def queues(self) -> list[MessageQueue]:
        options = self._options
        if options.queues:
            return list(options.queues)
        there = self._view.topics()
        if options.pattern is not None:
            matches = re.compile(options.pattern).fullmatch
            topics = [topic for topic in there if matches(topic) and not is_system_topic(topic)]
        else:
            topics = list(options.topics)
        for topic in topics:
            if topic not in there:
                raise TopicNotFound(f"{options.store} has no topic {topic}")
        self._found = {
            MessageQueue(BROKER_NAME, found.queue_id, topic): found
            for topic in topics
            for found in self._view.queues(topic)
        }
        return list(self._found)

    def heads(
        self, queues: Collection[MessageQueue], group: str | None = None
    ) -> dict[MessageQueue, QueueHead]:
        heads = {}
        for queue in queues:
            found = self._find(queue)
            if found is not None:
                end = found.end_offset()
                heads[queue] = QueueHead(found.min_offset(end, self._view.log.min_offset), end)
        return heads

    def offsets_by_time(
        self, times_ms: Mapping[MessageQueue, int], *, is_end: bool = False
    ) -> dict[MessageQueue, int]:
        heads = self.heads(list(times_ms))
        return {
            queue: self._offset_at(queue, head, times_ms[queue], is_end=is_end)
            for queue, head in heads.items()
        }

    def earliest_times_ms(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, int | None]:
        heads = self.heads(queues)
        return {
            queue: self._stored_at(queue, head.min_offset)
            if head.min_offset < head.max_offset
            else None
            for queue, head in heads.items()
        }

    def record_sizes(self, slices: Collection[QueueSlice]) -> list[float]:
        return list(map(self._record_size, slices))

    def _record_size(self, each: QueueSlice) -> float:
        found, count = self._find(each.queue), min(each.count, SAMPLED_ENTRIES)
        entries = None if found is None else read_entries(found, each.first, count)
        return 0.0 if entries is None or len(entries) == 0 else float(entries["size"].mean())

    def contents(self, each: QueueSlice) -> Iterator[bytes]:
        rest, queue = each, self._find(each.queue)
        while rest.count:
            for content, read_to in slice_contents(self._view, rest, self._options, queue):
                rest = QueueSlice(each.queue, read_to, each.stop)
                yield content
            if rest.count:
                onward = next_held(self._view.log, queue, rest)
                if onward > rest.first:
                    self._tell_loss(rest, onward)
                rest = QueueSlice(each.queue, onward, each.stop)

    def contents_in_turn(
        self, partition: Partition
    ) -> Iterator[tuple[QueueSlice, Iterator[bytes]]]:
        return ((each, self.contents(each)) for each in partition)

    def entries(self, each: QueueSlice) -> Iterator[tuple[int, bytes]]:
        queue, offset = self._find(each.queue), each.first
        while queue is not None and offset < each.stop:
            entries = read_entries(queue, offset, min(ENTRIES_TOGETHER, each.stop - offset))
            if len(entries) == 0:
                rest = QueueSlice(each.queue, offset, each.stop)
                offset = next_written(queue, rest)
                self._tell_loss(rest, offset)
                continue
            yield offset, entries.tobytes()
            offset += len(entries)
        if offset < each.stop:
            self._tell_loss(QueueSlice(each.queue, offset, each.stop), each.stop)

    def _tell_loss(self, rest: QueueSlice, onward: int) -> None:
        queue = rest.queue
        text = (
            f"messages {rest.first} to {onward} of {queue.topic} {queue.broker_name}/"
            f"{queue.queue_id} are gone"
        )
        if self._options.fails_on_loss:
            raise DataLost(
                f"{text}: {self._options.store} does not have them; failOnDataLoss=false goes on "
                "without them"
            )
        log.warning("messages_gone %s", text)

    def _find(self, queue: MessageQueue) -> QueueView | None:
        """Its files are listed once: what is read is what was there when that began."""
        if queue not in self._found:
            self._found[queue] = self._view.queue(queue.topic, queue.queue_id)
        return self._found[queue]

    def _offset_at(
        self, queue: MessageQueue, head: QueueHead, time_ms: int, *, is_end: bool
    ) -> int:
        """Messages that are missing are as late as the next one that is there, and later than any
        time behind the last one; an end lies behind them."""
        low, high = head.min_offset, head.max_offset
        while low < high:
            middle = (low + high) // 2
            found = self._next_time(queue, middle, high)
            if found is None or found[1] >= time_ms:
                high = middle
            else:
                low = found[0] + 1
        found = self._next_time(queue, low, head.max_offset) if is_end else None
        if found is not None:
            return found[0]
        return head.max_offset if is_end else low

    def _next_time(self, queue: MessageQueue, first: int, stop: int) -> tuple[int, int] | None:
        """The first message of a range that can be read, and when it was stored."""
        offset = first
        for _ in range(UNREADABLE_MAX):
            offset = next_held(self._view.log, self._find(queue), QueueSlice(queue, offset, stop))
            if offset >= stop:
                return None
            stored_at = self._stored_at(queue, offset)
            if stored_at is not None:
                return offset, stored_at
            offset += 1
        return None

    def _stored_at(self, queue: MessageQueue, offset: int) -> int | None:
        found = self._find(queue)
        entry = None if found is None else found.entry(offset)
        return None if entry is None else self._view.log.stored_at_ms(entry[0], entry[1])
