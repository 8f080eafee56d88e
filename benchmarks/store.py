"""`python -m benchmarks.store`: what the store costs, beside the least that its bytes could cost.

Every figure stands beside one of the same run: (a) a bare loop that copies the same bytes into a
mapping and sums them, (b) a bare loop of write and sync. CPU is that of the writing thread; the
flusher's is shown apart.
"""

import argparse
import asyncio
import mmap
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks import machine
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
LOG_BYTES_PER_ROW = 96 * 1024 * 1024
ROUNDS = 3

SINGLE_GOAL_US = 6.0
BATCH_GOAL_US = 3.0
LARGE_RATIO_MAX = 1.5
SYNC_SHARE_MIN = 0.8
SYNC_EXTRA_MAX_US = 100.0
RECOVERY_GOALS_MB = {128: 100.0, 1024: 300.0}


class Row(Struct, kw_only=True):
    """One measurement; `bare` is the same without a store."""

    name: str
    figure: float
    unit: str
    bare: float | None = None
    goal: str = ""
    is_met: bool | None = None


class Bench:
    """Measures into rows, in a scratch folder of its own."""

    def __init__(self, scratch: Path, scale: float) -> None:
        self._scratch = scratch
        self._scale = scale
        self.rows: list[Row] = []

    def run(self) -> None:
        for body_size in (128, 1024, 64 * 1024):
            self._append(body_size)
        self._append_batches(128)
        self._append_batches(1024)
        self._read(1024)
        for body_size in (128, 1024):
            self._recover(body_size)
        self._sync()

    # Appending

    def _append(self, body_size: int) -> None:
        body = os.urandom(body_size)
        messages = self._count(body_size)
        us = self._best(lambda store, turns: _put_singles(store, turns, body, messages), messages)
        bare = _bare_copy(self._scratch, body, messages)
        if body_size <= 1024:
            goal, is_met = f"≤ {SINGLE_GOAL_US:g} µs", us <= SINGLE_GOAL_US
        else:
            goal, is_met = f"≤ {LARGE_RATIO_MAX:g} × bare", us <= LARGE_RATIO_MAX * bare
        self._add(
            f"append {_size(body_size)}, dispatch and index", us, "CPU-µs", bare, goal, is_met
        )

    def _append_batches(self, body_size: int) -> None:
        body = os.urandom(body_size)
        messages = self._count(body_size) // BATCH * BATCH
        for first in range(0, messages, BATCH):
            _batch(first, body)
        us = self._best(lambda store, turns: _put_batches(store, turns, body, messages), messages)
        bare = _bare_copy(self._scratch, body, messages)
        is_met = us <= BATCH_GOAL_US if body_size == 128 else None
        goal = f"≤ {BATCH_GOAL_US:g} µs" if body_size == 128 else ""
        self._add(f"append {BATCH} × {_size(body_size)}", us, "CPU-µs", bare, goal, is_met)

    def _best(self, put: Callable[[MessageStore, "Turns"], None], messages: int) -> float:
        for number in range(messages):
            _properties(_unique_key(number))
        best = float("inf")
        for _ in range(ROUNDS):
            turns = Turns()
            with self._store(turns) as store:
                began = time.thread_time()
                put(store, turns)
                best = min(best, (time.thread_time() - began) / messages * 1e6)
        return best

    # Reading

    def _read(self, body_size: int) -> None:
        turns = Turns()
        with self._store(turns) as store:
            messages = self._count(body_size)
            _put_singles(store, turns, os.urandom(body_size), messages)
            began = time.thread_time()
            total = sum(_read_queue(store, queue_id) for queue_id in range(QUEUES))
            assert total == messages, (total, messages)
            us = (time.thread_time() - began) / messages * 1e6
        self._add(f"read {_size(body_size)}, 32 at a time", us, "CPU-µs")

    # Recovery

    def _recover(self, body_size: int) -> None:
        turns = Turns()
        messages = self._count(body_size)
        with self._store(turns, keeps=True) as store:
            _put_singles(store, turns, os.urandom(body_size), messages)
            size, root = store.log.end, store.config.root
        (root / "abort").touch()
        (root / "checkpoint").unlink()  # nothing is known to be good: everything is read again
        store = _new_store(root, Turns())
        began = time.perf_counter()
        recovered = store.open()
        took = time.perf_counter() - began
        assert recovered.records_scanned == messages
        store.close()
        shutil.rmtree(root)
        goal = RECOVERY_GOALS_MB[body_size]
        speed = size / took / 1e6
        self._add(
            f"recovery, {_size(body_size)}", speed, "MB/s", None, f"≥ {goal:g}", speed >= goal
        )

    # Durability

    def _sync(self) -> None:
        bare_us = _bare_sync(self._scratch, int(300 * self._scale) + 20)
        one = self._synced(writers=1, messages=int(400 * self._scale) + 20)
        extra = 1e6 / one - bare_us
        self._add(
            "SYNC_FLUSH, 1 writer, beyond the sync",
            extra,
            "µs",
            bare_us,
            f"≤ {SYNC_EXTRA_MAX_US:g}",
            extra <= SYNC_EXTRA_MAX_US,
        )
        many = self._synced(writers=64, messages=int(20_000 * self._scale) + 640)
        ceiling = min(64 * 1e6 / bare_us, self._async_rate())
        self._add(
            "SYNC_FLUSH, 64 writers",
            many,
            "messages/s",
            ceiling,
            f"≥ {SYNC_SHARE_MIN:.0%} of the ceiling",
            many >= SYNC_SHARE_MIN * ceiling,
        )

    def _synced(self, writers: int, messages: int) -> float:
        """Messages per second when each writer sends its next after the last is durable."""

        async def drive() -> float:
            loop = asyncio.get_running_loop()
            root = Path(tempfile.mkdtemp(dir=self._scratch))
            store = MessageStore(
                _config(root, FlushKind.SYNC_FLUSH),
                store_host=HOST,
                schedule=loop.call_soon,
                schedule_from_thread=loop.call_soon_threadsafe,
            )
            store.open()
            numbers = count()
            body = os.urandom(128)

            async def write() -> None:
                while (number := next(numbers)) < messages:
                    done: asyncio.Future[PutStatus] = loop.create_future()
                    result = _put(store, number, body)
                    store.when_durable(result.end_offset, done.set_result)
                    assert await done is PutStatus.PUT_OK

            began = time.perf_counter()
            await asyncio.gather(*(write() for _ in range(writers)))
            rate = messages / (time.perf_counter() - began)
            store.close()
            shutil.rmtree(root)
            return rate

        return asyncio.run(drive())

    def _async_rate(self) -> float:
        turns = Turns()
        messages = self._count(128)
        with self._store(turns) as store:
            began = time.perf_counter()
            _put_singles(store, turns, os.urandom(128), messages)
            return messages / (time.perf_counter() - began)

    # Scratch

    def _count(self, body_size: int) -> int:
        return max(TURN * 8, int(LOG_BYTES_PER_ROW * self._scale) // (body_size + 200))

    @contextmanager
    def _store(self, turns: "Turns", *, keeps: bool = False) -> Iterator[MessageStore]:
        root = Path(tempfile.mkdtemp(dir=self._scratch))
        store = _new_store(root, turns)
        store.open()
        try:
            yield store
        finally:
            store.close()
            if not keeps:
                shutil.rmtree(root)

    def _add(
        self,
        name: str,
        figure: float,
        unit: str,
        bare: float | None = None,
        goal: str = "",
        is_met: bool | None = None,
    ) -> None:
        row = Row(name=name, figure=figure, unit=unit, bare=bare, goal=goal, is_met=is_met)
        self.rows.append(row)
        print(_line(row), flush=True)


class Turns:
    """Stands for the event loop: runs what was scheduled when a turn ends."""

    def __init__(self) -> None:
        self._calls: list[Callable[[], None]] = []

    def schedule(self, call: Callable[[], None]) -> None:
        self._calls.append(call)

    def end(self) -> None:
        calls, self._calls = self._calls, []
        for call in calls:
            call()


def _config(root: Path, flush: str = FlushKind.ASYNC_FLUSH) -> StoreConfig:
    return StoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=SEGMENT_BYTES,
        flush_disk_type=flush,
    )


