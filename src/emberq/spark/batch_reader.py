"""The batch reader: ends are fixed when Spark plans the first action, and hold from then on.

It must never have a `pushFilters`: Spark 4.3 keeps what one scan pushed for all other scans of the
same DataFrame, and rows are missing without a word. Filters for the broker are options.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from emberq.client.core.scanned import QueueHead
from emberq.errors import ConfigError, DataLost
from emberq.model.queue import MessageQueue
from emberq.spark.columns import Column
from emberq.spark.lasting_objects import keep_what_lasts
from emberq.spark.offsets import Offsets
from emberq.spark.options import EARLIEST, Position, SourceOptions
from emberq.spark.places import Place, place_of
from emberq.spark.planning import Partition, new_slices, plan_partitions
from emberq.spark.positions import (
    QueueHeads,
    crossed_ends,
    end_offsets,
    listed,
    names_trouble,
    start_offsets,
    times_of,
    unknown_names,
)
from emberq.spark.record_sizes import RecordSizes
from emberq.spark.shipping import Shipped

log = logging.getLogger(__name__)


class SlicesPartition(InputPartition):
    """What one task reads."""

    def __init__(self, slices: Partition) -> None:
        super().__init__(slices)
        self.slices = slices


def slices_of(partition: InputPartition | None) -> Partition:
    """Spark starts one task without a partition where there is nothing to read."""
    return partition.slices if isinstance(partition, SlicesPartition) else ()


class BatchReader(Shipped, DataSourceReader):
    def __init__(self, options: SourceOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = tuple(columns)

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        if options.view in ("offsets", "groups"):
            return [SlicesPartition(())]
        asked = options.start or Position(word=EARLIEST)
        trouble = crossed_ends(asked, options.end)
        if trouble is not None:
            raise ConfigError(trouble)
        place = place_of(options)
        heads = place.heads(place.queues(), options.group)
        unknown = listed(queue for queue in options.queues if queue not in heads)
        _tell_names(names_trouble("assign", unknown, heads) if unknown else None, options)
        _tell_names(unknown_names("endingOffsets", options.end, heads), options)
        start = resolve_start(place, asked, heads, options)
        end_times = place.offsets_by_time(times_of(options.end, heads), is_end=True)
        end = end_offsets(options.end, heads, end_times)
        # An end by time, or where a queue ends now, may lie before the start: nothing is there.
        end = {queue: max(stop, start[queue]) for queue, stop in end.items()}
        slices = new_slices(start, end)
        sizes = RecordSizes(place, slices)
        planned = plan_partitions(slices, options.partition, sizes)
        keep_what_lasts()
        return [SlicesPartition(each) for each in planned]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from emberq.spark.reading import read_slices  # noqa: PLC0415 - planners decode nothing

        return read_slices(slices_of(partition), self._columns, self._options)


def resolve_start(
    place: Place, position: Position, heads: QueueHeads, options: SourceOptions
) -> Offsets:
    """Raises ConfigError, OffsetOutOfRange, DataLost."""
    _tell_names(unknown_names("startingOffsets", position, heads), options)
    by_time = place.offsets_by_time(times_of(position, heads))
    silent = [queue for queue, offset in by_time.items() if offset >= heads[queue].max_offset]
    if silent and options.is_missing_time_error:
        raise DataLost(
            f"startingOffsetsByTimestampStrategy=error: nothing is stored in {listed(silent)} "
            "since the time that is asked for; with latest it is read from its end"
        )
    start = start_offsets(position, heads, by_time)
    return {queue: _inside(queue, offset, heads[queue], options) for queue, offset in start.items()}


def _inside(queue: MessageQueue, offset: int, head: QueueHead, options: SourceOptions) -> int:
    """Where a queue is begun that was to be begun there. Raises DataLost."""
    name, low, high = listed([queue]), head.min_offset, head.max_offset
    if offset > high:  # of a group: of a topic before it was made anew, or reset by hand
        log.warning(
            "start_behind_end %s ends at %d, before %d where the group is: it is read from its end",
            name,
            high,
            offset,
        )
        return high
    if offset >= low:
        return offset
    text = f"messages {offset} to {low} of {name} are gone"
    if options.fails_on_loss:
        raise DataLost(f"{text}; failOnDataLoss=false goes on without them")
    log.warning("messages_gone %s", text)
    return low


def _tell_names(trouble: str | None, options: SourceOptions) -> None:
    if trouble is None:
        return
    if options.fails_on_loss:
        raise ConfigError(trouble)
    log.warning("names_unknown %s", trouble)
