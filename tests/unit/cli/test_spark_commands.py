"""Options of `emberq spark` on their way to jobs and sessions."""

from typing import Any

import pytest
from click.testing import CliRunner

from emberq.cli import spark_sql
from emberq.cli.spark import ROWS_SHOWN_MAX, echo_report, execute, spark
from emberq.cli.task_bar import TaskBar
from emberq.pipelines.job import Report, ReportTable, Say, SparkSettings
from emberq.pipelines.replay import Replay


def test_the_sql_shell_takes_configuration_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(spark_sql, "run_shell", lambda *_, **given: seen.update(given))
    words = ["--topics", "orders", "--conf", "spark.driver.memory=2g", "--conf", "a=b=c"]

    result = CliRunner().invoke(spark, ["sql", "SELECT 1", *words, "--master", "local[1]"])

    assert result.exit_code == 0, result.output
    conf = {"spark.driver.memory": "2g", "a": "b=c"}
    assert seen["settings"] == SparkSettings(master="local[1]", conf=conf)


def test_a_job_that_is_executed_tells_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Say] = []

    def run(_: Replay, spark: Any = None, say: Say = print) -> Report:
        given.append(say)
        return Report()

    monkeypatch.setattr(Replay, "run", run)

    execute(Replay(path="lake"), is_dry=False, is_json=True)

    assert isinstance(given[0], TaskBar)


@pytest.mark.parametrize("rest", ["", "; --json has all"])
def test_a_report_names_no_way_to_the_rest_that_there_is_not(
    rest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [[number] for number in range(ROWS_SHOWN_MAX + 7)]

    echo_report(Report(tables=[ReportTable(title="Rows", columns=["n"], rows=rows)]), rest)

    assert f"and 7 more{rest}\n" in capsys.readouterr().out
