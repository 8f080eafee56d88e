"""The Python of Spark's processes takes the PySpark that is installed, and leaves all else."""

import os
import subprocess
from pathlib import Path

import pytest

from emberq.spark import worker_python

pyspark = pytest.importorskip("pyspark")

HOME = Path(pyspark.__file__).parent
SHOW = "import os, pyspark, py4j; print(pyspark.__file__, py4j.__file__, os.environ['PYTHONPATH'])"


def shown(*paths: str) -> list[str]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [worker_python(), "-c", SHOW], env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_zips_of_the_installed_pyspark_are_left_out() -> None:
    zips = [str(path) for path in sorted((HOME / "python/lib").glob("*.zip"))]
    assert len(zips) == 2

    spark_at, gateway_at, rest = shown(*zips, "/elsewhere/a*b", "/elsewhere/jar")

    assert spark_at == str(HOME / "__init__.py")
    assert gateway_at.startswith(str(HOME.parent))
    assert rest == "/elsewhere/a*b:/elsewhere/jar"


def test_the_zip_of_another_spark_counts(tmp_path: Path) -> None:
    other = tmp_path / "pyspark.zip"
    other.write_bytes((HOME / "python/lib/pyspark.zip").read_bytes())

    assert shown(str(other))[0].startswith(str(other))


@pytest.mark.parametrize(("given", "seen"), [({}, "1"), ({"OMP_NUM_THREADS": "4"}, "4")])
def test_numpy_starts_no_threads_unless_somebody_wants_them(
    given: dict[str, str], seen: str
) -> None:
    environ = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    command = [worker_python(), "-c", "import os; print(os.environ['OMP_NUM_THREADS'])"]
    done = subprocess.run(command, env=environ | given, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == seen


def test_there_is_one_program_for_all_sessions() -> None:
    assert worker_python() == worker_python()
