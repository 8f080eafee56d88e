"""Found by Spark: modules named `pyspark_*` bring a data source. This one is `emberq`."""

from emberq.spark.source import EmberqSource as DefaultSource

__all__ = ["DefaultSource"]
