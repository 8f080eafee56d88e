"""Small stores for tests: segments of a few pages, queues of a few entries per file."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from emberq.record.decode import iter_records
from emberq.record.host import pack_host
from emberq.record.layout import BytesLike
from emberq.record.properties import encode_properties
from emberq.record.record import Record
from emberq.store.config import FlushKind, StoreConfig
from emberq.store.disk import Disk
from emberq.store.message_store import MessageStore, NewMessage
from emberq.store.reader import ReadLimits
from emberq.store.results import PutResult, PutStatus, ReadResult, ReadStatus

HOST = pack_host("10.1.2.3", 10911)
HOST_IPV6 = pack_host("fe80::1234", 10911)
SEGMENT_SIZE = 16 * 1024
ENTRIES_PER_FILE = 50
START_MS = 1_700_000_000_000
TOPIC = "Orders"


class Clock:
    """Milliseconds that pass only when told to."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def store_config(root: Path, **changes: Any) -> StoreConfig:
    settings: dict[str, Any] = {
        "store_path_root_dir": str(root),
        "mapped_file_size_commit_log": SEGMENT_SIZE,
        "mapped_file_size_consume_queue": ENTRIES_PER_FILE * 20,
        "max_hash_slot_num": 64,
        "max_index_num": 4_000,
    }
    return StoreConfig(**(settings | changes))


def new_store(
    root: Path, disk: Disk | None = None, clock: Callable[[], int] | None = None, **changes: Any
) -> MessageStore:
    """Dispatches at once, waiters are served by `poll`."""
    return MessageStore(
        store_config(root, **changes), store_host=HOST, disk=disk, now_ms=clock or Clock()
    )


@contextmanager
def opened(
    root: Path, disk: Disk | None = None, clock: Callable[[], int] | None = None, **changes: Any
) -> Iterator[MessageStore]:
    """A store that is closed cleanly in the end."""
    store = new_store(root, disk, clock, **changes)
    store.open()
    try:
        yield store
    finally:
        store.close()


@contextmanager
def crashing(root: Path, disk: Disk | None = None, **changes: Any) -> Iterator[MessageStore]:
    """A store that ends as if its process had been killed: nothing more is written."""
    store = new_store(root, disk, **changes)
    store.open()
    try:
        yield store
    finally:
        crash(store)


def crash(store: MessageStore) -> None:
    """Let go of the directory without writing anything, as the death of the process would."""
    store._cleaner.stop()
    flusher = store.durability._flusher
    assert flusher is not None
    with flusher._woken:
        flusher._is_stopped = True
        flusher._woken.notify()
    flusher._thread.join()
    store.durability._flusher = None
    store._release()


def loop_store(root: Path, disk: Disk | None = None, **changes: Any) -> MessageStore:
    """As a broker uses it: dispatch at the end of the turn, waiters served by the loop."""
    loop = asyncio.get_running_loop()
    return MessageStore(
        store_config(root, **changes),
        store_host=HOST,
        disk=disk,
        schedule=loop.call_soon,
        schedule_from_thread=loop.call_soon_threadsafe,
        watcher=loop,
    )


SYNC: dict[str, Any] = {"flush_disk_type": FlushKind.SYNC_FLUSH}


def put(
    store: MessageStore,
    body: BytesLike = b"hello",
    *,
    topic: str = TOPIC,
    queue_id: int = 0,
    tags: str | None = None,
    keys: str | None = None,
    **more: Any,
) -> PutResult:
    """Put a message whose properties are what the arguments say."""
    properties = encode_properties({"TAGS": tags, "KEYS": keys})
    more.setdefault("born_host", HOST)
    return store.put(topic, queue_id, body, properties, tags=tags, keys=keys, **more)


def put_many(store: MessageStore, count: int, **more: Any) -> list[bytes]:
    """Put numbered messages; returns their bodies."""
    bodies = [b"message %d" % number for number in range(count)]
    for body in bodies:
        assert put(store, body, **more).status is PutStatus.PUT_OK
    return bodies


def put_batch(store: MessageStore, bodies: list[bytes], **more: Any) -> PutResult:
    messages = [NewMessage(body=body) for body in bodies]
    return store.put_batch(TOPIC, 0, messages, born_host=HOST, **more)


def durable(store: MessageStore, offset: int) -> list[PutStatus]:
    """Where the outcome of waiting for durability will stand."""
    outcome: list[PutStatus] = []
    store.when_durable(offset, outcome.append)
    return outcome


def read(store: MessageStore, offset: int = 0, **more: Any) -> ReadResult:
    """Read once, waiting for the disk if need be."""
    topic, queue_id = more.pop("topic", TOPIC), more.pop("queue_id", 0)
    accepts = more.pop("accepts", None)
    limits = ReadLimits(**more)
    found = store.read(topic, queue_id, offset, limits, accepts)
    if found is None:
        found = store.read_waiting(topic, queue_id, offset, limits, accepts)
    return found


def records_of(result: ReadResult) -> list[Record]:
    return [record for part in result.parts for record in iter_records(memoryview(part))]


def read_all(store: MessageStore, topic: str = TOPIC, queue_id: int = 0) -> list[Record]:
    """Every message of a queue, as a consumer from the beginning gets them."""
    records: list[Record] = []
    queue = store.queues.get(topic, queue_id)
    offset = 0 if queue is None else queue.min_offset
    while True:
        result = read(store, offset, topic=topic, queue_id=queue_id)
        if result.status in _ENDS:
            return records
        assert result.next_offset > offset, result
        records += records_of(result)
        offset = result.next_offset


_ENDS = (
    ReadStatus.NO_MATCHED_LOGIC_QUEUE,
    ReadStatus.NO_MESSAGE_IN_QUEUE,
    ReadStatus.OFFSET_OVERFLOW_ONE,
)


def bodies_of(store: MessageStore, topic: str = TOPIC, queue_id: int = 0) -> list[bytes]:
    return [bytes(record.body) for record in read_all(store, topic, queue_id)]


def segment_path(root: Path, number: int = 0, size: int = SEGMENT_SIZE) -> Path:
    return root / "commitlog" / f"{number * size:020d}"


def queue_path(root: Path, topic: str = TOPIC, queue_id: int = 0, number: int = 0) -> Path:
    return root / "consumequeue" / topic / str(queue_id) / f"{number * ENTRIES_PER_FILE * 20:020d}"