def _new_store(root: Path, turns: Turns) -> MessageStore:
    return MessageStore(_config(root), store_host=HOST, schedule=turns.schedule)


@cache  # the producer makes it, not the store
def _unique_key(number: int) -> str:
    return f"7F0000010B2C18B4AAC2{number:012X}"


@cache
def _properties(unique_key: str) -> bytes:
    return f"UNIQ_KEY\x01{unique_key}\x02WAIT\x01true\x02TAGS\x01{TAG}\x02".encode()


def _put(store: MessageStore, number: int, body: bytes) -> PutResult:
    key = _unique_key(number)
    return store.put(
        TOPIC,
        number % QUEUES,
        body,
        _properties(key),
        born_at_ms=1,
        born_host=HOST,
        tags=TAG,
        unique_key=key,
    )


def _put_singles(store: MessageStore, turns: Turns, body: bytes, messages: int) -> None:
    for number in range(messages):
        _put(store, number, body)
        if number % TURN == TURN - 1:
            turns.end()
    turns.end()


@cache  # the producer makes it, not the store
def _batch(first: int, body: bytes) -> bytes:
    keys = [_unique_key(number) for number in range(first, first + BATCH)]
    return encode_batch(BatchElement(body, _properties(key)) for key in keys)


def _put_batches(store: MessageStore, turns: Turns, body: bytes, messages: int) -> None:
    for first in range(0, messages, BATCH):
        store.put_encoded_batch(
            TOPIC, first // BATCH % QUEUES, _batch(first, body), born_at_ms=1, born_host=HOST
        )
        turns.end()


