"""Jobs for clusters: what is shipped, and the command that ships it."""

import shlex
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from emberq.cli.spark import spark
from emberq.errors import ConfigError
from emberq.pipelines.job import SparkSettings
from emberq.pipelines.submission import WATCHED, Submission, submit_environment
from emberq.pipelines.submit import Submit
from emberq.spark.secret_settings import REDACTED

EXAMPLE = Path(__file__).parents[3] / "examples" / "spark" / "archive.yaml"


def dry_run(*options: str, file: Path = EXAMPLE) -> list[str]:
    """The words that would be run."""
    result = CliRunner().invoke(spark, ["submit", str(file), "--dry-run", *options])
    assert result.exit_code == 0, (result.output, result.exception)
    return shlex.split(result.output)


def after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def after_program(words: list[str]) -> list[str]:
    """Of the driver, not of spark-submit."""
    (place,) = (place for place, word in enumerate(words) if word.endswith("spark_submitted.py"))
    return words[place + 1 :]


def confs(words: list[str]) -> dict[str, str]:
    pairs = (words[place + 1] for place, word in enumerate(words) if word == "--conf")
    return dict(pair.split("=", 1) for pair in pairs)


def test_a_driver_here_reads_the_file_where_it_is(tmp_path: Path) -> None:
    words = dry_run("--master", "spark://10.0.0.9:7077", "--conf", "spark.executor.cores=2")

    assert f"PYTHONPATH={words[words.index('--py-files') + 1]}" in words
    assert after_program(words)[0] == str(EXAMPLE)
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

    assert after_program(words)[:2] == ["archive.yaml", "format=delta"]
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


OF_THE_USER = (
    *("--conf", "spark.submit.pyFiles=s3a://code/rules.py, s3a://code/shop.zip"),
    *("--conf", "spark.files=/etc/shop.conf", "--conf", "spark.archives=/srv/models.zip#models"),
)


def test_what_the_user_ships_by_settings_goes_beside_what_is_ours(tmp_path: Path) -> None:
    packed = tmp_path / "environment.tar.gz"
    packed.touch()

    words = dry_run("--master", "yarn", "--env", str(packed), *OF_THE_USER)

    assert after(words, "--py-files") == "emberq.zip,s3a://code/rules.py,s3a://code/shop.zip"
    assert after(words, "--files") == f"{EXAMPLE},/etc/shop.conf"
    assert after(words, "--archives") == f"{packed}#environment,/srv/models.zip#models"
    assert not {"spark.submit.pyFiles", "spark.files", "spark.archives"} & {*confs(words)}


def transform_file(folder: Path, *lines: str) -> Path:
    file = folder / "job.yaml"
    options = ("job: transform", "topics: orders", "toTopic: large", "checkpoint: state")
    file.write_text("\n".join((*options, *lines)))
    return file


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_query_in_a_file_is_found_by_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.chdir(tmp_path)
    query = tmp_path / "query.sql"
    query.write_text("SELECT body FROM orders")
    file = transform_file(tmp_path, "sql: query.sql")

    words = dry_run("--master", "yarn", "--deploy-mode", mode, file=file)

    is_shipped = mode == "cluster"
    assert words[-1] == f"sql={query.name if is_shipped else query}"
    assert (str(query) in after(words, "--files").split(",")) == is_shipped


def test_a_query_that_is_not_there_is_told_before_anything_starts(tmp_path: Path) -> None:
    file = transform_file(tmp_path, "sql: nowhere.sql")

    result = CliRunner().invoke(spark, ["submit", str(file), "--master", "yarn", "--dry-run"])

    assert isinstance(result.exception, ConfigError)
    assert "nowhere.sql is no file" in str(result.exception)


@pytest.mark.parametrize(
    ("line", "settled"),
    [
        ("every: 5s", ["nameServer=10.0.0.5:9876"]),  # nobody says
        ("nameServer: 10.0.0.7:9876", []),
        ("source: {endpoints: 10.0.0.7:9876}", []),
    ],
)
def test_name_servers_are_those_of_the_environment_in_which_a_job_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, settled: list[str]
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.5:9876")
    file = transform_file(tmp_path, "sql: SELECT body FROM orders", line)

    words = dry_run("--master", "yarn", "--deploy-mode", "cluster", file=file)

    assert [word for word in words if word.startswith("nameServer=")] == settled


