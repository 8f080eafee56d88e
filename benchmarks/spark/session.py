"""The Spark session that queries are measured in, on this machine alone."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from emberq.pipelines.session import CONF
from emberq.spark.local_session import process_conf, use_own_interpreters

DRIVER_MEMORY = "2g"


def local_session(
    home: Path, master: str, jars: Iterable[Path] = (), memory: str = DRIVER_MEMORY
) -> Any:
    use_own_interpreters(master)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Where it is set, each process of Spark would compile the package anew: no user's does.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    for key, value in process_conf(master, CONF).items():  # as jobs have it
        builder = builder.config(key, value)
    builder = (
        builder.config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", memory)
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.local.dir", str(home / "local"))
    )
    if names := ",".join(map(str, jars)):
        builder = builder.config("spark.jars", names)
    return builder.getOrCreate()
