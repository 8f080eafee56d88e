"""A job on a server of Spark Connect: this process is the client, the package goes ahead of it."""

import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from emberq.errors import PipelineError
from emberq.pipelines.failures import readable_failures
from emberq.pipelines.job import Job, Report, Say
from emberq.pipelines.session import CLUSTER_CONF
from emberq.pipelines.submission import PACKAGE_NAME, build_zip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

F = TypeVar("F", bound=Callable[..., Any])

# What a server lets its clients choose; the rest was chosen when it was started.
_OF_SESSIONS = "spark.sql."


def run_connected(job: Job, address: str, package: Path, say: Say) -> Report:
    """Run a job on the server at an address such as `sc://host:15002`.

    Raises:
        PipelineError: there is no server, or what was done there failed.
    """
    with readable_failures():
        session = _connect(address, job.spark.conf)
        try:
            session.addArtifacts(str(package), pyfile=True)
            return job.run(session, say)
        finally:
            session.stop()


def is_connected(session: "SparkSession") -> bool:
    """Whether functions that are handed to Spark run in another process than this one."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def carried(make: Callable[..., F], *arguments: Any) -> F:
    """A function made elsewhere by `make(*arguments)`, that brings the package along: workers of
    a stream and who takes its batches do not get what was sent ahead."""
    from emberq.spark.shipping import pickled, unpacker  # noqa: PLC0415 - needs Spark

    with tempfile.TemporaryDirectory() as folder:
        package = build_zip(Path(folder, PACKAGE_NAME)).read_bytes()
    unpack, content = unpacker(), pickled((make, arguments))

    def call(*given: Any) -> Any:
        return unpack("", package, content)(*given)

    return cast(F, call)


def require_connect() -> None:
    """Raises PipelineError if what Spark Connect needs is not installed."""
    if find_spec("grpc") is None:
        raise PipelineError("Spark Connect needs more: pip install 'emberq[connect]'")


def _connect(address: str, conf: dict[str, str]) -> "SparkSession":
    require_connect()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    builder = SparkSession.builder.remote(address)
    for key, value in {**CLUSTER_CONF, **conf}.items():
        if key.startswith(_OF_SESSIONS):
            builder = builder.config(key, value)
    return builder.getOrCreate()
