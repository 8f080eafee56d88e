"""A query whose first task takes its executor down with it: `python -m tests.spark.lost_executor`.

    NAME_SERVER TOPIC MARK

It prints how many different messages the query returned and how many rows.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.session import SETTINGS

MARK_VARIABLE = "EMBERQ_TEST_MARK"


def dies_once(batch: Any) -> Any:
    """For `arrowTransform`: of all tasks, the first to come here kills the executor's JVM."""
    try:
        Path(os.environ[MARK_VARIABLE]).touch(exist_ok=False)
    except FileExistsError:
        return batch
    daemon = Path("/proc", str(os.getppid()), "stat").read_text().rpartition(")")[2].split()
    os.kill(int(daemon[1]), signal.SIGKILL)
    raise AssertionError("the executor lives on")


def main(name_server: str, topic: str, mark: str) -> None:
    builder = SparkSession.builder.master("local-cluster[2,1,600]").appName("lost executor")
    settings = {**SETTINGS, "spark.executor.memory": "600m", "spark.driver.memory": "600m"}
    for key, value in {**settings, f"spark.executorEnv.{MARK_VARIABLE}": mark}.items():
        builder = builder.config(key, value)
    with builder.getOrCreate() as spark:
        options = {"nameServer": name_server, "maxRecordsPerPartition": "10"}
        options |= {"columns": "queueId, queueOffset"}
        options |= {"arrowTransform": "tests.spark.lost_executor:dies_once"}
        schema = "queueId int, queueOffset bigint"
        frame = spark.read.format("rocketmq").schema(schema).options(**options).load(topic)
        rows = [tuple(row) for row in frame.collect()]
    sys.stdout.write(f"messages={len(set(rows))} rows={len(rows)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