def _read_queue(store: MessageStore, queue_id: int) -> int:
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


def _bare_copy(scratch: Path, body: bytes, messages: int) -> float:
    """CPU-µs per message of a loop that sums the body and copies a record into a mapping."""
    record = encode_record(TOPIC, body, _properties(_unique_key(0)), born_host=HOST)
    path = scratch / "bare"
    size = len(record)
    capacity = LOG_BYTES_PER_ROW * 2
    best = float("inf")
    for _ in range(ROUNDS):
        with path.open("wb+") as file:
            os.posix_fallocate(file.fileno(), 0, capacity)
            with mmap.mmap(file.fileno(), capacity) as mapping:
                position = 0
                began = time.thread_time()
                for _ in range(messages):
                    zlib.crc32(body)
                    mapping[position : position + size] = record
                    position += size
                    if position + size > capacity:
                        position = 0
                best = min(best, (time.thread_time() - began) / messages * 1e6)
        path.unlink()
    return best


def _bare_sync(scratch: Path, times: int) -> float:
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


def _size(size_bytes: int) -> str:
    return f"{size_bytes} B" if size_bytes < 1024 else f"{size_bytes // 1024} KiB"


def _line(row: Row) -> str:
    bare = "" if row.bare is None else f"{row.bare:>12,.1f}"
    verdict = {True: "met", False: "MISSED", None: ""}[row.is_met]
    return f"{row.name:<40}{row.figure:>12,.1f} {row.unit:<11}{bare:>12}  {row.goal:<24}{verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages")
    parser.add_argument("--scratch", type=Path, help="folder on the disk to measure")
    parser.add_argument("--output", type=Path, help="store the figures here as JSON")
    arguments = parser.parse_args()
    print(f"{'store':<40}{'figure':>12} {'':<11}{'bare':>12}  goal")
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as scratch:
        bench = Bench(Path(scratch), 0.1 if arguments.quick else 1.0)
        bench.run()
    if arguments.output is not None:
        figures = {"facts": machine.gather(java=None), "rows": bench.rows}
        text = msgspec.json.format(msgspec.json.encode(figures), indent=2)
        arguments.output.write_bytes(text + b"\n")


if __name__ == "__main__":
    main()
