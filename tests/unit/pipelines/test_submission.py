"""Jobs for clusters: what is shipped, and the command that ships it."""

import shlex
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from emberq.cli.spark import spark
from emberq.errors import ConfigError
from emberq.pipelines.job import SparkSettings
from emberq.pipelines.submission import Submission, build_zip

EXAMPLE = Path(__file__).parents[3] / "examples" / "spark" / "archive.yaml"


def dry_run(*options: str) -> list[str]:
    """The words that would be run."""
    result = CliRunner().invoke(spark, ["submit", str(EXAMPLE), "--dry-run", *options])
    assert result.exit_code == 0, result.output
    return shlex.split(result.output)


def confs(words: list[str]) -> dict[str, str]:
    pairs = (words[place + 1] for place, word in enumerate(words) if word == "--conf")
    return dict(pair.split("=", 1) for pair in pairs)


def test_the_package_is_plain_python_and_whole(tmp_path: Path) -> None:
    names = zipfile.ZipFile(build_zip(tmp_path / "emberq.zip")).namelist()

    assert {"emberq/__init__.py", "emberq/spark/source.py", "pyspark_rocketmq/__init__.py"} <= {
        *names
    }
    assert not [name for name in names if name.endswith((".so", ".pyc", ".c", ".pyx"))]


def test_a_driver_here_reads_the_file_where_it_is(tmp_path: Path) -> None:
    words = dry_run("--master", "spark://10.0.0.9:7077", "--conf", "spark.executor.cores=2")

    assert f"PYTHONPATH={words[words.index('--py-files') + 1]}" in words
    assert words[-1] == str(EXAMPLE)
    assert confs(words)["spark.sql.session.timeZone"] == "UTC"
    assert confs(words)["spark.executor.cores"] == "2"
    assert words[words.index("--deploy-mode") + 1] == "client"


@pytest.mark.parametrize("master", ["yarn", "k8s://https://10.0.0.9:6443"])
def test_a_driver_elsewhere_finds_file_and_environment_beside_it(
    tmp_path: Path, master: str
) -> None:
    packed = tmp_path / "environment.tar.gz"
    packed.touch()
    package = tmp_path / "emberq.zip"
    mode = ("--master", master, "--deploy-mode", "cluster")

    words = dry_run(*mode, "--env", str(packed), "--package", str(package), "--set", "format=delta")

    assert words[-3].endswith("submitted.py")
    assert words[-2:] == ["archive.yaml", "format=delta"]
    assert words[words.index("--archives") + 1] == f"{packed}#environment"
    assert confs(words)["spark.pyspark.python"] == "./environment/bin/python"
    assert "spark.pyspark.driver.python" not in confs(words)
    assert package.exists()  # it was asked for


def test_the_file_may_name_the_master(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(EXAMPLE.read_text() + "spark: {master: yarn, conf: {spark.app.name: lake}}\n")

    result = CliRunner().invoke(spark, ["submit", str(file), "--dry-run"])

    words = shlex.split(result.output)
    assert words[words.index("--master") + 1] == "yarn"
    assert confs(words)["spark.app.name"] == "lake"


def test_mistakes_are_told_before_anything_starts() -> None:
    result = CliRunner().invoke(spark, ["submit", str(EXAMPLE), "--set", "formatt=delta"])

    assert isinstance(result.exception, ConfigError)
    assert "did you mean format?" in str(result.exception)


@pytest.mark.parametrize("master", ["spark://10.0.0.9:7077", "local[*]", "sc://10.0.0.9:15002"])
def test_clusters_that_run_no_python_drivers_are_named(master: str) -> None:
    with pytest.raises(ConfigError, match="runs no Python driver of its own"):
        Submission(
            job_file=EXAMPLE,
            package=Path("emberq.zip"),
            spark=SparkSettings(master=master),
            deploy_mode="cluster",
        )


def test_nothing_is_submitted_to_a_connect_server_by_a_command() -> None:
    assert "in this process, on sc://10.0.0.9:15002" in " ".join(
        dry_run("--master", "sc://10.0.0.9:15002")
    )
