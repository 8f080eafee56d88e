"""Records of the log that follow what their queues hold already, taken many at a time.

Nearly all records that recovery meets are such: they need no judgement, and no object each.
"""

from struct import Struct as Layout
from typing import Protocol, TypeVar
from zlib import crc32

from emberq.kernel.key_collector import KeyCollector
from emberq.record.layout import MAGIC_V1
from emberq.record.system_flag import HOSTS_IPV6_MASK, TRANSACTION_MASK

# Size, magic, CRC, queue id, (flag), queue offset, log offset, system flag, (born time and host),
# store time, (store host, reconsume times, prepared offset), body length.
_HEAD = Layout(">iIIi4xqqi16xq20xi")
_SHORT = Layout(">H")
_QUEUE_ENTRY = Layout(">qiq")
_CRC_MASK = 0x7FFFFFFF
_RARE_FLAGS = HOSTS_IPV6_MASK | TRANSACTION_MASK


class FollowedQueue(Protocol):
    """A queue, as far as it says which record it needs next."""

    topic: str
    end_offset: int
    log_end_offset: int


Queue = TypeVar("Queue", bound=FollowedQueue)

# Position behind the records, their number, how many of them are not in the index, store time of
# the last; and queue, offset of the first entry, entries and end in the log for queues that grow.
CollectedRecords = tuple[int, int, int, int, list[tuple[Queue, int, bytes, int]]]


class _Run:
    """Entries of one queue."""

    __slots__ = ("entries", "first", "log_end", "next", "queue")

    def __init__(self, queue: FollowedQueue) -> None:
        self.queue = queue
        self.first = self.next = queue.end_offset
        self.log_end = queue.log_end_offset
        self.entries = bytearray()


def collect_records(
    view: memoryview,
    position: int,
    base: int,
    room: int,
    is_crc_checked: bool,
    count_max: int,
    known: dict[tuple[bytes, int], Queue],
    keys: KeyCollector,
    indexed_until: int,
    unusual_topic: bytes,
) -> CollectedRecords[Queue]:
    """Take records from a position of a segment on, up to the first that is not plain, damaged,
    of another queue than the known ones, or not the next of its queue.

    `keys` gets those of records from log offset `indexed_until` on. Records of `unusual_topic`
    are not taken.
    """
    runs: dict[tuple[bytes, int], _Run] = {}
    unpack_head, head_size = _HEAD.unpack_from, _HEAD.size
    last_head = room - head_size
    count = unindexed = last_stored_at_ms = 0
    unused = KeyCollector()
    while position <= last_head and count < count_max:
        (
            size,
            magic,
            crc,
            queue_id,
            queue_offset,
            log_offset,
            system_flag,
            stored_at_ms,
            body_size,
        ) = unpack_head(view, position)
        end = position + size
        body_at = position + head_size
        body_end = body_at + body_size
        if (
            log_offset != base + position
            or end > room
            or magic != MAGIC_V1
            or system_flag & _RARE_FLAGS
            or body_size < 0
            or body_end + 3 > end
        ):
            break
        topic_end = body_end + 1 + view[body_end]
        if topic_end + 2 > end or topic_end + 2 + _SHORT.unpack_from(view, topic_end)[0] != end:
            break
        key = (bytes(view[body_end + 1 : topic_end]), queue_id)
        run = runs.get(key) or _begun(runs, known, key, unusual_topic)
        is_new = run is not None and log_offset >= run.log_end
        if run is None or (is_new and queue_offset != run.next):
            break
        if is_crc_checked and body_size and crc32(view[body_at:body_end]) & _CRC_MASK != crc:
            break
        is_unindexed = log_offset >= indexed_until
        if is_new or is_unindexed:
            collector = keys if is_unindexed else unused
            code = collector.note(
                run.queue.topic, view, topic_end + 2, end, log_offset, stored_at_ms
            )
            if is_new:
                run.entries += _QUEUE_ENTRY.pack(log_offset, size, code)
                run.next += 1
                run.log_end = log_offset + size
        unindexed += is_unindexed
        last_stored_at_ms = stored_at_ms
        count += 1
        position = end
    grown = [
        (known[key], run.first, bytes(run.entries), run.log_end)
        for key, run in runs.items()
        if run.entries
    ]
    return position, count, unindexed, last_stored_at_ms, grown


def _begun(
    runs: dict[tuple[bytes, int], _Run],
    known: dict[tuple[bytes, int], Queue],
    key: tuple[bytes, int],
    unusual_topic: bytes,
) -> _Run | None:
    queue = known.get(key)
    if queue is None or key[0] == unusual_topic:
        return None
    runs[key] = run = _Run(queue)
    return run
