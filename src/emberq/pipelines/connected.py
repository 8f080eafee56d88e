"""A job on a server of Spark Connect: this process is the client, the package goes ahead of it."""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from emberq.errors import PipelineError
from emberq.pipelines.failures import readable_failures
from emberq.pipelines.job import Job, Report, Say
from emberq.pipelines.package_zip import PACKAGE_NAME, added_modules, build_zip
from emberq.pipelines.session import CLUSTER_CONF
from emberq.pipelines.submission import ARCHIVES, FILES, PY_FILES, listed

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
    conf = job.spark.conf
    with readable_failures():
        session = _connect(address, conf)
        try:
            # This puts zips on the path here as well, where functions that make frames run.
            session.addArtifacts(str(package), *listed(conf, PY_FILES), pyfile=True)
            _pickle_by_value(added_modules(package))
            if files := listed(conf, FILES):
                session.addArtifacts(*files, file=True)
            if archives := listed(conf, ARCHIVES):
                session.addArtifacts(*archives, archive=True)
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


def committed_line(progress: Any) -> str:
    """One line per batch of files that the server committed; their rows are its to count."""
    seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
    return f"batch {progress['batchId']}: {progress.numInputRows:,} files in {seconds:.1f} s"


def require_connect() -> None:
    """Raises PipelineError if what Spark Connect needs is not installed."""
    if find_spec("grpc") is None:
        raise PipelineError("Spark Connect needs more: pip install 'emberq[connect]'")


def _pickle_by_value(modules: list[str]) -> None:
    """Functions of the user's bring their modules along: see `carried`."""
    from pyspark import cloudpickle  # noqa: PLC0415 - an extra

    for name in modules:
        with suppress(ImportError):  # what cannot be loaded here, nothing from here refers to
            cloudpickle.register_pickle_by_value(import_module(name))  # type: ignore[no-untyped-call]


def _connect(address: str, conf: dict[str, str]) -> "SparkSession":
    require_connect()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    builder = SparkSession.builder.remote(address)
    for key, value in {**CLUSTER_CONF, **conf}.items():
        if key.startswith(_OF_SESSIONS):
            builder = builder.config(key, value)
    return builder.getOrCreate()
