"""Options of `emberq spark` on their way to jobs and sessions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from emberq.cli import spark_sql
from emberq.cli.spark import ROWS_SHOWN_MAX, echo_report, execute, spark
from emberq.cli.task_bar import TaskBar
from emberq.pipelines.job import Report, ReportTable, Say, SparkSettings
from emberq.pipelines.lag import Lag
from emberq.pipelines.replay import Replay


def test_the_sql_shell_takes_configuration_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(spark_sql, "run_shell", lambda *_, **given: not seen.update(given))
    words = ["--topics", "orders", "--conf", "spark.driver.memory=2g", "--conf", "a=b=c"]

    result = CliRunner().invoke(spark, ["sql", "SELECT 1", *words, "--master", "local[1]"])

    assert result.exit_code == 0, result.output
    conf = {"spark.driver.memory": "2g", "a": "b=c"}
    assert seen["settings"] == SparkSettings(master="local[1]", conf=conf)


@pytest.mark.parametrize(("prompt", "answered"), [("sql> ", ["SELECT 1"]), ("", [])])
def test_an_interrupt_at_the_prompt_drops_the_line_and_ends_only_what_nobody_types(
    monkeypatch: pytest.MonkeyPatch, prompt: str, answered: list[str]
) -> None:
    lines: Iterator[str | type[BaseException]] = iter([KeyboardInterrupt, "SELECT 1;", EOFError])

    def typed(_: str) -> str:
        line = next(lines)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr("builtins.input", typed)

    assert list(spark_sql._queries(prompt)) == answered


def test_a_job_that_is_executed_tells_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Say] = []

    def run(_: Replay, spark: Any = None, say: Say = print) -> Report:
        given.append(say)
        return Report()

    monkeypatch.setattr(Replay, "run", run)

    execute(Replay(path="lake"), is_dry=False, is_json=True)

    assert isinstance(given[0], TaskBar)


def test_a_file_runs_where_the_command_line_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "job.yaml"
    settings = "spark: {master: yarn, conf: {spark.app.name: lake, spark.executor.cores: 2}}\n"
    file.write_text(f"job: lag\ntopics: orders\nconsumerGroup: lake\n{settings}")
    seen: list[SparkSettings] = []

    def run(job: Lag, spark: Any = None, say: Say = print) -> Report:
        seen.append(job.spark)
        return Report()

    monkeypatch.setattr(Lag, "run", run)
    words = ("--master", "local[1]", "--conf", "spark.executor.cores=1")

    plain = CliRunner().invoke(spark, ["run", str(file)])
    chosen = CliRunner().invoke(spark, ["run", str(file), *words])

    assert (plain.exit_code, chosen.exit_code) == (0, 0), (plain.output, chosen.output)
    conf = {"spark.app.name": "lake", "spark.executor.cores": "2"}
    assert seen == [
        SparkSettings(master="yarn", conf=conf),
        SparkSettings(master="local[1]", conf={**conf, "spark.executor.cores": "1"}),
    ]


@pytest.mark.parametrize(
    ("options", "used"),
    [
        ((), "10.0.0.5:9876;10.0.0.6:9876"),
        (("--name-server", "10.0.0.7:9876"), "10.0.0.7:9876"),
    ],
)
def test_a_project_has_the_name_servers_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], used: str
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.5:9876;10.0.0.6:9876")
    words = ["pipelines", "init", str(tmp_path / "shop"), "--topics", "orders", *options]

    result = CliRunner().invoke(spark, words)

    assert result.exit_code == 0, result.output
    table = tmp_path / "shop" / "transformations" / "orders.py"
    assert f'.option("nameServer", "{used}")' in table.read_text()


@pytest.mark.parametrize("words", [["--help"], ["pipelines", "--help"]])
def test_a_terminal_of_80_columns_shows_all_that_is_said_of_commands(words: list[str]) -> None:
    result = CliRunner().invoke(spark, words, terminal_width=80)

    _, *lines = result.output.splitlines()
    assert [line for line in lines if line.endswith("...")] == []


@pytest.mark.parametrize("command", sorted(spark.commands))
def test_every_option_says_what_it_does(command: str) -> None:
    group = spark.commands[command]
    commands = group.commands.values() if isinstance(group, click.Group) else [group]
    options = [each for one in commands for each in one.params if isinstance(each, click.Option)]

    assert [option.name for option in options if not option.help] == []


@pytest.mark.parametrize("rest", ["", "; --json has all"])
def test_a_report_names_no_way_to_the_rest_that_there_is_not(
    rest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [[number] for number in range(ROWS_SHOWN_MAX + 7)]

    echo_report(Report(tables=[ReportTable(title="Rows", columns=["n"], rows=rows)]), rest)

    assert f"and 7 more{rest}\n" in capsys.readouterr().out
