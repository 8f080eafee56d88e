"""The data source as Spark sees it: `format("rocketmq")`, and `emberq` as another name."""

import json
from collections.abc import Mapping, Sequence

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from emberq.errors import ConfigError
from emberq.spark import columns as names
from emberq.spark.columns import Column, check_schema, chosen_columns
from emberq.spark.options import SourceOptions, parse_source, parse_stream
from emberq.spark.shipping import Shipped
from emberq.spark.sink_options import SinkOptions, check_sink_columns, parse_sink

# Spark 4.3 gives the options of a table to `schema` and to nobody else. So they travel with the
# schema, which the catalogue keeps, as metadata of the first column.
_OPTIONS_KEY = "emberq.options"
_OF_TABLES = "option."
_TYPES: dict[str, DataType] = {
    names.STRING: StringType(),
    names.BINARY: BinaryType(),
    names.INT: IntegerType(),
    names.LONG: LongType(),
    names.TIMESTAMP: TimestampType(),
    names.MAP: MapType(StringType(), StringType()),
}


class RocketmqSource(Shipped, DataSource):
    """Topics as tables. The options are docs/reference/spark-options.md."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        options = parse_source(self.options)
        if options.transform is not None:
            raise ConfigError("arrowTransform: give the schema of its batches by .schema(…)")
        schema = _spark_schema(chosen_columns(options))
        if any(key.lower().startswith(_OF_TABLES) for key in self.options):
            schema.fields[0].metadata = {_OPTIONS_KEY: json.dumps(dict(self.options))}
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        from emberq.spark.batch_reader import BatchReader  # noqa: PLC0415 - writers need none

        options = parse_source(self._given(schema))
        return BatchReader(options, _columns(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from emberq.spark.stream_reader import StreamReader  # noqa: PLC0415

        options = parse_stream(self._given(schema))
        return StreamReader(options, _columns(schema, options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from emberq.spark.sink import BatchWriter  # noqa: PLC0415 - readers need none

        return BatchWriter(_sink_options(self.options, schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from emberq.spark.sink import StreamWriter  # noqa: PLC0415

        return StreamWriter(_sink_options(self.options, schema, overwrite=False))

    def _given(self, schema: StructType) -> dict[str, str]:
        """The options of a query, before them those of its table."""
        of_table = [
            json.loads(field.metadata[_OPTIONS_KEY])
            for field in schema.fields
            if _OPTIONS_KEY in (field.metadata or {})
        ]
        return {**(of_table[0] if of_table else {}), **self.options}


class EmberqSource(RocketmqSource):
    @classmethod
    def name(cls) -> str:
        return "emberq"


def _sink_options(given: Mapping[str, str], schema: StructType, overwrite: bool) -> SinkOptions:
    if overwrite:
        raise ConfigError("a topic cannot be overwritten: use mode append")
    options = parse_sink(given)
    check_sink_columns(_fields(schema), options)
    return options


def _fields(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


def _spark_schema(columns: Sequence[Column]) -> StructType:
    return StructType([StructField(column.name, _TYPES[column.type]) for column in columns])


def _columns(schema: StructType, options: SourceOptions) -> Sequence[Column]:
    """What tasks make; a transformation makes the schema's columns out of these."""
    if options.transform is not None:
        return chosen_columns(options)
    return check_schema(_fields(schema), options)
