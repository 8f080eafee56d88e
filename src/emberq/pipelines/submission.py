"""A job for a cluster: the package as a zip, and the command line of spark-submit.

Workers need Python with numpy, pyarrow and msgspec, by an environment that travels along or by
their image. EmberQ itself travels as a zip of plain Python: compiled parts cannot be imported
from one, and their plain twins do the same.
"""

import os
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import emberq

_PACKAGE = Path(emberq.__file__).parent
_TOP_LEVEL = ("pyspark_rocketmq", "pyspark_emberq")
_KEPT = (".py", ".pyi", ".typed", ".html", ".css", ".js")
ENVIRONMENT_NAME = "environment"


def build_zip(target: Path) -> Path:
    """The package and its discovery modules, plain Python only."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in (_PACKAGE, *(_PACKAGE.parent / name for name in _TOP_LEVEL)):
            for path in sorted(package.rglob("*")):
                if path.is_file() and path.suffix in _KEPT:
                    archive.write(path, path.relative_to(_PACKAGE.parent))
    return target


def submit_command(
    job_file: Path,
    package_zip: Path,
    *,
    master: str,
    deploy_mode: str = "client",
    conf: Mapping[str, str] | None = None,
    environment: Path | None = None,
    arguments: Sequence[str] = (),
) -> list[str]:
    """The words of spark-submit; `arguments` are passed to the job's command."""
    is_remote = deploy_mode == "cluster"
    words = [_spark_submit(), "--master", master, "--deploy-mode", deploy_mode]
    settings = dict(conf or {})
    if environment is not None:
        words += ["--archives", f"{environment}#{ENVIRONMENT_NAME}"]
        settings.setdefault("spark.pyspark.python", f"./{ENVIRONMENT_NAME}/bin/python")
        if not is_remote:  # the driver is here, and so is its Python
            settings.setdefault("spark.pyspark.driver.python", sys.executable)
    for key, value in sorted(settings.items()):
        words += ["--conf", f"{key}={value}"]
    words += ["--py-files", str(package_zip), "--files", str(job_file)]
    entry = Path(__file__).with_name("submitted.py")
    return [*words, str(entry), job_file.name if is_remote else str(job_file), *arguments]


def submit_environment(package_zip: Path, given: Mapping[str, str]) -> dict[str, str]:
    """The driver's stream reader does not see --py-files: it finds the zip by PYTHONPATH."""
    paths = [str(package_zip), given.get("PYTHONPATH", "")]
    return {
        "PYSPARK_PYTHON": sys.executable,
        **given,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }


def _spark_submit() -> str:
    import pyspark  # noqa: PLC0415 - an extra

    return str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