@pytest.mark.parametrize(
    ("path", "settled"),
    [
        ("lake/orders", ["path={here}/lake/orders"]),
        ("{here}/lake/orders", ["path={here}/lake/orders"]),
        ("file:lake/orders", ["path=file://{here}/lake/orders"]),
        ("file:///lake/orders", ["path=file:///lake/orders"]),
        ("s3://lake/orders", []),
    ],
)
def test_an_archive_goes_where_its_path_leads_from_where_it_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, settled: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = path.format(here=tmp_path)
    file = tmp_path / "archive.yaml"
    file.write_text(f"job: archive\ntopics: orders\npath: {path}\n")

    words = dry_run("--master", "spark://10.0.0.9:7077", file=file)

    assert [word for word in words if word.startswith("path=")] == [
        word.format(here=tmp_path) for word in settled
    ]


@pytest.mark.parametrize("place", ["state/large", "file:///state/large", "hdfs:///state/large"])
def test_what_a_job_keeps_is_not_below_a_folder_that_is_deleted_with_its_driver(
    tmp_path: Path, place: str
) -> None:
    environment = tmp_path / "environment.tar.gz"
    environment.touch()
    file = tmp_path / "transform.yaml"
    file.write_text(
        "job: transform\ntopics: orders\ntoTopic: large\nnameServer: 10.0.0.5:9876\n"
        f"sql: SELECT body FROM orders\ncheckpoint: {place}\n"
    )
    here = ["submit", str(file), "--dry-run", "--master", "spark://10.0.0.9:7077"]

    result = CliRunner().invoke(spark, [*here, "--env", str(environment)])

    assert (result.exit_code == 0) is (":" in place), result.output
    if ":" not in place:
        assert "checkpoint: state/large is below the folder" in str(result.exception)
    assert CliRunner().invoke(spark, here).exit_code == 0


def test_a_report_has_a_place_that_is_there_when_a_driver_in_the_cluster_is_gone(
    tmp_path: Path,
) -> None:
    file = tmp_path / "stats.yaml"
    file.write_text("job: stats\ntopics: orders\nnameServer: 10.0.0.5:9876\nreport: stats.html\n")
    there = ["submit", str(file), "--dry-run", "--master", "yarn", "--deploy-mode", "cluster"]

    result = CliRunner().invoke(spark, there)

    assert "report: stats.html is below the folder" in str(result.exception)
    assert CliRunner().invoke(spark, [*there, "--set", "report=/shared/stats.html"]).exit_code == 0


def test_places_stay_where_they_are_when_only_spark_is_elsewhere(tmp_path: Path) -> None:
    environment = tmp_path / "environment.tar.gz"
    environment.touch()
    file = tmp_path / "stats.yaml"
    file.write_text("job: stats\ntopics: orders\nnameServer: 10.0.0.5:9876\nreport: stats.html\n")
    there = ["submit", str(file), "--dry-run", "--master", "sc://10.0.0.9:15002"]

    result = CliRunner().invoke(spark, [*there, "--env", str(environment)])

    assert result.exit_code == 0, result.exception


def test_modules_of_the_user_are_in_the_package(tmp_path: Path) -> None:
    module, package = tmp_path / "rules.py", tmp_path / "emberq.zip"
    module.write_text("LIMIT = 900")

    words = dry_run("--master", "yarn", "--py-files", str(module), "--package", str(package))

    assert after(words, "--py-files") == str(package)
    assert "rules.py" in zipfile.ZipFile(package).namelist()


@pytest.mark.parametrize(("mode", "is_told"), [("client", True), ("cluster", False)])
def test_only_a_driver_here_is_told_that_somebody_watches(mode: str, is_told: bool) -> None:
    submission = Submission(
        job_file=EXAMPLE,
        package=Path("emberq.zip"),
        spark=SparkSettings(master="yarn"),
        deploy_mode=mode,
    )

    assert (WATCHED in submit_environment(submission, {}, is_watched=True)) == is_told
    assert WATCHED not in submit_environment(submission, {})


def test_a_plan_shows_no_secret_and_says_which_are_there(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    settings = "spark.hadoop.fs.s3a.secret.key: s3cret, spark.plugin.opts: -Dpassword=s3cret"
    file.write_text(f"{EXAMPLE.read_text()}spark: {{conf: {{{settings}}}}}\n")

    result = CliRunner().invoke(spark, ["submit", str(file), "--master", "yarn", "--dry-run"])

    assert result.exit_code == 0, result.output
    assert "s3cret" not in result.output
    shown = confs(shlex.split(result.stdout))
    keys = ("spark.hadoop.fs.s3a.secret.key", "spark.plugin.opts")
    assert {shown[key] for key in keys} == {REDACTED}
    assert ", ".join(keys) in result.stderr


def test_a_call_plans_what_the_command_shows(tmp_path: Path) -> None:
    planned = Submit(file=EXAMPLE, master="yarn", conf={"spark.executor.cores": "2"}).plan()

    assert shlex.split(planned.text) == dry_run(
        "--master", "yarn", "--conf", "spark.executor.cores=2"
    )
    assert planned.redacted == []
