"""`python -m benchmarks.spark.sink`: what the sink's rows cost in a task, without Spark around it.

CPU time of this process alone, the best of several rounds: rows to bytes, by columns and one by
one, and all the way to a broker that acknowledges them, in both ways.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from benchmarks.spark.sink_encoding import ID_PREFIX, TOPIC, encode_columns, encode_messages
from emberq import Producer
from emberq.spark.encoded_rows import RowEncoder
from emberq.spark.outgoing_rows import RowMessages
from emberq.spark.plain_delivery import PlainDelivery
from emberq.spark.row_sending import Task
from emberq.spark.sink_options import parse_sink
from emberq.testing.local_broker import run_broker
from emberq.testing.local_nameserver import run_name_server

BODY_SIZE_BYTES = 200
BATCH_ROWS = 10_000  # as Spark gives them
COLUMNS: dict[str, tuple[str, ...]] = {
    "body, keys, tags": ("body", "keys", "tags"),
    "with a map of two": ("body", "keys", "tags", "properties"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.sink", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="of 10,000 rows")
    rounds = parser.parse_args().rounds
    print(f"{'rows of 200 B bodies, CPU µs per row':50}{'columns':>9}{'one by one':>12}")
    for name in COLUMNS:
        quick, slow = encoding_us(name, rounds)
        print(f"{f'encode, {name}':50}{quick:9.2f}{slow:12.2f}")
    with tempfile.TemporaryDirectory(prefix="emberq-bench-") as folder:
        home = Path(folder)
        with run_name_server(home / "namesrv") as server:
            address = f"{server.host}:{server.port}"
            keys = {"brokerIP1": "127.0.0.1", "mappedFileSizeCommitLog": str(256 << 20)}
            with run_broker(home / "broker", name_servers=address, config=keys):
                with Producer("bench", name_server=address) as producer:
                    producer.create_topic(TOPIC, queues=4)
                _to_a_broker(address, rounds)
    return 0


def encoding_us(name: str, rounds: int) -> tuple[float, float]:
    """CPU per row of these columns: by columns, and one by one."""
    batch = _batch(COLUMNS[name])
    quick = _best(partial(encode_columns, batch), rounds)
    return quick, _best(partial(_one_by_one, batch), rounds)


def _to_a_broker(address: str, rounds: int) -> None:
    delivery = PlainDelivery(parse_sink({"nameServer": address, "topic": TOPIC}))
    for name, wanted in COLUMNS.items():
        batch = _batch(wanted)
        write = partial(_write, delivery, batch)
        quick = _best(write, rounds)
        with patch.object(RowEncoder, "encode", return_value=None):
            slow = _best(write, rounds)
        print(f"{f'to a broker and back, {name}':50}{quick:9.2f}{slow:12.2f}")


def _write(delivery: PlainDelivery, batch: Any) -> None:
    delivery.write(iter([batch]), Task("bench", 0, 0))


def _batch(wanted: tuple[str, ...]) -> Any:
    numbers = range(BATCH_ROWS)
    users = [[("user", f"u{number % 1000}"), ("region", "eu-central")] for number in numbers]
    columns = {
        "body": pa.array([f"{number:0{BODY_SIZE_BYTES}}".encode() for number in numbers]),
        "keys": pa.array([f"key-{number}" for number in numbers]),
        "tags": pa.array([f"tag-{number % 5}" for number in numbers]),
        "properties": pa.array(users, pa.map_(pa.string(), pa.string())),
    }
    return pa.RecordBatch.from_pydict({name: columns[name] for name in wanted})


def _one_by_one(batch: Any) -> None:
    lists = batch.to_pydict()
    encode_messages(RowMessages(TOPIC, ID_PREFIX).messages(lists, batch.num_rows))


def _best(work: Callable[[], None], rounds: int) -> float:
    """CPU µs per row, of all threads of this process."""
    times = []
    for _ in range(rounds + 1):  # the first warms up
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times[1:]) / BATCH_ROWS * 1e6


if __name__ == "__main__":
    sys.exit(main())
