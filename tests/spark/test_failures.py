"""What a person sees of failures that Spark really reports."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from emberq.pipelines.failures import cause_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def refuse(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches
    raise ValueError("the third order\nExpected: a number")


def test_of_a_batch_it_is_what_the_function_said(spark: "SparkSession") -> None:
    with pytest.raises(PySparkException) as failed:
        spark.range(3).mapInArrow(refuse, "id long").collect()

    assert cause_of(failed.value) == "ValueError: the third order"


def test_of_a_stream_it_is_what_the_function_said(spark: "SparkSession", tmp_path: Path) -> None:
    def refuse_batch(_frame: "DataFrame", _number: int) -> None:
        raise LookupError("no such table")

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()
    writer = rows.writeStream.foreachBatch(refuse_batch)
    query = writer.option("checkpointLocation", str(tmp_path)).start()

    with pytest.raises(PySparkException) as failed:
        query.awaitTermination(60)

    cause = cause_of(failed.value)
    assert cause.endswith("LookupError: no such table"), cause
    assert "\n" not in cause
