"""What EmberQ finds in a store directory: by queue, by key, by id, by time, and in the bytes."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from emberq.record.decode import decode_record, iter_records
from emberq.record.host import pack_host
from emberq.record.message_id import parse_offset_id
from emberq.record.properties import decode_properties
from emberq.record.record import Record
from emberq.record.system_flag import TransactionType, transaction_type
from emberq.store.checkpoint import Checkpoint, read_checkpoint
from emberq.store.consume_queue import ENTRY
from emberq.store.disk import RealDisk
from emberq.store.log_scan import LogScan
from emberq.store.lookup import Boundary, Lookup
from emberq.store.message_store import MessageStore
from emberq.store.reader import ReadLimits
from tests.interop.store_messages import SeenMessage, by_queue, seen_in
from tests.interop.store_sizes import QUEUE_COUNT, TOPIC, store_config

FOREVER_MS = 1 << 60
FOUND_MAX = 1_000


@contextmanager
def opened(root: Path, port: int) -> Iterator[MessageStore]:
    store = MessageStore(store_config(root), store_host=pack_host("127.0.0.1", port))
    store.open()
    try:
        yield store
    finally:
        store.close()


def messages_of(store: MessageStore) -> list[SeenMessage]:
    """All messages of the topic, queue by queue in order."""
    found: list[SeenMessage] = []
    for queue_id in range(QUEUE_COUNT):
        found += [seen_in(record) for record in records_of(store, TOPIC, queue_id)]
    return found


def records_of(store: MessageStore, topic: str, queue_id: int) -> Iterator[Record]:
    queue = store.queues.get(topic, queue_id)
    offset = 0 if queue is None else queue.min_offset
    while queue is not None and offset < queue.end_offset:
        result = store.read_waiting(topic, queue_id, offset, ReadLimits())
        assert result.next_offset > offset, result
        for part in result.parts:
            yield from iter_records(bytes(part))
        offset = result.next_offset


def check_begins_with(now: Iterable[SeenMessage], known: Iterable[SeenMessage]) -> None:
    """Queue by queue: nothing known is lost or moved; what is new follows."""
    queues = by_queue(now)
    for queue_id, messages in by_queue(known).items():
        assert queues[queue_id][: len(messages)] == messages


def check_found_every_way(store: MessageStore, messages: Iterable[SeenMessage]) -> None:
    """Each message is found by key, unique key, offset id and time."""
    assert store.index is not None
    lookup = Lookup(store.log, lambda offset, size: _read_log(store, offset, size))
    for message in messages:
        for key in (*message.key_words, message.message_id):
            if key != message.offset_id:  # no unique key
                found = store.index.find(TOPIC, key, FOUND_MAX, 0, FOREVER_MS)
                assert message.log_offset in found, (key, message)
        _, log_offset = parse_offset_id(message.offset_id)
        stored = lookup.record_at(log_offset)
        assert stored is not None
        assert seen_in(decode_record(stored)) == message
    for queue_id, queue_messages in by_queue(messages).items():
        queue = store.queues.get(TOPIC, queue_id)
        assert queue is not None
        for message in queue_messages:
            first = lookup.offset_by_time(queue, message.stored_at_ms)
            last = lookup.offset_by_time(queue, message.stored_at_ms, Boundary.UPPER)
            assert first <= message.queue_offset <= last


def check_queues_and_index_hold_the_log(store: MessageStore) -> int:
    """Every record, of system topics too, has its entry and its keys; returns their number."""
    assert store.index is not None
    count = 0
    for scanned in LogScan(store.log, store.log.min_offset):
        count += 1
        stored = _read_log(store, scanned.log_offset, scanned.size)
        record = decode_record(stored)
        kind = transaction_type(record.system_flag)
        if kind in (TransactionType.NONE, TransactionType.COMMIT):
            queue = store.queues.get(record.topic, record.queue_id)
            assert queue is not None, record
            entry = ENTRY.unpack(queue.entries_from_disk(record.queue_offset, 1))
            assert entry[:2] == (record.log_offset, scanned.size), (entry, record)
        properties = decode_properties(record.properties)
        keys = [word for word in properties.get("KEYS", "").split(" ") if word]
        keys += [properties["UNIQ_KEY"]] if "UNIQ_KEY" in properties else []
        for key in keys:
            found = store.index.find(record.topic, key, FOUND_MAX, 0, FOREVER_MS)
            assert record.log_offset in found, (key, record)
    return count


def _read_log(store: MessageStore, offset: int, size: int) -> bytes:
    parts = store.reader.record_bytes(offset, size, may_wait=True)
    return b"".join(parts or ())


def stored_checkpoint(root: Path) -> Checkpoint:
    return read_checkpoint(RealDisk(), root / "checkpoint")


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
