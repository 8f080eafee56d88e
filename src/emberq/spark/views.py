"""Views that are not messages: entries of queues, their ends, and where groups stand."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from emberq.client.core.scanned import QueueHead
from emberq.errors import ConfigError
from emberq.model.queue import MessageQueue
from emberq.record.decode import iter_records
from emberq.spark import columns as names
from emberq.spark.broker_place import BrokerPlace
from emberq.spark.columns import Column
from emberq.spark.decode.shape import ARROW_TYPES, arrow_schema
from emberq.spark.options import SourceOptions
from emberq.spark.places import Place, place_of
from emberq.spark.planning import Partition, QueueSlice
from emberq.spark.queue_entries import entries_in
from emberq.spark.rows import gathered

_ENTRY_COLUMNS = {"commitLogOffset": "at", "size": "size", "tagsHash": "tag"}


def index_batches(
    partition: Partition, columns: Sequence[Column], options: SourceOptions
) -> Iterator[Any]:
    return gathered(_index_batches(partition, columns, options), options.decode)


def _index_batches(
    partition: Partition, columns: Sequence[Column], options: SourceOptions
) -> Iterator[Any]:
    place = place_of(options)
    for each in partition:
        for first, content in place.entries(each):
            batch = _index_batch(each, first, content, columns)
            for start in range(0, batch.num_rows, options.decode.batch_rows):
                yield batch.slice(start, options.decode.batch_rows)


def queue_rows(columns: Sequence[Column], options: SourceOptions) -> Iterator[Any]:
    """One row per queue (`offsets`), or per group and queue (`groups`)."""
    place = place_of(options)
    wanted = {column.name for column in columns}
    rows = _offset_rows(place, wanted) if options.view == "offsets" else _group_rows(place, options)
    arrays = [
        pa.array([row[column.name] for row in rows], ARROW_TYPES[column.type]) for column in columns
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def _index_batch(each: QueueSlice, first: int, content: bytes, columns: Sequence[Column]) -> Any:
    entries = entries_in(content)
    queue, count = each.queue, len(entries)
    made: dict[str, Any] = {
        "topic": lambda: pa.repeat(pa.scalar(queue.topic, pa.string()), count),
        "brokerName": lambda: pa.repeat(pa.scalar(queue.broker_name, pa.string()), count),
        "queueId": lambda: pa.repeat(pa.scalar(queue.queue_id, pa.int32()), count),
        "queueOffset": lambda: pa.array(np.arange(first, first + count)),
    }
    arrays = [
        made[column.name]()
        if column.name in made
        else pa.array(
            entries[_ENTRY_COLUMNS[column.name]].astype(
                "=i4" if column.type == names.INT else "=i8"
            )
        )
        for column in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def _offset_rows(place: Place, wanted: Collection[str]) -> list[dict[str, Any]]:
    heads = place.heads(place.queues())
    times = place.earliest_times_ms(list(heads)) if "earliestTimestamp" in wanted else {}
    return [
        {
            "topic": queue.topic,
            "brokerName": queue.broker_name,
            "queueId": queue.queue_id,
            "minOffset": head.min_offset,
            "maxOffset": head.max_offset,
            "count": head.max_offset - head.min_offset,
            "earliestTimestamp": _time_us(times.get(queue)),
            "latestTimestamp": _time_us(_latest_time_ms(place, queue, head))
            if "latestTimestamp" in wanted
            else None,
            "bytes": _size_bytes(place, queue, head) if "bytes" in wanted else None,
        }
        for queue, head in sorted(heads.items())
    ]


def _latest_time_ms(place: Place, queue: MessageQueue, head: QueueHead) -> int | None:
    """When the last message was stored; None: the queue is empty."""
    last = head.max_offset - 1
    if last < head.min_offset:
        return None
    times = [
        record.stored_at_ms
        for content in place.contents(QueueSlice(queue, last, last + 1))
        for record in iter_records(content, is_crc_checked=False)
        if record.queue_offset >= last
    ]
    return times[0] if times else None


def _size_bytes(place: Place, queue: MessageQueue, head: QueueHead) -> int:
    slices = QueueSlice(queue, head.min_offset, head.max_offset)
    return sum(
        int(entries_in(content)["size"].sum(dtype=np.int64)) for _, content in place.entries(slices)
    )


def _group_rows(place: Place, options: SourceOptions) -> list[dict[str, Any]]:
    if not isinstance(place, BrokerPlace):
        raise ConfigError("the view groups needs a broker: a store directory has none")
    groups = place.groups() if options.group is None else [options.group]
    queues = place.queues()
    return [
        {
            "consumerGroup": group,
            "topic": queue.topic,
            "brokerName": queue.broker_name,
            "queueId": queue.queue_id,
            "committedOffset": head.committed,
            "maxOffset": head.max_offset,
            "lag": None if head.committed is None else head.max_offset - head.committed,
            "pinnedStart": head.start,
        }
        for group in groups
        for queue, head in sorted(place.heads(queues, group).items())
    ]


def _time_us(time_ms: int | None) -> int | None:
    return None if time_ms is None else time_ms * 1000
