"""A job for a cluster: what is shipped, and the command line of spark-submit.

Workers need Python with numpy, pyarrow and msgspec, by an environment that travels along or by
their image. EmberQ itself travels as a zip, and with it modules of the user.
"""

import os
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from emberq.errors import ConfigError
from emberq.pipelines.job import Job, SparkSettings
from emberq.pipelines.package_zip import PACKAGE
from emberq.pipelines.quiet_logs import warning_conf
from emberq.pipelines.session import CLUSTER_CONF
from emberq.spark.archive.addresses import is_local
from emberq.spark.secret_settings import REDACTED, secret_keys

ENVIRONMENT_NAME = "environment"
# Lists of what users ship, and the options that win over them.
PY_FILES, FILES, ARCHIVES = "spark.submit.pyFiles", "spark.files", "spark.archives"
_SHIPPED = {PY_FILES: "--py-files", FILES: "--files", ARCHIVES: "--archives"}
# Tells a driver that is started by Spark whether its output is a terminal's: it writes to a pipe.
WATCHED = "EMBERQ_IS_WATCHED"
CLIENT, CLUSTER = "client", "cluster"
# Spark runs Python programs inside these clusters; elsewhere the driver stays where it is started.
_CLUSTER_MODE_MASTERS = ("yarn", "k8s://")
# Options of jobs that say where something stays.
PLACES = ("path", "checkpoint", "report", "ledger")
# Those that are never in a file system of the cluster.
LOCAL_PLACES = ("report",)


class Submission(Struct, frozen=True, kw_only=True):
    """What is run where."""

    job_file: Path
    package: Path
    spark: SparkSettings
    deploy_mode: str = CLIENT
    environment: Path | None = None
    modules: tuple[Path, ...] = ()  # of the user, for the package
    query: Path | None = None  # the file that the job's SQL is in
    overrides: Sequence[str] = ()

    def __post_init__(self) -> None:
        is_possible = self.spark.master.startswith(_CLUSTER_MODE_MASTERS)
        if self.deploy_mode == CLUSTER and not is_possible:
            raise ConfigError(
                f"{self.spark.master} runs no Python driver of its own: --deploy-mode cluster is "
                "for yarn and k8s://"
            )

    @property
    def is_driver_here(self) -> bool:
        return self.deploy_mode == CLIENT


def query_file(job: Job) -> Path | None:
    """The file that a job's SQL is in: it is read by the driver, wherever that is.

    Raises:
        ConfigError: there is none.
    """
    text = str(getattr(job, "sql", ""))
    if not text.endswith(".sql"):
        return None
    path = Path(text).resolve()
    if not path.is_file():
        raise ConfigError(f"sql: {path} is no file")
    return path


def check_places(job: Job, names: Sequence[str]) -> None:
    """A driver that works in a folder of its own leaves nothing there: what a job keeps has to have
    a place that does not depend on where it works.

    Args:
        names: options that are places, and places there.

    Raises:
        ConfigError: one does.
    """
    for name in names:
        place = str(getattr(job, name, ""))
        if place and is_local(place) and not place.startswith(("/", "file:/")):
            raise ConfigError(
                f"{name}: {place} is below the folder in which the driver works, and is deleted "
                "with it: give an absolute path that it reaches, or an address"
            )


def settled_options(job: Job) -> list[str]:
    """KEY=VALUE of what the environment here says of a job: elsewhere it says something else."""
    name_server = job.source_options().get("nameServer", "")
    settled = [f"nameServer={name_server}"] if name_server != job.name_server else []
    path = str(getattr(job, "path", ""))
    # Absolute by now: drivers may work in a folder of their own, which is deleted in the end.
    if job.name == "archive" and is_local(path):
        settled.append(f"path={path}")
    return settled


def quieter(submission: Submission) -> Submission:
    """A driver here shares its output with the logs of its JVM: only warnings are left of them."""
    if not submission.is_driver_here:
        return submission
    spark = submission.spark
    conf = {**warning_conf(), **spark.conf}
    return replace(submission, spark=SparkSettings(master=spark.master, conf=conf))


def listed(settings: Mapping[str, str], key: str) -> list[str]:
    """Members of a setting that is a list."""
    return [text.strip() for text in settings.get(key, "").split(",") if text.strip()]


def submit_settings(submission: Submission) -> dict[str, str]:
    """What is set, but for the lists of what is shipped."""
    settings = {**CLUSTER_CONF, **submission.spark.conf}
    if submission.environment is not None:
        settings.setdefault("spark.pyspark.python", f"./{ENVIRONMENT_NAME}/bin/python")
        if submission.is_driver_here:  # and so is its Python
            settings.setdefault("spark.pyspark.driver.python", sys.executable)
    return {key: value for key, value in sorted(settings.items()) if key not in _SHIPPED}


def submit_command(submission: Submission, secrets: Sequence[str] | None = None) -> list[str]:
    """The words of spark-submit; those that name the file of the secrets are given. Without them
    secrets are redacted, for people."""
    job_file, spark, is_here = submission.job_file, submission.spark, submission.is_driver_here
    words = [spark_program("spark-submit"), "--master", spark.master]
    words += ["--deploy-mode", submission.deploy_mode, *(secrets or ())]
    settings = submit_settings(submission)
    hidden = secret_keys(settings)
    for key, value in settings.items():
        if key not in hidden:
            words += ["--conf", f"{key}={value}"]
        elif secrets is None:
            words += ["--conf", f"{key}={REDACTED}"]
    words += _shipped(submission)
    entry = PACKAGE / "cli" / "spark_submitted.py"
    words += [str(entry), str(job_file) if is_here else job_file.name, *submission.overrides]
    query = submission.query
    return words if query is None else [*words, f"sql={query if is_here else query.name}"]


def _shipped(submission: Submission) -> list[str]:
    """What is ours, then what the user ships."""
    environment, query = submission.environment, submission.query
    ours = {
        PY_FILES: [str(submission.package)],
        FILES: [str(submission.job_file)],
        ARCHIVES: [] if environment is None else [f"{environment}#{ENVIRONMENT_NAME}"],
    }
    if query is not None and not submission.is_driver_here:
        ours[FILES].append(str(query))
    words = []
    for key, option in _SHIPPED.items():
        if places := [*ours[key], *listed(submission.spark.conf, key)]:
            words += [option, ",".join(places)]
    return words


def submit_environment(
    submission: Submission, given: Mapping[str, str], *, is_watched: bool = False
) -> dict[str, str]:
    """A driver that is here finds the package before Spark has unpacked anything, and is told
    whether somebody watches: Spark hands on what it writes."""
    paths = [str(submission.package), given.get("PYTHONPATH", "")]
    environ = dict(given)
    if is_watched and submission.is_driver_here:
        environ[WATCHED] = "1"
    if submission.environment is None:
        environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def unpack_environment(environment: Path, folder: Path) -> None:
    """Spark plans with the Python of the workers: a driver here needs it at the same place."""
    with tarfile.open(environment) as archive:
        archive.extractall(folder / ENVIRONMENT_NAME, filter="fully_trusted")


def spark_program(name: str) -> str:
    """A program of the PySpark that is installed here. Raises ImportError if none is."""
    import pyspark  # noqa: PLC0415 - an extra

    return str(Path(pyspark.__file__).parent / "bin" / name)
