"""What Spark would say of a source or a sink before a query begins, said by a plan as well."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from emberq.client.core.outgoing import check_topic
from emberq.errors import ConfigError, MessageRefused
from emberq.spark.sink_options import parse_sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_stream(options: Mapping[str, str]) -> None:
    """Raises ConfigError for options that no stream can have."""
    from emberq.spark.source import RocketmqSource  # noqa: PLC0415 - needs Spark

    source = RocketmqSource(dict(options))
    source.streamReader(source.schema())


def check_stream_sink(messages: "DataFrame", options: Mapping[str, str]) -> None:
    """Raises ConfigError if a stream of these rows cannot be written with these options."""
    from emberq.spark.source import RocketmqSource  # noqa: PLC0415

    _check_topic(options)
    RocketmqSource(dict(options)).streamWriter(messages.schema, overwrite=False)


def check_sink(messages: "DataFrame", options: Mapping[str, str]) -> None:
    """Raises ConfigError if these rows cannot be written with these options."""
    from emberq.spark.source import RocketmqSource  # noqa: PLC0415

    _check_topic(options)
    RocketmqSource(dict(options)).writer(messages.schema, overwrite=False)


def _check_topic(options: Mapping[str, str]) -> None:
    topic = parse_sink(options).topic
    if topic is None:
        return
    try:
        check_topic(topic)
    except MessageRefused as error:
        raise ConfigError(str(error)) from error
