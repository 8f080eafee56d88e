"""The data source as Spark sees it: `format("rocketmq")`, and `emberq` as another name."""

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
from emberq.spark.environment import with_environment
from emberq.spark.options import SourceOptions, parse_source, parse_stream
from emberq.spark.shipping import Shipped
from emberq.spark.sink_options import SinkOptions, check_sink_columns, is_sink_column, parse_sink
from emberq.spark.table_options import (
    Metadata,
    as_metadata,
    carrier,
    check_is_told,
    for_reading,
    for_writing,
    is_table,
    of_read,
    of_write,
)

# All that Spark gives a stream which writes into a table.
_OF_STREAMS = {"checkpointlocation", "queryname"}
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
        of_table = is_table(self.options)
        options = parse_source(for_reading(self.options) if of_table else self.options)
        if options.transform is not None:
            raise ConfigError("arrowTransform: give the schema of its batches by .schema(…)")
        schema = _spark_schema(chosen_columns(options))
        if of_table:
            fields = _fields(schema)
            name = carrier([name for name, _ in fields], _read_only(fields))
            schema[name].metadata = as_metadata(self.options)
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

        if overwrite:
            raise ConfigError("a topic cannot be overwritten: use mode append, or INSERT INTO")
        fields = _fields(schema)
        read_only = _read_only(fields)
        of_table = of_write(_metadata(schema), self.options, read_only)
        if not of_table:
            check_is_told(_metadata(schema), self.options, read_only)
            return BatchWriter(_sink_options(self.options, fields))
        taken = [field for field in fields if field[0] not in read_only]
        options = _sink_options({**for_writing(of_table), **self.options}, taken)
        return BatchWriter(options, read_only)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from emberq.spark.sink import StreamWriter  # noqa: PLC0415

        fields = _fields(schema)
        has_options = not set(map(str.lower, self.options)) <= _OF_STREAMS
        if not has_options and ("topic", names.STRING) not in fields:
            raise ConfigError(
                "give the option topic, or a column topic; Spark keeps a table's options from "
                'toTable: write with .format("rocketmq"), its options and .start()'
            )
        return StreamWriter(_sink_options(self.options, fields))

    def _given(self, schema: StructType) -> dict[str, str]:
        """The options of a query, before them those of its table."""
        of_table = of_read(_metadata(schema), self.options)
        if not of_table and not self.options:
            raise ConfigError(
                "there are no options; Spark keeps those of a table that lists its columns: create "
                "it without the list, and choose columns by the option columns"
            )
        return with_environment({**for_reading(of_table), **self.options})


class EmberqSource(RocketmqSource):
    @classmethod
    def name(cls) -> str:
        return "emberq"


def _sink_options(given: Mapping[str, str], fields: Sequence[tuple[str, str]]) -> SinkOptions:
    options = parse_sink(with_environment(given))
    check_sink_columns(fields, options)
    return options


def _metadata(schema: StructType) -> Metadata:
    return {field.name: field.metadata for field in schema.fields}


def _read_only(fields: Sequence[tuple[str, str]]) -> list[str]:
    """Of a table: columns that say where a message stands, or have a form that is not written."""
    return [name for name, kind in fields if not is_sink_column(name, kind)]


def _fields(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


def _spark_schema(columns: Sequence[Column]) -> StructType:
    return StructType([StructField(column.name, _TYPES[column.type]) for column in columns])


def _columns(schema: StructType, options: SourceOptions) -> Sequence[Column]:
    """What tasks make; a transformation makes the schema's columns out of these."""
    if options.transform is not None:
        return chosen_columns(options)
    required = [field.name for field in schema.fields if not field.nullable]
    if required:
        raise ConfigError(
            f"column {required[0]} is NOT NULL in the schema, which no column of messages is: "
            "declare it nullable"
        )
    return check_schema(_fields(schema), options)
