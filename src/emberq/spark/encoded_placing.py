"""Encoded rows by queue, and what of them fits into one request. Pure."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from emberq.model.queue import MessageQueue
from emberq.spark.encoded_rows import EncodedRows, offsets_of
from emberq.spark.outgoing_rows import FREE_ROWS_TOGETHER, numbered


def placed_rows(
    rows: EncodedRows, queues: Sequence[MessageQueue], first_queue: int
) -> dict[MessageQueue, Any]:
    """Elements by queue, in their order: what `placed` does with messages.

    Raises:
        MessageRefused: a row names a queue that its topic does not have.
    """
    places = _places(rows, queues, first_queue)
    by_queue = {}
    for place in np.unique(places).tolist():
        own = np.flatnonzero(places == place)
        first, count = int(own[0]), len(own)
        if own[-1] - first + 1 == count:
            elements = rows.elements.slice(first, count)
        else:
            elements = rows.elements.take(pa.array(own))
        by_queue[queues[place]] = elements
    return by_queue


def _places(rows: EncodedRows, queues: Sequence[MessageQueue], first_queue: int) -> Any:
    count = len(queues)
    places = np.full(len(rows), -1)
    if rows.queue_ids is not None and rows.queue_ids.null_count < len(rows):
        for queue_id in rows.queue_ids.drop_null().unique().to_pylist():
            is_own = rows.queue_ids.is_valid().to_numpy(zero_copy_only=False)
            is_own &= rows.queue_ids.fill_null(queue_id).to_numpy() == queue_id
            queue = numbered(queues, queue_id, rows.topic, int(rows.rows[is_own.argmax()]))
            places[is_own] = queues.index(queue)
    if rows.ordering_hashes is not None:
        is_ordered = (places < 0) & rows.has_ordering
        places[is_ordered] = np.abs(rows.ordering_hashes[is_ordered]) % count
    free = np.flatnonzero(places < 0)
    if rows.id_hashes is not None:
        places[free] = np.abs(rows.id_hashes[free]) % count
    else:
        places[free] = (first_queue + np.arange(len(free)) // FREE_ROWS_TOGETHER) % count
    return places


def bodies_of(elements: Any, size_max: int, count_max: int = sys.maxsize) -> Iterator[bytes]:
    """Bodies of as many requests as elements need; none alone is larger than `size_max`."""
    offsets = offsets_of(elements)
    content = elements.buffers()[2]
    at, end = 0, len(elements)
    while at < end:
        fits = int(np.searchsorted(offsets, int(offsets[at]) + size_max, "right")) - 1
        behind = min(fits, at + count_max, end)
        first = int(offsets[at])
        yield content.slice(first, int(offsets[behind]) - first).to_pybytes()
        at = behind
