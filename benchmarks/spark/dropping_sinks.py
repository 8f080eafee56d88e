"""Sinks that make the frames of ours and send them nowhere: what writing costs Spark and Python."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from benchmarks.spark.sink_encoding import ID_PREFIX, TOPIC, encode_columns, encode_messages
from emberq.client.core.message import Message
from emberq.spark.outgoing_rows import ID_PROPERTY


class ColumnSink(DataSource):
    """Takes Arrow batches and encodes their columns, as ours."""

    @classmethod
    def name(cls) -> str:
        return "dropped-columns"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return ColumnWriter()


class ColumnWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for batch in iterator:
            encode_columns(batch)
        return WriterCommitMessage()


class RowSink(DataSource):
    """Takes rows and encodes them one by one, as most sinks in Python."""

    @classmethod
    def name(cls) -> str:
        return "dropped-rows"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return RowWriter()


class RowWriter(DataSourceWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        encode_messages(
            Message(
                TOPIC,
                bytes(row.body),
                tags=row.tags,
                keys=row.keys or (),
                properties={ID_PROPERTY: f"{ID_PREFIX}-{number}"},
            )
            for number, row in enumerate(iterator)
        )
        return WriterCommitMessage()
