"""Frames into topics: Arrow writers for batches and streams, at least once.

A task sends its rows through the client's producer. Rows of one queue go in their order, in batch
requests; queues go side by side; the next rows are made ready while these are on their way.
"""

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from emberq.client.aio.producer import Producer
from emberq.client.core.message import Message
from emberq.model.queue import MessageQueue
from emberq.spark.links import Link, link_to
from emberq.spark.outgoing_rows import RowMessages, placed
from emberq.spark.sink_options import SinkOptions

_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"

_producers: dict[tuple[int, str], Producer] = {}  # by link and group


class Sent(WriterCommitMessage):
    """How many messages a task has sent."""

    def __init__(self, count: int) -> None:
        self.count = count


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._job = uuid.uuid4().hex  # the same in every attempt of its tasks

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        return Sent(send_rows(iterator, self._options, f"{self._job}-0-{partition}", partition))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Every message was acknowledged before its task ended."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """What was sent stays: a log has no way back."""


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        query = (context.getLocalProperty(_QUERY_ID) or "query").replace("-", "")
        batch = context.getLocalProperty(_BATCH_ID) or "0"
        prefix = f"{query}-{batch}-{partition}"
        return Sent(send_rows(iterator, self._options, prefix, partition))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Every message was acknowledged before its task ended."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """What was sent stays; the next attempt gives its messages the same ids."""


def send_rows(
    batches: Iterator[Any], options: SinkOptions, id_prefix: str, first_queue: int
) -> int:
    """Send all rows; returns how many. Raises MessageRefused, SendFailed, BrokerError."""
    link = link_to(options.connection)
    rows = RowMessages(options.topic, id_prefix if options.has_ids else None)
    on_the_way: Future[None] | None = None
    for number, batch in enumerate(batches):
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        messages = list(rows.messages(columns, batch.num_rows))
        queue_ids = columns.get("queueId", (None,) * batch.num_rows)
        if on_the_way is not None:
            on_the_way.result()
        work = _send(link, options, messages, queue_ids, first_queue + number)
        on_the_way = link.submit(work)
    if on_the_way is not None:
        on_the_way.result()
    return rows.count


async def _send(
    link: Link,
    options: SinkOptions,
    messages: Sequence[Message],
    queue_ids: Sequence[int | None],
    first_queue: int,
) -> None:
    producer = await _producer(link, options)
    topics = dict.fromkeys(message.topic for message in messages)
    queues = {topic: await producer.queues(topic) for topic in topics}
    by_queue = placed(messages, queue_ids, queues, first_queue)
    async with asyncio.TaskGroup() as tasks:
        for queue, own in by_queue.items():
            tasks.create_task(_send_in_order(producer, queue, own))


async def _send_in_order(producer: Producer, queue: MessageQueue, messages: list[Message]) -> None:
    """Plain messages together; one with a delay cannot travel with others."""
    together: list[Message] = []
    for message in messages:
        if message.delay is None:
            together.append(message)
            continue
        if together:
            await producer.send_batch(together, queue=queue)
            together = []
        await producer.send(message, queue=queue)
    if together:
        await producer.send_batch(together, queue=queue)


async def _producer(link: Link, options: SinkOptions) -> Producer:
    key = (id(link), options.producer_group)
    producer = _producers.get(key)
    if producer is None:
        producer = _producers[key] = Producer(
            options.producer_group,
            client=link.client,
            send_timeout=options.timeout_s,
            retries=options.retries,
        )
        await producer.start()
    return producer
