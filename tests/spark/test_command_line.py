"""Jobs as commands: what they print, and how they end."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.spark.cluster import Topics
from tests.spark.session import environment

DEADLINE_S = 180
SMALL = ("--master", "local[1]", "--conf", "spark.driver.memory=512m")


def emberq_spark(
    topics: Topics, folder: Path, *arguments: str, typed: str | None = None, **environ: str
) -> "subprocess.CompletedProcess[str]":
    variables = {"NAMESRV_ADDR": topics.cluster.name_server, **environ}
    return subprocess.run(
        [sys.executable, "-m", "emberq", "spark", *arguments],
        env={**os.environ, **environment(), **variables},
        cwd=folder,
        input=typed,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def test_an_archive_is_reported_as_json_and_a_damaged_one_ends_with_1(
    topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    topics.send(topic, [b"body %d" % number for number in range(20)], tags="paid")
    options = ("--topics", topic, "--path", "lake", *SMALL)

    archived = emberq_spark(topics, tmp_path, "archive", *options, "--json")

    assert archived.returncode == 0, archived.stderr
    assert json.loads(archived.stdout)["facts"]["messages"] == 20
    (log,) = (tmp_path / "lake" / "_emberq_log").glob("*0.json")
    log.unlink()  # the table forgets its only batch
    topics.send(topic, [b"more"])
    again = emberq_spark(topics, tmp_path, "archive", *options)
    assert again.returncode == 0, again.stderr
    checked = emberq_spark(topics, tmp_path, "verify", *options)
    assert checked.returncode == 1, checked.stderr
    assert "archive and topics differ" in checked.stdout
    assert "missing" in checked.stdout


def test_topics_are_tables_of_the_shell(topics: Topics, tmp_path: Path) -> None:
    topic = topics.make()
    topics.send(topic, [b"1", b"2", b"3"], tags="red")
    query = f"SELECT tags, count(*) AS messages FROM `{topic}` GROUP BY tags"

    shown = emberq_spark(topics, tmp_path, "sql", "--topics", topic, "--master", "local[1]", query)

    assert shown.returncode == 0, shown.stderr
    assert [line.split() for line in shown.stdout.splitlines() if "red" in line] == [["red", "3"]]


def test_queries_from_a_pipe_are_answered_in_utc_and_a_failed_one_ends_with_1(
    topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    topics.send(topic, [b"1"])
    moment = f"SELECT timestamp '2024-05-06 07:08:09' AS at, count(*) FROM `{topic}`"
    parts = "SELECT named_struct('at', timestamp '2024-12-24 23:59:58') AS a, array(1) AS a"
    queries = f"{parts};\n{moment};\n\nSELECT nothing FROM `{topic}`\n"
    queries += "SELECT 'behind';\nexit;\nSELECT 'end'\n"
    words = ("sql", "--topics", topic, "--master", "local[1]")

    shown = emberq_spark(topics, tmp_path, *words, typed=queries, TZ="Asia/Tokyo")

    assert shown.returncode == 1, shown.stderr
    assert "2024-05-06 07:08:09" in shown.stdout
    assert "{2024-12-24 23:59:58}" in shown.stdout
    assert "behind" in shown.stdout
    failures = [line for line in shown.stderr.splitlines() if line.startswith("emberq: ")]
    assert len(failures) == 1, shown.stderr
    assert "nothing" in failures[0]
    assert "sql>" not in shown.stdout
    assert not {"end", "exit"} & {*shown.stdout.split()}


def test_a_mistake_is_one_line(topics: Topics, tmp_path: Path) -> None:
    options = ("--topics", topics.name(), "--path", "lake", *SMALL)

    wrong = emberq_spark(topics, tmp_path, "archive", *options)

    assert wrong.returncode == 1
    last = wrong.stderr.strip().splitlines()[-1]
    assert last.startswith(f"emberq: no name server knows the topic {topics.name()}"), wrong.stderr
    assert "Traceback" not in wrong.stderr
    assert wrong.stdout == ""


def test_a_java_that_does_not_start_is_one_line(topics: Topics, tmp_path: Path) -> None:
    options = ("--topics", topics.name(), "--path", "lake", "--conf", "spark.driver.memory=1x")

    wrong = emberq_spark(topics, tmp_path, "archive", *options)

    assert wrong.returncode == 1
    assert wrong.stderr.strip().splitlines()[-1].startswith("emberq: ")
    assert "Traceback" not in wrong.stderr, wrong.stderr
