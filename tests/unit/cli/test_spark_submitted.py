"""What spark-submit runs prints what a local job prints, and ends as it does."""

import errno
from pathlib import Path

import pytest

from emberq.cli import spark_submitted
from emberq.cli.spark_submitted import main
from emberq.errors import TopicNotFound
from emberq.pipelines.job import Job, Report, ReportTable

REPORT = Report(
    facts={"lag": 1_234},
    tables=[ReportTable(title="Queues", columns=["topic", "lag"], rows=[["orders", 1_234]])],
)
LAG = "job: lag\ntopics: orders\nconsumerGroup: lake\n"


def job_file(tmp_path: Path) -> str:
    path = tmp_path / "lag.yaml"
    path.write_text(LAG)
    return str(path)


def test_tables_are_printed_as_by_a_job_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[Job, str]] = []

    def run(job: Job, name: str) -> Report:
        seen.append((job, name))
        return REPORT

    monkeypatch.setattr(spark_submitted, "run_in_session", run)

    code = main([job_file(tmp_path), "topics=refunds"])

    ((job, name),) = seen
    assert code == 0
    assert (getattr(job, "topics", ""), name) == ("refunds", "emberq lag")
    said = capsys.readouterr().out.splitlines()
    assert said == ["", "Queues", "topic     lag", "orders  1,234", "", "  lag  1,234"]


def test_a_bad_report_is_exit_code_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_submitted, "run_in_session", lambda *_: Report(is_good=False))

    assert main([job_file(tmp_path)]) == 1


def test_a_failure_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_job: Job, _name: str) -> Report:
        raise TopicNotFound("no route to orders")

    monkeypatch.setattr(spark_submitted, "run_in_session", run)

    assert main([job_file(tmp_path)]) == 1
    assert capsys.readouterr().err == "emberq: no route to orders\n"


def test_a_mistake_in_the_file_starts_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(spark_submitted, "run_in_session", lambda *_: pytest.fail("it started"))

    assert main([job_file(tmp_path), "topic=orders"]) == 1
    assert "did you mean topics?" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_job: Job, _name: str) -> Report:
        raise PermissionError(errno.EACCES, "Permission denied", "page.html")

    monkeypatch.setattr(spark_submitted, "run_in_session", run)

    assert main([job_file(tmp_path)]) == 1
    assert capsys.readouterr().err == "emberq: page.html: Permission denied\n"
