"""Commands that run on, as their terminal sees them: Ctrl-C reaches all of their processes."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.cluster import Topics, until
from tests.spark.servers import SMALL
from tests.spark.session import environment
from tests.support.process_tree import command_line, descendants

TIMEOUT_S = 200
SECRET_KEY, OF_DEFAULTS = "spark.hadoop.fs.s3a.secret.key", "spark.shop.region"
SECRET = r"s3cret\:= #€"
RULES = f"""
import json
import os
from pathlib import Path


def noted(session, frames):
    found = [session.conf.get(key, None) for key in ({SECRET_KEY!r}, {OF_DEFAULTS!r})]
    Path(os.environ["FOUND"]).write_text(json.dumps(found))
    (orders,) = frames.values()
    return orders.select("body")
"""


def write_job(folder: Path, topics: Topics) -> tuple[Path, Path]:
    """A stream that goes on, and the module that it needs."""
    topic, target = topics.make("-in"), topics.make("-out")
    topics.send(topic, [b"1", b"2", b"3"])
    rules, job = folder / "rules.py", folder / "job.yaml"
    rules.write_text(RULES)
    conf = {SECRET_KEY: SECRET, **dict(text.split("=", 1) for text in SMALL)}
    options = {
        "job": "transform",
        "function": "rules:noted",
        "every": "1s",
        "topics": topic,
        "toTopic": target,
        "checkpoint": str(folder / "state"),
        "nameServer": topics.cluster.name_server,
        "spark": {"master": "local[1]", "conf": conf},
    }
    job.write_text(json.dumps(options), encoding="utf-8")  # which is YAML
    return job, rules


@pytest.mark.parametrize("command", ["submit", "run"])
def test_an_interrupted_job_reports_and_told_no_secret(
    topics: Topics, tmp_path: Path, command: str
) -> None:
    job, rules = write_job(tmp_path, topics)
    defaults, temporary = tmp_path / "conf" / "spark-defaults.conf", tmp_path / "tmp"
    defaults.parent.mkdir()
    defaults.write_text(f"{OF_DEFAULTS} eu\n{SECRET_KEY} another\n")
    temporary.mkdir()
    words = [sys.executable, "-m", "emberq", "spark", command, str(job)]
    words += ["--py-files", str(rules)] if command == "submit" else []
    found = tmp_path / "found.json"
    places = {
        "SPARK_CONF_DIR": str(defaults.parent),
        "TMPDIR": str(temporary),
        "FOUND": str(found),
    }
    modules = {"PYTHONPATH": str(tmp_path)} if command == "run" else {}

    with subprocess.Popen(
        words,
        env={**os.environ, **environment(), **places, **modules},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            commits = tmp_path / "state" / "commits"
            until(lambda: process.poll() is not None or [*commits.glob("[0-9]*")], TIMEOUT_S)
            lines = [command_line(each) for each in (process.pid, *descendants(process.pid))]
            os.killpg(process.pid, signal.SIGINT)
            said, _ = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()

    assert process.returncode == 0, said
    assert re.search(r"^  messages read +3$", said, re.MULTILINE), said
    assert any("SparkSubmit" in line for line in lines)
    assert not [line for line in lines if "s3cret" in line]
    assert json.loads(found.read_text()) == [SECRET, "eu"]
    assert list(temporary.rglob("*.properties")) == []
    assert "Aborted" not in said


def test_an_interrupt_ends_a_query_and_not_the_shell(topics: Topics, tmp_path: Path) -> None:
    topic = topics.make()
    topics.send(topic, [b"1"])
    answer = tmp_path / "answer"
    slow = f"INSERT OVERWRITE DIRECTORY '{answer}' USING parquet SELECT sum(id) FROM range(1e15)"
    words = ["sql", "--topics", topic, "--master", "local[1]", "--conf", SMALL[0]]

    with subprocess.Popen(
        [sys.executable, "-m", "emberq", "spark", *words],
        env={**os.environ, **environment(), "NAMESRV_ADDR": topics.cluster.name_server},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        try:
            process.stdin.write(f"{slow}\nSELECT 'behind'\n")
            process.stdin.flush()
            until(lambda: process.poll() is not None or answer.exists(), TIMEOUT_S)
            os.killpg(process.pid, signal.SIGINT)
            said, complaints = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()

    assert "behind" in said, complaints
    assert "emberq: cancelled" in complaints
    assert "Traceback" not in complaints
    assert process.returncode == 1  # a query has failed
