"""What Spark's calls make of options, without Spark."""

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from emberq.errors import ConfigError
from emberq.spark.source import RocketmqSource

SCHEMA = StructType([StructField("queueOffset", LongType())])


def test_a_stream_with_an_end_is_refused_when_its_reader_is_made() -> None:
    given = {"subscribe": "a", "nameServer": "h:1", "endingOffsets": "latest"}

    RocketmqSource(given).reader(SCHEMA)
    with pytest.raises(ConfigError, match="endingOffsets: a stream has no end"):
        RocketmqSource(given).streamReader(SCHEMA)
