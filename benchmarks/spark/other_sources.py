"""Sources to compare ours with: as most in Python are, and as none can be.

Both have the default columns, and the options of the real one.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from emberq.record import property_names
from emberq.record.decode import iter_records
from emberq.record.properties import decode_properties
from emberq.spark.batch_reader import BatchReader, slices_of
from emberq.spark.columns import chosen_columns
from emberq.spark.options import parse_source
from emberq.spark.pulling import pulled
from emberq.spark.source import RocketmqSource


class TupleSource(DataSource):
    """Yields a tuple per message."""

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> StructType:
        return RocketmqSource(self.options).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return TupleReader(parse_source(self.options), ())


class TupleReader(BatchReader):
    def read(self, partition: InputPartition) -> Iterator[Any]:
        for each in slices_of(partition):
            for content in pulled(each, self._options):
                for record in iter_records(content, is_crc_checked=False):
                    properties = decode_properties(record.properties)
                    yield (
                        each.queue.topic,
                        each.queue.broker_name,
                        record.queue_id,
                        record.queue_offset,
                        properties.get(property_names.KEYS),
                        properties.get(property_names.TAGS),
                        bytes(record.body),
                        datetime.fromtimestamp(record.born_at_ms / 1000, UTC),
                        datetime.fromtimestamp(record.stored_at_ms / 1000, UTC),
                        properties,
                    )


class PreparedSource(DataSource):
    """Yields one batch again and again, and neither reads nor decodes: the most that any source in
    Python can reach."""

    @classmethod
    def name(cls) -> str:
        return "prepared"

    def schema(self) -> StructType:
        return RocketmqSource(self.options).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse_source(self.options)
        return PreparedReader(options, chosen_columns(options))


class PreparedReader(BatchReader):
    def read(self, partition: InputPartition) -> Iterator[Any]:
        from emberq.spark.reading import read_slices

        slices = slices_of(partition)
        batches = list(islice(read_slices(slices, self._columns, self._options), 1))
        left = sum(each.count for each in slices)
        while left > 0:
            for batch in batches:
                yield batch.slice(0, left)
                left -= min(left, batch.num_rows)
