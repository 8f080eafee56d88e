"""Options of jobs are the same in Python and in files, and mistakes are named."""

from pathlib import Path
from typing import Any

import pytest

from emberq.errors import ConfigError
from emberq.pipelines.archive import Archive
from emberq.pipelines.catalogue import JOBS, job_class, read_job_file
from emberq.pipelines.job import read_job
from emberq.pipelines.replay import Replay
from emberq.pipelines.stats import Stats
from emberq.pipelines.titles import TITLES
from emberq.pipelines.transform import Transform
from emberq.spark.options import parse_source
from emberq.spark.tracking import OffsetTracker

ARCHIVE = """
job: archive
source: {nameServer: "127.0.0.1:9876", subscribe: "orders,refunds", consumerGroup: lake,
         failOnDataLoss: false}
target: {format: delta, path: "file:///lake/orders", partitionBy: "topic,date", fileSize: 64m}
trigger: {every: 30s}
checkpoint: "file:///lake/_ck/orders"
spark: {master: "local[2]", conf: {spark.executor.memory: 1g}}
"""

# As the guide has it.
GUIDE = """
job: archive
source: {nameServer: "127.0.0.1:9876", subscribe: "orders,refunds", consumerGroup: lake}
target: {format: delta, path: "file:///lake/orders", partitionBy: [topic, date], fileSize: 256m}
trigger: {every: 30s}            # or availableNow, or continuous
checkpoint: "file:///lake/_ck/orders"
spark: {master: "local[*]", conf: {}}
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


def test_lists_stand_for_names_with_commas(tmp_path: Path) -> None:
    job = read(tmp_path, GUIDE)

    assert isinstance(job, Archive)
    assert (job.topics, job.partition_by) == ("orders,refunds", "topic,date")
    assert (job.every, job.file_size, job.consumer_group) == ("30s", "256m", "lake")
    assert (job.spark.master, job.spark.conf) == ("local[*]", {})


def test_values_of_yaml_are_texts_of_options(tmp_path: Path) -> None:
    job = read(
        tmp_path,
        """
        job: transform
        source: {nameServer: ["a:1", "b:2"], subscribe: [orders, refunds], tags: [new, paid],
                 batchRows: 500, tls: true, startingTimestamp: 2026-11-17T12:00:00+02:00}
        sql:  # nothing, as it is a function
        options: {function: "shop:paid", toTopic: 4711}
        sink: {ids: false, send.timeoutMs: 3000}
        checkpoint: state
        startingOffsets: {orders: {broker-a: {"0": 12}}}
        spark: {conf: {spark.executor.cores: 2, spark.ui.enabled: true, spark.jars: [a, b]}}
        """,
    )

    assert isinstance(job, Transform)
    assert (job.name_server, job.topics, job.to_topic) == ("a:1;b:2", "orders,refunds", "4711")
    assert job.source == {
        "tags": "new || paid",
        "batchRows": "500",
        "tls": "true",
        "startingTimestamp": "2026-11-17T12:00:00+02:00",
    }
    assert (job.sql, job.sink) == ("", {"ids": "false", "send.timeoutMs": "3000"})
    assert job.starting_offsets == '{"orders":{"broker-a":{"0":12}}}'
    assert job.spark.conf == {
        "spark.executor.cores": "2",
        "spark.ui.enabled": "true",
        "spark.jars": "a,b",
    }


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("2026-11-17T00:00:00", "2026-11-17T00:00:00+00:00"),
        ("2026-11-17T00:00:00+01:00", "2026-11-17T00:00:00+01:00"),
        ("2026-11-17", "2026-11-17"),
        ("1763337600000", "1763337600000"),
        ("'2026-11-17T00:00'", "2026-11-17T00:00"),
    ],
)
def test_times_need_no_quotes_and_are_in_utc(tmp_path: Path, written: str, read_as: str) -> None:
    job = read(tmp_path, f"job: stats\ntopics: orders\nsince: {written}\n")

    assert isinstance(job, Stats)
    assert job.since == read_as


@pytest.mark.parametrize(
    ("trigger", "every"),
    [
        ("{every: 30s}", "30s"),
        ("availableNow", ""),
        ("{availableNow: true}", ""),
        ("continuous", "1ms"),
        ("{continuous: true}", "1ms"),
    ],
)
def test_triggers_have_the_names_of_spark(tmp_path: Path, trigger: str, every: str) -> None:
    job = read(tmp_path, f"job: archive\ntopics: a\npath: b\ntrigger: {trigger}\n")

    assert isinstance(job, Archive)
    assert job.every == every


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    job = read(tmp_path, ARCHIVE, topics="payments", path="elsewhere")

    assert isinstance(job, Archive)
    assert (job.topics, job.path) == ("payments", str(Path("elsewhere").absolute()))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job: archiv", "there is no job 'archiv': did you mean archive"),
        ("job: archive\ntopics: a\npaht: b", "archive has no option 'paht': did you mean path"),
        ("job: archive\ntopics: a", "archive needs path"),
        ("job: archive\ntarget: b", "target: expected options, not 'b'"),
        ("job: archive\ntopics: {a: b}\npath: b", "topics: expected text, not {'a': 'b'}"),
        ("job: archive\ntopics: [[a]]\npath: b", r"topics: expected text, not \['a'\]"),
        ("job: archive\ntopics: [on, a]\npath: b", "topics: YAML reads it as true; put it in"),
        ("job: archive\ntopics: []\npath: b", "archive needs topics"),
        ("job: archive\nsource: orders", "source: expected options, not 'orders'"),
        ("job: archive\nsource: {on: a}", "source: True is no name of an option"),
        ("job: archive\n7: a", "archive has no option 7"),
        ("job: lag\nspark: {conf: {a: {b: c}}}", "spark.conf.a: expected text, not {'b': 'c'}"),
        ("job: archive\ntrigger: 30s", "trigger: expected {every: 30s}, availableNow or cont"),
        ("job: archive\ntrigger: {continuous: 1s}", "trigger: continuous is true or left out"),
        (
            "job: archive\ntrigger: {every: 1s, availableNow: true}",
            "trigger: availableNow and every exclude each other",
        ),
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


OWN = {"archive": {"path": "lake"}, "verify": {"path": "lake"}}


def test_options_of_the_source_are_found_in_any_case(tmp_path: Path) -> None:
    source = "{NAMESERVER: 'h:1', Subscribe: orders, consumergroup: lake, StartingOffsets: latest}"
    job = read(tmp_path, f"job: archive\npath: lake\nsource: {source}\n")

    assert isinstance(job, Archive)
    assert (job.name_server, job.topics, job.consumer_group) == ("h:1", "orders", "lake")
    assert job.source_options()["startingOffsets"] == "latest"


@pytest.mark.parametrize("name", ["archive", "stats", "trace", "verify", "lag"])
def test_jobs_can_share_the_section_of_their_source(tmp_path: Path, name: str) -> None:
    source = "{nameServer: 'h:1', subscribe: orders, consumerGroup: lake}"
    job: Any = read(tmp_path, f"source: {source}\njob: {name}\noptions: {OWN.get(name, {})}\n")

    assert job.topics == "orders"
    group = getattr(job, "consumer_group", None)
    assert (group, job.source) == (
        (None, {"consumerGroup": "lake"}) if name == "verify" else ("lake", {})
    )


@pytest.mark.parametrize("spelt", ["nameServer", "nameserver", "NAMESERVER"])
def test_a_sink_has_the_brokers_of_the_source_however_they_are_spelt(spelt: str) -> None:
    job = Replay(path="lake", name_server="other:1", source={spelt: "h:1", "AccessKey": "me"})

    assert job.sink_options("t") == {"nameServer": "h:1", "accessKey": "me", "topic": "t"}


@pytest.mark.parametrize("partition_by", ["", " ", "[]"])
def test_an_archive_without_partitions_has_none_in_its_tasks_either(
    tmp_path: Path, partition_by: str
) -> None:
    text = partition_by if partition_by == "[]" else f"'{partition_by}'"
    job = read(tmp_path, f"job: archive\ntopics: a\npath: lake\npartitionBy: {text}\n")

    assert isinstance(job, Archive)
    layout = parse_source(job.stream_options("w", keeps_partition_columns=False)).archive
    assert layout is not None
    assert layout.partition_by == ()


def test_texts_of_a_command_line_stay_what_they_are() -> None:
    given = {
        "path": "lake",
        "where": "tags IN ('a', 'b')",
        "limit": "10",
        "source": {"tls": "true"},
    }

    job = read_job(Replay, given)

    assert (job.where, job.limit, job.source) == ("tags IN ('a', 'b')", 10, {"tls": "true"})


@pytest.mark.parametrize(
    ("given", "group"),
    [
        ({"consumerGroup": "lake"}, "lake"),
        ({"source": {"consumerGroup": "lake"}}, "lake"),
        ({"source": {"consumergroup": "lake", "commitOffsets": "listener"}}, "lake"),
        ({"source": {"consumerGroup": "lake", "commitOffsets": "none"}}, None),
        ({"source": {"consumerGroup": "lake", "CommitOffsets": "source"}}, None),
        ({}, None),
    ],
)
def test_a_group_has_who_commits_its_offsets_however_it_is_given(
    given: dict[str, Any], group: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def note(self: OffsetTracker, options: Any, *_: object) -> None:
        found.append(options.group)

    monkeypatch.setattr(OffsetTracker, "__init__", note)
    job = read_job(Archive, {"topics": "orders", "path": "lake", **given})

    tracker = job.tracker(job.consumer_group)

    assert (found, tracker is None) == (([group], False) if group else ([], True))
