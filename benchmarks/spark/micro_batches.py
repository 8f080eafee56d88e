"""What a micro-batch costs beside its rows; a process of its own, on all cores.

The last line that it prints is what it found.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import msgspec
from pyspark.sql.streaming.datasource import ReadAllAvailable

import emberq.spark
from benchmarks.spark.filling import fill
from benchmarks.spark.goal_figures import MicroBatches
from benchmarks.spark.session import local_session
from emberq import Message, MessageQueue, Producer
from emberq.client.aio.scans import Scans
from emberq.spark.broker_place import BrokerPlace
from emberq.spark.options import parse_source
from emberq.spark.source import RocketmqSource

TOPIC = "micro-batches"
QUEUES = 2
ROWS_PER_BATCH = 400
BATCHES, WARM_UP_BATCHES = 40, 10
BATCHES_MAX_S = 120.0
ASYNC = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "1000",
}
# How often Spark asks a source that has nothing.
IDLE_ASKED_EVERY_S = 0.011
IDLE_S = 10.0
GROUP, COMMITS = "micro-batches-group", 10
VISIBLE_POLL_S = 0.005


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.micro_batches")
    parser.add_argument("address", help="of a name server whose brokers are there")
    address = parser.parse_args().address
    fill(address, TOPIC, ROWS_PER_BATCH * (BATCHES + 1), size=200, queues=QUEUES)
    with tempfile.TemporaryDirectory(prefix="emberq-bench-") as folder:
        home = Path(folder)
        spark = local_session(home, "local[2]")
        rate = spark.readStream.format("rate-micro-batch").options(
            rowsPerBatch=str(ROWS_PER_BATCH), numPartitions=str(QUEUES)
        )
        found = MicroBatches(
            rate_ms=_batch_ms(rate.load(), home / "rate"),
            source_ms=_batch_ms(_source(spark, address), home / "source"),
            async_ms=_batch_ms(_source(spark, address), home / "async", **ASYNC),
            idle_requests_per_s=_idle_requests(address),
            offset_visible_s=_offset_visible_s(spark, address, home / "visible"),
        )
        spark.stop()
    print(msgspec.json.encode(found).decode(), flush=True)
    return 0


def _source(spark: Any, address: str) -> Any:
    options = {
        "nameServer": address,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(ROWS_PER_BATCH),
    }
    return spark.readStream.format("rocketmq").options(**options).load(TOPIC)


def _batch_ms(frame: Any, checkpoint: Path, **options: str) -> float:
    """The median of batches one behind the other."""
    writer = frame.writeStream.format("noop").options(**options)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    _wait(query, lambda: (last := query.lastProgress) and last["batchId"] >= BATCHES - 1)
    times: list[float] = [
        progress["durationMs"]["triggerExecution"]
        for progress in query.recentProgress
        if WARM_UP_BATCHES <= progress["batchId"] < BATCHES
    ]
    frame.sparkSession.sparkContext.setLogLevel("OFF")  # it may be at a batch, and told so
    query.stop()
    frame.sparkSession.sparkContext.setLogLevel("ERROR")
    return median(times)


def _idle_requests(address: str) -> float:
    """Each second, to one broker, by the process that a stream has of its own."""
    source = RocketmqSource({"nameServer": address, "subscribe": TOPIC})
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    with _times_of_heads() as times:
        deadline = time.monotonic() + IDLE_S
        while time.monotonic() < deadline:
            reader.latestOffset(start, ReadAllAvailable())
            time.sleep(IDLE_ASKED_EVERY_S)
    return (len(times) - 1) / (times[-1] - times[0])


@contextmanager
def _times_of_heads() -> Iterator[list[float]]:
    asked, times = Scans.heads, list[float]()

    async def heads(self: Scans, *arguments: Any, **how: Any) -> Any:
        times.append(time.monotonic())
        return await asked(self, *arguments, **how)

    with patch.object(Scans, "heads", heads):
        yield times


def _offset_visible_s(spark: Any, address: str, checkpoint: Path) -> float:
    """From the end of a batch to its group's offset at the broker; the longest of some."""
    options = {"nameServer": address, "consumerGroup": GROUP, "commitOffsets": "listener"}
    frame = spark.readStream.format("rocketmq").options(**options, startingOffsets="latest")
    writer = frame.load(TOPIC).writeStream.format("noop").queryName(GROUP)
    tracker = emberq.spark.track(spark, GROUP, query=GROUP, nameServer=address)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    place = BrokerPlace(parse_source({"nameServer": address, "subscribe": TOPIC}))
    queues = place.queues()
    waits = []
    _wait(query, lambda: query.lastProgress is not None)  # where it starts is settled
    with Producer("bench", name_server=address) as producer:
        for _ in range(COMMITS):
            result = producer.send(Message(TOPIC, b"one more"))
            queue = next(each for each in queues if each.queue_id == result.queue.queue_id)
            _wait(query, partial(_is_committed, place, queue, result.queue_offset + 1))
            waits.append(time.time() - _ended_at(query))
    query.stop()
    spark.streams.removeListener(tracker)
    return max(waits)


def _is_committed(place: BrokerPlace, queue: MessageQueue, offset: int) -> bool:
    return (place.heads([queue], GROUP)[queue].committed or 0) >= offset


def _wait(query: Any, condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + BATCHES_MAX_S
    while not condition():
        if time.monotonic() > deadline or not query.isActive:
            raise RuntimeError(f"waited in vain: {query.exception() or query.lastProgress}")
        time.sleep(VISIBLE_POLL_S)


def _ended_at(query: Any) -> float:
    """When the last batch with rows ended, as Spark has it."""
    last = next(each for each in reversed(query.recentProgress) if each.numInputRows)
    took_ms: float = last["durationMs"]["triggerExecution"]
    return datetime.fromisoformat(last["timestamp"]).timestamp() + took_ms / 1000


if __name__ == "__main__":
    sys.exit(main())
