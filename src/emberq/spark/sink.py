"""Frames into topics: Arrow writers for batches and streams. How surely is the delivery's part."""

import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from emberq.errors import ConfigError
from emberq.spark.idempotent_delivery import IdempotentDelivery
from emberq.spark.lasting_objects import keep_what_lasts
from emberq.spark.outgoing_columns import without_columns
from emberq.spark.plain_delivery import PlainDelivery
from emberq.spark.row_sending import Task
from emberq.spark.shipping import Shipped
from emberq.spark.sink_options import Delivered, SinkOptions
from emberq.spark.transactional_delivery import TransactionalDelivery

_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


class Delivery(Protocol):
    """`write` runs in tasks; the others on the driver, with what the tasks returned."""

    def write(self, batches: Iterator[Any], task: Task) -> object: ...

    def commit(self, results: Sequence[Any]) -> None: ...

    def abort(self, results: Sequence[Any]) -> None: ...


class Written(WriterCommitMessage):
    """What a task did."""

    def __init__(self, result: object) -> None:
        self.result = result


class BatchWriter(Shipped, DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, left_out: Sequence[str] = ()) -> None:
        """`left_out` are columns of a table that have no value in rows that are written."""
        self._options = options
        self._left_out = left_out
        self._writer = options.sink_id or uuid.uuid4().hex  # the same in all attempts of its tasks

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        task = Task(self._writer, 0, partition)
        if self._left_out:
            iterator = without_columns(iterator, self._left_out)
        return _written(iterator, task, self._options)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _delivery(self._options).commit(_results(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _delivery(self._options).abort(_results(messages))


class StreamWriter(Shipped, DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        if options.sink_id is not None:
            raise ConfigError("sinkId is for batches: a stream is known by its checkpoint")
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if self._options.delivery is not Delivered.AT_LEAST_ONCE and not (query and batch):
            raise ConfigError(
                f"delivery={self._options.delivery} needs to know query and batch, and Spark gives "
                f"this task none ({_QUERY_ID}, {_BATCH_ID}): write with foreachBatch and a sinkId"
            )
        writer = (query or "query").replace("-", "")
        task = Task(writer, int(batch or 0), context.partitionId())
        return _written(iterator, task, self._options)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _delivery(self._options).commit(_results(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _delivery(self._options).abort(_results(messages))


def _written(batches: Iterator[Any], task: Task, options: SinkOptions) -> Written:
    result = _delivery(options).write(batches, task)
    keep_what_lasts()
    return Written(result)


def _delivery(options: SinkOptions) -> Delivery:
    if options.delivery is Delivered.TRANSACTIONAL:
        return TransactionalDelivery(options)
    if options.delivery is Delivered.IDEMPOTENT:
        return IdempotentDelivery(options)
    return PlainDelivery(options)


def _results(messages: Sequence[WriterCommitMessage | None]) -> list[object]:
    """Of the tasks that ended well."""
    return [message.result for message in messages if isinstance(message, Written)]
