"""A process that writes one batch with the Spark sink, and stops at a chosen point.

At the point it prints `at the point` and waits for a line, or is killed there; what is killed and
when is the parent's part. It calls what Spark calls, in the same order, without a JVM: `write` for
each partition, then `commit`.

    python -m tests.support.sink_process '{"options": {…}, "writer": "w", "batch": 0, …}'
"""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click
import pyarrow as pa

from emberq.client.aio.encoded_batches import EncodedBatches
from emberq.client.aio.once import OnceSends
from emberq.errors import EmberqError
from emberq.spark.idempotent_delivery import IdempotentDelivery
from emberq.spark.ledger_topic import LedgerTopic
from emberq.spark.plain_delivery import PlainDelivery
from emberq.spark.row_sending import Task
from emberq.spark.sink_options import Delivered, SinkOptions, parse_sink
from emberq.spark.transactional_delivery import TransactionalDelivery, _Batches

AT_THE_POINT = "at the point"
# Point → what is wrapped: the n-th call of it does not begin before the parent says so.
POINTS: dict[str, tuple[type, str]] = {
    "stage": (_Batches, "_stage_one"),
    "decide": (LedgerTopic, "commit"),
    "decided": (LedgerTopic, "outcome_after"),
    "end": (_Batches, "_end"),
    "note": (LedgerTopic, "note_done"),
    "send": (EncodedBatches, "send"),
    "once": (OnceSends, "send_elements"),
}
FAILED = 3


def stop_at(point: str, count: int) -> None:
    owner, name = POINTS[point]
    original: Callable[..., Any] = getattr(owner, name)
    left = count

    async def wrapped(*arguments: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            await asyncio.to_thread(wait_for_parent)
        return await original(*arguments, **options)

    setattr(owner, name, wrapped)


def wait_for_parent() -> None:
    click.echo(AT_THE_POINT)
    sys.stdin.readline()


def batches(bodies: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(bodies), rows):
        yield pa.RecordBatch.from_pydict({"body": bodies[at : at + rows]})


def delivery_of(
    options: SinkOptions,
) -> PlainDelivery | IdempotentDelivery | TransactionalDelivery:
    if options.delivery is Delivered.TRANSACTIONAL:
        return TransactionalDelivery(options)
    if options.delivery is Delivered.IDEMPOTENT:
        return IdempotentDelivery(options)
    return PlainDelivery(options)


def main() -> None:
    asked = json.loads(sys.argv[1])
    if asked.get("point") in POINTS:
        stop_at(asked["point"], asked["count"])
    delivery: Any = delivery_of(parse_sink(asked["options"]))
    try:
        results = [
            delivery.write(batches(bodies, 20), Task(asked["writer"], asked["batch"], partition))
            for partition, bodies in enumerate(asked["partitions"])
        ]
        if asked.get("is_task"):
            return
        delivery.commit(results)
    except (EmberqError, TimeoutError) as error:
        click.echo(f"{type(error).__name__}: {error}", err=True)
        sys.exit(FAILED)
    if asked.get("point") == "behind":
        wait_for_parent()


if __name__ == "__main__":
    main()
