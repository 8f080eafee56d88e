"""Servers of Spark's as processes of their own."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emberq.pipelines.submission import spark_program
from tests.interop.harness.ports import free_port
from tests.spark.cluster import until
from tests.spark.session import environment

START_TIMEOUT_S = 200
SMALL = (
    *("spark.ui.enabled=false", "spark.executor.memory=600m", "spark.driver.memory=600m"),
    *("spark.sql.shuffle.partitions=2", "spark.log.level=ERROR"),
    "spark.sql.streaming.noDataMicroBatches.enabled=false",
)


@contextmanager
def running(log: Path, *command: str, **environ: str) -> Iterator[None]:
    """A server of Spark's; its output is in the log."""
    variables = {**os.environ, **environment(), **environ}
    with (
        log.open("w") as output,
        subprocess.Popen(command, env=variables, stdout=output, stderr=output) as process,
    ):
        try:
            yield
        finally:
            process.kill()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def connect_server(folder: Path, python: str, *settings: str) -> Iterator[str]:
    """A server of Spark Connect whose processes are this Python; its folder is its own."""
    port = free_port()
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    conf = (*SMALL, f"spark.connect.grpc.binding.port={port}", *settings)
    words = [word for text in conf for word in ("--conf", text)]
    command = [spark_program("spark-submit"), "--master", "local[2]", *words, "--class", server]
    pythons = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), python)
    with running(folder / "connect.log", *command, "spark-internal", **pythons):
        until(lambda: listens(port), START_TIMEOUT_S)
        yield f"sc://127.0.0.1:{port}"
