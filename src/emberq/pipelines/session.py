"""A Spark session for jobs: one that is there already, or one that ends with the job."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from emberq.errors import PipelineError
from emberq.pipelines.failures import readable_failures
from emberq.pipelines.interrupts import quiet_interrupts
from emberq.pipelines.job import SparkSettings
from emberq.pipelines.quiet_logs import quiet_conf, quiet_query_failures
from emberq.spark import register
from emberq.spark.java import require_java
from emberq.spark.local_session import (
    NOT_INSTALLED,
    new_session,
    running_session,
    use_own_interpreters,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT = "sc://"
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
    "spark.sql.shuffle.partitions": "8",
}


@contextmanager
def job_session(
    settings: SparkSettings, given: "SparkSession | None" = None
) -> "Iterator[SparkSession]":
    """The given session, or the one that runs, which stay open and as they are; or a new one that
    is stopped at the end.

    Raises:
        PipelineError: Spark is not installed, or what was done in the session failed.
    """
    there = given if given is not None else _running()
    if there is not None:
        with _ready(there):
            yield there
        return
    session = start_session(settings)
    with quiet_interrupts():
        try:
            with _ready(session):
                yield session
        finally:
            session.stop()


@contextmanager
def _ready(session: "SparkSession") -> Iterator[None]:
    register(session)
    with readable_failures():
        yield


def _running() -> "SparkSession | None":
    try:
        return running_session()
    except ImportError as error:
        raise PipelineError(str(error)) from error


def start_session(settings: SparkSettings) -> "SparkSession":
    """Start Spark with the defaults of jobs under what the settings say.

    Raises:
        PipelineError: Spark or its Java is not installed, or it does not start.
    """
    if settings.master.startswith(CONNECT):
        raise PipelineError("jobs go to a Connect server by emberq spark submit")
    use_own_interpreters(settings.master)
    quiet_query_failures()
    try:
        with readable_failures():
            require_java()
            return new_session(settings.master, {**CONF, **quiet_conf(), **settings.conf})
    except ImportError as error:
        raise PipelineError(NOT_INSTALLED) from error
