"""Spark's schemas as Arrow's, by Spark's own rules."""

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """What the source's batches look like; times are UTC."""
    return to_arrow_schema(schema, timezone="UTC")
