"""A job for a cluster: the package as a zip, and the command line of spark-submit.

Workers need Python with numpy, pyarrow and msgspec, by an environment that travels along or by
their image. EmberQ itself travels as a zip of plain Python: compiled parts cannot be imported
from one, and their plain twins do the same.
"""

import os
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

import emberq
from emberq.errors import ConfigError
from emberq.pipelines.job import SparkSettings
from emberq.pipelines.session import CLUSTER_CONF

_PACKAGE = Path(emberq.__file__).parent
_TOP_LEVEL = ("pyspark_rocketmq", "pyspark_emberq")
_KEPT = (".py", ".pyi", ".typed", ".html", ".css", ".js")
ENVIRONMENT_NAME = "environment"
PACKAGE_NAME = "emberq.zip"
CONNECT = "sc://"
CLIENT, CLUSTER = "client", "cluster"
# Spark runs Python programs inside these clusters; elsewhere the driver stays where it is started.
_CLUSTER_MODE_MASTERS = ("yarn", "k8s://")


class Submission(Struct, frozen=True, kw_only=True):
    """What is run where."""

    job_file: Path
    package: Path
    spark: SparkSettings
    deploy_mode: str = CLIENT
    environment: Path | None = None
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


def build_zip(target: Path) -> Path:
    """The package and its discovery modules, plain Python only."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in (_PACKAGE, *(_PACKAGE.parent / name for name in _TOP_LEVEL)):
            for path in sorted(package.rglob("*")):
                if path.is_file() and path.suffix in _KEPT:
                    archive.write(path, path.relative_to(_PACKAGE.parent))
    return target


def submit_command(submission: Submission) -> list[str]:
    """The words of spark-submit."""
    job_file, spark = submission.job_file, submission.spark
    words = [
        spark_program("spark-submit"),
        "--master",
        spark.master,
        "--deploy-mode",
        submission.deploy_mode,
    ]
    settings = {**CLUSTER_CONF, **spark.conf}
    if submission.environment is not None:
        words += ["--archives", f"{submission.environment}#{ENVIRONMENT_NAME}"]
        settings.setdefault("spark.pyspark.python", f"./{ENVIRONMENT_NAME}/bin/python")
        if submission.is_driver_here:  # and so is its Python
            settings.setdefault("spark.pyspark.driver.python", sys.executable)
    for key, value in sorted(settings.items()):
        words += ["--conf", f"{key}={value}"]
    words += ["--py-files", str(submission.package), "--files", str(job_file)]
    entry = _PACKAGE / "cli" / "spark_submitted.py"
    place = str(job_file) if submission.is_driver_here else job_file.name
    return [*words, str(entry), place, *submission.overrides]


def submit_environment(submission: Submission, given: Mapping[str, str]) -> dict[str, str]:
    """A driver that is here finds the package before Spark has unpacked anything."""
    paths = [str(submission.package), given.get("PYTHONPATH", "")]
    environ = dict(given)
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
