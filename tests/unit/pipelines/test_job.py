"""Options of jobs are the same in Python and in files, and mistakes are named."""

from pathlib import Path

import pytest

from emberq.errors import ConfigError
from emberq.pipelines.archive import Archive
from emberq.pipelines.catalogue import JOBS, job_class, read_job_file
from emberq.pipelines.titles import TITLES

ARCHIVE = """
job: archive
source: {nameServer: "127.0.0.1:9876", subscribe: "orders,refunds", consumerGroup: lake,
         failOnDataLoss: false}
target: {format: delta, path: "file:///lake/orders", partitionBy: "topic,date", fileSize: 64m}
trigger: {every: 30s}
checkpoint: "file:///lake/_ck/orders"
spark: {master: "local[2]", conf: {spark.executor.memory: 1g}}
"""


def read(tmp_path: Path, text: str, **overrides: str) -> object:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return read_job_file(path, overrides)


def test_a_file_means_what_the_class_means(tmp_path: Path) -> None:
    job = read(tmp_path, ARCHIVE)

    assert isinstance(job, Archive)
    assert job.topics == "orders,refunds"
    assert (job.name_server, job.consumer_group) == ("127.0.0.1:9876", "lake")
    assert (job.format, job.path, job.every) == ("delta", "file:///lake/orders", "30s")
    assert job.source == {"failOnDataLoss": "false"}
    assert job.spark.conf == {"spark.executor.memory": "1g"}


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    job = read(tmp_path, ARCHIVE, topics="payments", path="elsewhere")

    assert isinstance(job, Archive)
    assert (job.topics, job.path) == ("payments", "elsewhere")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job: archiv", "there is no job 'archiv': did you mean archive"),
        ("job: archive\ntopics: a\npaht: b", "archive has no option 'paht': did you mean path"),
        ("job: archive\ntopics: a", "archive needs path"),
        ("job: archive\ntarget: b", "target: expected options, not 'b'"),
        ("- job", "expected `job: NAME`"),
        ("job: [", "is no YAML"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_job_file(tmp_path / "none.yaml")


def test_every_job_has_a_title_and_the_name_it_is_found_by() -> None:
    assert list(TITLES) == list(JOBS)
    assert {name: job_class(name).name for name in JOBS} == {name: name for name in JOBS}
