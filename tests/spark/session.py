"""A Spark session for tests: small, quiet, on loopback, with this Python and the found Java."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from emberq.spark.interpreter import worker_python
from emberq.spark.local_session import process_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # How long Python waits for the JVM when it fetches rows: 15 s are few on a busy machine.
    "spark.python.authenticate.socketTimeout": "120s",
}
# PySpark leaves sockets to the garbage collector, and says so of itself.
WARNINGS_OF_SPARK = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def environment() -> dict[str, str]:
    """What every process of Spark needs to know."""
    java_home = Path(sys.prefix, "java-home")
    return {
        **({"JAVA_HOME": str(java_home)} if java_home.exists() else {}),
        **dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), worker_python()),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@contextmanager
def running_session(folder: Path) -> Iterator["SparkSession"]:
    os.environ.update(environment())
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("emberq-tests")
    for key, value in process_conf("local[2]", SETTINGS).items():
        builder = builder.config(key, value)
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    session = builder.config("spark.local.dir", str(folder / "local")).getOrCreate()
    yield session
    session.stop()
