"""A Spark session for jobs: the one that is given, or one that ends with the job."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from emberq.errors import PipelineError
from emberq.pipelines.failures import readable_failures
from emberq.pipelines.job import SparkSettings
from emberq.spark import register
from emberq.spark.interpreter import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Wherever jobs run: times as they are stored, state on disk, crashes of workers told.
CLUSTER_CONF: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.python.worker.faulthandler.enabled": "true",
}
# On this machine: small shuffles, progress by us instead of Spark.
CONF: Mapping[str, str] = {
    **CLUSTER_CONF,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "8",
}


@contextmanager
def job_session(
    settings: SparkSettings, given: "SparkSession | None" = None
) -> "Iterator[SparkSession]":
    """The given session, which stays open, or a new one that is stopped at the end.

    Raises:
        PipelineError: Spark is not installed, or what was done in the session failed.
    """
    session = given if given is not None else start_session(settings)
    try:
        register(session)
        with readable_failures():
            yield session
    finally:
        if given is None:
            session.stop()


def start_session(settings: SparkSettings) -> "SparkSession":
    """Start Spark with the defaults of jobs under what the settings say."""
    use_own_interpreters(settings.master)
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise PipelineError("Spark is not installed: pip install 'emberq[spark]'") from error
    builder = SparkSession.builder.appName("emberq").master(settings.master)
    for key, value in {**CONF, **settings.conf}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def use_own_interpreters(master: str) -> None:
    """Workers run this Python; Java is the environment's own where set-up provided one."""
    is_here = master == "local" or master.startswith("local[")
    os.environ.setdefault("PYSPARK_PYTHON", worker_python() if is_here else sys.executable)
    java_home = Path(sys.prefix, "java-home")
    if java_home.exists():
        os.environ["JAVA_HOME"] = str(java_home)
