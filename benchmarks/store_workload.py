"""What the benchmark of the store puts, reads and compares with."""

import asyncio
import mmap
import os
import time
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

from emberq.record.batch import BatchElement, encode_batch
from emberq.record.encode import encode_record
from emberq.record.host import pack_host
from emberq.store.config import FlushKind, StoreConfig
from emberq.store.message_store import MessageStore
from emberq.store.reader import ReadLimits
from emberq.store.results import PutResult, PutStatus

HOST = pack_host("127.0.0.1", 10911)
TOPIC, QUEUES, TAG = "bench-topic", 4, "TagA"
TURN = 64  # messages that one turn of the loop brings
BATCH = 32
SEGMENT_BYTES = 256 * 1024 * 1024
BARE_BYTES = 192 * 1024 * 1024


class Turns:
    """Stands for the event loop: runs what was scheduled when a turn ends."""

    def __init__(self) -> None:
        self._calls: list[Callable[[], None]] = []
        self.cpu_s = 0.0  # of what was scheduled

    def schedule(self, call: Callable[[], None]) -> None:
        self._calls.append(call)

    def end(self) -> None:
        calls, self._calls = self._calls, []
        began = time.thread_time()
        for call in calls:
            call()
        self.cpu_s += time.thread_time() - began


def config(root: Path, flush: str = FlushKind.ASYNC_FLUSH) -> StoreConfig:
    return StoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=SEGMENT_BYTES,
        flush_disk_type=flush,
    )


def new_store(root: Path, turns: Turns) -> MessageStore:
    return MessageStore(config(root), store_host=HOST, schedule=turns.schedule)


# Made once: the producer's work, not the store's


@cache
def unique_key(number: int) -> str:
    return f"7F0000010B2C18B4AAC2{number:012X}"


@cache
def properties(key: str) -> bytes:
    return f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02TAGS\x01{TAG}\x02".encode()


@cache
def batch(first: int, body: bytes) -> bytes:
    keys = [unique_key(number) for number in range(first, first + BATCH)]
    return encode_batch(BatchElement(body, properties(key)) for key in keys)


# Putting


def put(store: MessageStore, number: int, body: bytes) -> PutResult:
    key = unique_key(number)
    return store.put(
        TOPIC,
        number % QUEUES,
        body,
        properties(key),
        born_at_ms=1,
        born_host=HOST,
        tags=TAG,
        unique_key=key,
    )


def put_singles(store: MessageStore, turns: Turns, body: bytes, messages: int) -> None:
    for number in range(messages):
        put(store, number, body)
        if number % TURN == TURN - 1:
            turns.end()
    turns.end()


def put_batches(store: MessageStore, turns: Turns, body: bytes, messages: int) -> None:
    for first in range(0, messages, BATCH):
        store.put_encoded_batch(
            TOPIC, first // BATCH % QUEUES, batch(first, body), born_at_ms=1, born_host=HOST
        )
        turns.end()


async def put_synced(root: Path, writers: int, messages: int) -> tuple[float, float]:
    """Messages per second, and CPU-µs of the loop per message, when each writer puts its next
    message once the last is durable.

    Writers are calls, as a broker's held sends are: tasks would measure the loop.
    """
    loop = asyncio.get_running_loop()
    store = MessageStore(
        config(root, FlushKind.SYNC_FLUSH),
        store_host=HOST,
        schedule=loop.call_soon,
        schedule_from_thread=loop.call_soon_threadsafe,
        watcher=loop,
    )
    store.open()
    body = os.urandom(128)
    is_over: asyncio.Future[None] = loop.create_future()
    begun = ended = 0

    def write() -> None:
        nonlocal begun
        begun += 1
        store.when_durable(put(store, begun, body).end_offset, done)

    def done(status: PutStatus) -> None:
        nonlocal ended
        assert status is PutStatus.PUT_OK, status
        ended += 1
        if begun < messages:
            write()
        elif ended == messages:
            is_over.set_result(None)

    began, cpu_began = time.perf_counter(), time.thread_time()
    for _ in range(writers):
        write()
    await is_over
    rate = messages / (time.perf_counter() - began)
    cpu_us = (time.thread_time() - cpu_began) / messages * 1e6
    store.close()
    return rate, cpu_us


# Reading


def read_in_order(store: MessageStore, queue_id: int) -> int:
    limits = ReadLimits()
    offset = total = 0
    while True:
        result = store.read(TOPIC, queue_id, offset, limits)
        if result is None:
            result = store.read_waiting(TOPIC, queue_id, offset, limits)
        if not result.count:
            return total
        total += result.count
        offset = result.next_offset


def read_at_random(store: MessageStore, messages: int, times: int) -> int:
    random, limits, total = Random(1), ReadLimits(count_max=1), 0
    per_queue = messages // QUEUES
    for _ in range(times):
        place = random.randrange(QUEUES), random.randrange(per_queue)
        result = store.read(TOPIC, *place, limits)
        if result is None:
            result = store.read_waiting(TOPIC, *place, limits)
        total += result.count
    return total


# Bare loops


def bare_copy(scratch: Path, body: bytes, messages: int) -> float:
    """CPU-µs per message of a loop that sums the body and copies a record into a mapping."""
    record = encode_record(TOPIC, body, properties(unique_key(0)), born_host=HOST)
    path = scratch / "bare"
    size = len(record)
    with path.open("wb+") as file:
        os.posix_fallocate(file.fileno(), 0, BARE_BYTES)
        with mmap.mmap(file.fileno(), BARE_BYTES) as mapping:
            position = 0
            began = time.thread_time()
            for _ in range(messages):
                zlib.crc32(body)
                mapping[position : position + size] = record
                position += size
                if position + size > BARE_BYTES:
                    position = 0
            took = time.thread_time() - began
    path.unlink()
    return took / messages * 1e6


def bare_sum(store: MessageStore, record_size: int) -> float:
    """MB/s of a loop that sums the mapped log, record by record."""
    began = time.perf_counter()
    for start in range(0, store.log.end - record_size, record_size):
        view = store.log.view(start, record_size)
        assert view is not None
        zlib.crc32(view)
    return store.log.end / (time.perf_counter() - began) / 1e6


def bare_sync(scratch: Path, times: int) -> float:
    """µs of one write and sync of a small record into a file whose blocks are reserved."""
    path = scratch / "sync"
    content = os.urandom(300)
    with path.open("wb+") as file:
        os.posix_fallocate(file.fileno(), 0, 16 * 1024 * 1024)
        os.fsync(file.fileno())
        began = time.perf_counter()
        for number in range(times):
            os.pwrite(file.fileno(), content, number * len(content))
            os.fdatasync(file.fileno())
        took = time.perf_counter() - began
    path.unlink()
    return took / times * 1e6
