"""Found by Spark: modules named `pyspark_*` bring a data source. This one is `rocketmq`."""

from emberq.spark.source import RocketmqSource as DefaultSource

__all__ = ["DefaultSource"]
