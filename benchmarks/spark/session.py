"""The Spark session that queries are measured in, on this machine alone."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from emberq.pipelines.session import use_own_interpreters

DRIVER_MEMORY = "2g"


def local_session(
    home: Path, master: str, jars: Iterable[Path] = (), memory: str = DRIVER_MEMORY
) -> Any:
    use_own_interpreters(master)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Where it is set, each process of Spark would compile the package anew: no user's does.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", memory)
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.local.dir", str(home / "local"))
    )
    if names := ",".join(map(str, jars)):
        builder = builder.config("spark.jars", names)
    return builder.getOrCreate()
