"""One step of `benchmarks.spark.growth`, a process of its own so that its memory is that step's.

`fill` writes a store directly, many times faster than any producer; `read` serves it by a broker
and reads it through Spark. The last line that a step prints is what it found.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from benchmarks.process_facts import cpu_time, memory
from benchmarks.spark.session import local_session
from benchmarks.spark.tree import keep_orphans, peak_mb, peaks
from benchmarks.spark.tree_times import grown_s, tree_times
from emberq import Producer
from emberq.record.batch import encode_batch_element
from emberq.record.host import pack_host
from emberq.record.properties import encode_properties
from emberq.spark.source import RocketmqSource
from emberq.store.config import StoreConfig
from emberq.store.message_store import MessageStore
from emberq.testing.local_broker import run_broker
from emberq.testing.local_nameserver import run_name_server

TOPIC = "growth"
BROKER = "broker-a"
HOST = pack_host("127.0.0.1", 10911)
# Without keys: the index would be filled for nothing, as no query here looks at it.
PROPERTIES = {"TAGS": "tag-1", "user": "u123", "region": "eu-central"}
NUMBER = b"%012d"
BODY = b'{"order":%b,"sku":"kettle, small","price":12.90}' % (NUMBER % 0)
ROWS_PER_BATCH = 500
# Small segments: a broker that starts looks at the last three of them.
SEGMENT_BYTES = 128 << 20
QUEUE_FILE_BYTES = 6_000_000
INDEX_SLOTS, INDEX_ENTRIES = 10_000, 40_000
# Java compiles what runs often: before that, a row costs several times as much.
WARM_UP_ROWS = 1_000_000
WARM_UP_SCANS = 5
PLANS = 5


class Filled(Struct, kw_only=True):
    seconds: float
    size_bytes: int


class Found(Struct, kw_only=True):
    """What reading cost. Memory is in MB, at its peak unless it says otherwise."""

    rows: int
    queues: int
    tasks: int
    plan_ms: float  # in the source, the connection being there
    plan_cpu_ms: float
    count_s: float  # of the topic, from offsets, through Spark
    scan_s: float
    scan_cpu_us: float  # per row, of the JVM and its workers
    broker_cpu_us: float  # per row
    driver_mb: float
    worker_mb: float
    broker_mb: float
    broker_anonymous_mb: float  # at the end: not the pages of the log that it maps


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=["fill", "read"])
    parser.add_argument("home", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--queues", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cores", type=int, default=1)
    given = parser.parse_args()
    if given.step == "fill":
        result: Struct = fill(given.home, given.rows, given.queues)
    else:
        keep_orphans()
        result = read(given.home, given.rows, given.queues, given.rounds, given.cores)
    print(msgspec.json.encode(result).decode(), flush=True)
    return 0


def fill(home: Path, rows: int, queues: int) -> Filled:
    """The same number of messages for each queue, in turns."""
    root = home / "broker" / "store"
    config = StoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=SEGMENT_BYTES,
        mapped_file_size_consume_queue=QUEUE_FILE_BYTES,
        max_hash_slot_num=INDEX_SLOTS,
        max_index_num=INDEX_ENTRIES,
    )
    store = MessageStore(config, store_host=HOST)
    store.open()
    began = time.perf_counter()
    element = encode_batch_element(BODY, encode_properties(PROPERTIES))
    before, _, behind = element.partition(NUMBER % 0)
    per_queue = rows // queues
    for first in range(0, per_queue, ROWS_PER_BATCH):
        stop = min(first + ROWS_PER_BATCH, per_queue)
        for queue_id in range(queues):
            numbers = range(queue_id * per_queue + first, queue_id * per_queue + stop)
            content = b"".join([before + NUMBER % number + behind for number in numbers])
            _put(store, queue_id, content)
    store.close()
    seconds = time.perf_counter() - began
    files = [path.stat().st_blocks * 512 for path in root.rglob("*") if path.is_file()]
    return Filled(seconds=seconds, size_bytes=sum(files))


def _put(store: MessageStore, queue_id: int, content: bytes) -> None:
    deadline = time.monotonic() + 60
    while True:
        result = store.put_encoded_batch(TOPIC, queue_id, content, born_host=HOST)
        if result.status.is_stored:
            return
        assert time.monotonic() < deadline, result
        time.sleep(0.01)  # the flusher must catch up


def read(home: Path, rows: int, queues: int, rounds: int, cores: int) -> Found:
    keys = {
        "brokerIP1": "127.0.0.1",
        "mappedFileSizeCommitLog": str(SEGMENT_BYTES),
        "mappedFileSizeConsumeQueue": str(QUEUE_FILE_BYTES),
        "maxHashSlotNum": str(INDEX_SLOTS),
        "maxIndexNum": str(INDEX_ENTRIES),
    }
    with run_name_server(home / "namesrv") as server:
        address = f"{server.host}:{server.port}"
        with run_broker(home / "broker", name_servers=address, config=keys) as broker:
            with Producer("growth", name_server=address) as producer:
                producer.create_topic(TOPIC, queues=queues)
            pid = broker.program.process.pid
            reading = _Reading(home, address, rows, queues, cores)
            without = {server.program.process.pid, pid}
            return reading.found(rounds, pid, without)


class _Reading:
    def __init__(self, home: Path, address: str, rows: int, queues: int, cores: int) -> None:
        self._options = {"nameServer": address, "subscribe": TOPIC}
        self._rows, self._queues = rows // queues * queues, queues
        self._spark = local_session(home, f"local[{cores}]")

    def found(self, rounds: int, broker: int, without: set[int]) -> Found:
        tasks, plan_ms, plan_cpu_ms = self._planned()
        for _ in range(WARM_UP_SCANS):
            _scan(self._source(endingOffsets=self._ends(WARM_UP_ROWS)))
        counts = self._source(view="offsets").selectExpr("sum(count)")
        count_s = min(_seconds(lambda: self._check(counts.first()[0])) for _ in range(2))
        scan_s = scan_cpu_s = broker_s = float("inf")
        for _ in range(rounds):
            at_broker, before = cpu_time(broker), tree_times(os.getpid(), without)
            wall = _seconds(lambda: _scan(self._source()))
            scan_cpu = grown_s(before, tree_times(os.getpid(), without))
            if scan_cpu < scan_cpu_s:
                broker_s = (cpu_time(broker) - at_broker).total_s
                scan_s, scan_cpu_s = wall, scan_cpu
        held = peaks(os.getpid(), without)
        status = Path(f"/proc/{broker}/status").read_text()
        self._spark.stop()
        return Found(
            rows=self._rows,
            queues=self._queues,
            tasks=tasks,
            plan_ms=plan_ms,
            plan_cpu_ms=plan_cpu_ms,
            count_s=count_s,
            scan_s=scan_s,
            scan_cpu_us=scan_cpu_s / self._rows * 1e6,
            broker_cpu_us=broker_s / self._rows * 1e6,
            driver_mb=held.driver_mb,
            worker_mb=held.worker_mb,
            broker_mb=peak_mb(status),
            broker_anonymous_mb=memory(broker).anonymous_mb,
        )

    def _source(self, **more: str) -> Any:
        return self._spark.read.format("rocketmq").options(**self._options, **more).load()

    def _planned(self) -> tuple[int, float, float]:
        """As Spark's planner does it; the quickest of a few."""
        source = RocketmqSource(self._options)
        tasks, wall_ms, cpu_ms = 0, [], []
        for _ in range(PLANS):
            began, cpu = time.perf_counter(), time.process_time()
            tasks = len(source.reader(source.schema()).partitions())
            wall_ms.append((time.perf_counter() - began) * 1000)
            cpu_ms.append((time.process_time() - cpu) * 1000)
        return tasks, min(wall_ms), min(cpu_ms)

    def _ends(self, rows_max: int) -> str:
        each = min(self._rows, rows_max) // self._queues
        ends = {str(queue_id): each for queue_id in range(self._queues)}
        return json.dumps({TOPIC: {BROKER: ends}})

    def _check(self, count: int) -> None:
        assert count == self._rows, f"{count} rows, filled with {self._rows}"


def _scan(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
