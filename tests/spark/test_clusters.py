"""Jobs submitted to masters of every kind that fits on one machine, to Pythons without EmberQ."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterator
from contextlib import chdir, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from emberq import Message, Producer
from emberq.pipelines.archive import Archive
from emberq.pipelines.archived import existing_table
from emberq.pipelines.submission import spark_program
from tests.interop.harness.ports import free_port
from tests.spark.cluster import Topics, until
from tests.spark.servers import SMALL, START_TIMEOUT_S, connect_server, listens, running
from tests.spark.session import environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBMIT_TIMEOUT_S = 280
ARCHIVE, TRANSFORM = "archive.yaml", "large-orders.yaml"
EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with all that workers need but EmberQ: installed packages, and no editable ones."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "bin" / "python"
    assert (
        subprocess.run([str(python), "-c", "import pyspark, msgspec"], check=False).returncode == 0
    )
    there = [str(python), "-c", "import emberq"]
    assert subprocess.run(there, check=False, capture_output=True).returncode == 1
    return python


def can_import(python: Path, modules: str) -> bool:
    words = [str(python), "-c", f"import {modules}"]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0


def submit(
    example: str, master: str, *options: str, python: Path | None = None, **job: str
) -> "subprocess.CompletedProcess[str]":
    """`emberq spark submit` as a user calls it; `job` wins over what the file says."""
    words = [sys.executable, "-m", "emberq", "spark", "submit", str(EXAMPLES / example)]
    words += ["--master", master, *options]
    words += [word for text in SMALL for word in ("--conf", text)]
    words += [word for item in job.items() for word in ("--set", "=".join(item))]
    environ = {**os.environ, **environment()}
    if python is None:
        del environ["PYSPARK_PYTHON"], environ["PYSPARK_DRIVER_PYTHON"]
    else:
        environ["PYSPARK_PYTHON"] = environ["PYSPARK_DRIVER_PYTHON"] = str(python)
    return subprocess.run(
        words, env=environ, check=False, capture_output=True, text=True, timeout=SUBMIT_TIMEOUT_S
    )


def orders(count: int) -> list[bytes]:
    return [json.dumps({"order": n, "amount": n * 100}).encode() for n in range(count)]


def check_archive(
    topics: Topics, master: str, folder: Path, *options: str, python: Path | None = None
) -> None:
    """The example `archive`, to a folder that is named from where the command is given: every
    message is in the table, a line for its batch and the report say so."""
    topic = topics.make()
    topics.send(topic, orders(30), 0)
    topics.send(topic, orders(12), 1)
    job = {"nameServer": topics.cluster.name_server, "topics": topic, "path": "lake"}

    with chdir(folder):
        done = submit(ARCHIVE, master, *options, python=python, **job)

    assert done.returncode == 0, done.stdout + done.stderr
    files = existing_table("parquet", str(folder / "lake")).files()
    assert sum(each.rows for each in files) == 42
    said = done.stdout + done.stderr
    assert re.search(r"messages:? +42", said)
    assert re.search(r"^batch 0: (42 messages in )?2 files", said, re.MULTILINE), said


def check_transform(
    topics: Topics,
    master: str,
    folder: Path,
    *options: str,
    python: Path | None = None,
    query_name: str = "",
) -> None:
    """The example `large-orders`: a stream that reads a topic and writes another."""
    source, target = topics.make("-in"), topics.make("-out")
    topics.send(source, orders(20))
    query = f"SELECT body FROM `{source}` WHERE get_json_object(body, '$.amount') > 1500"
    job = {"nameServer": topics.cluster.name_server, "topics": source, "toTopic": target}
    if query_name:
        (folder / query_name).write_text(query)
    job |= {"sql": query_name or query, "checkpoint": str(folder / "checkpoint")}

    done = submit(TRANSFORM, master, *options, python=python, **job)

    assert done.returncode == 0, done.stdout + done.stderr
    assert count(topics, target) == 4
    assert re.search(r"messages read:? +20\b", done.stdout + done.stderr)


def count(topics: Topics, topic: str) -> int:
    return sum(topics.producer.max_offset(topics.queue(topic, number)) for number in range(2))


RULES = """
from pyspark.sql import functions as f

from shop.prices import is_large


def large(session, frames):
    (orders,) = frames.values()
    return orders.where(f.udf(is_large, "boolean")("body")).select("body")
"""
PRICES = """
import json


def is_large(body):
    return json.loads(body)["amount"] > 1500
"""


def check_function(topics: Topics, master: str, folder: Path, python: Path | None = None) -> None:
    """A stream through functions of the user's, in a module and a package; the file names no
    name server."""
    source, target = topics.make("-in"), topics.make("-out")
    topics.send(source, orders(20))
    (folder / "shop").mkdir()
    (folder / "shop" / "__init__.py").touch()
    (folder / "shop" / "prices.py").write_text(PRICES)
    (folder / "rules.py").write_text(RULES)
    file = folder / "job.yaml"
    file.write_text(
        f"job: transform\nfunction: rules:large\ntopics: {source}\ntoTopic: {target}\n"
        f"checkpoint: {folder / 'checkpoint'}\n"
    )
    modules = ("--py-files", str(folder / "rules.py"), "--py-files", str(folder / "shop"))

    done = submit(str(file), master, *modules, python=python)

    assert done.returncode == 0, done.stdout + done.stderr
    assert count(topics, target) == 4


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[str]:
    """A master and two workers of Spark's own cluster, from the package that pip installs."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    host = ("--host", "127.0.0.1", "--webui-port", "0")
    master = ("org.apache.spark.deploy.master.Master", *host, "--port", str(port))
    worker = ("org.apache.spark.deploy.worker.Worker", *host, "--cores", "1", "--memory", "1g")
    small = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_WORKER_DIR": str(tmp_path / "work")}
    command = spark_program("spark-class")
    with running(tmp_path / "master.log", command, *master, **small):
        until(lambda: listens(port), START_TIMEOUT_S)
        with (
            running(tmp_path / "worker-1.log", command, *worker, address, **small),
            running(tmp_path / "worker-2.log", command, *worker, address, **small),
        ):
            yield address


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory, bare_python: Path) -> Iterator[str]:
    """A server of Spark Connect whose Python knows nothing of EmberQ."""
    with connect_server(tmp_path_factory.mktemp("connect"), str(bare_python)) as address:
        yield address


def test_files_of_a_job_are_where_its_driver_says_and_not_where_executors_work(
    topics: Topics, tmp_path: Path, bare_python: Path
) -> None:
    check_archive(topics, "local-cluster[1,1,1024]", tmp_path, python=bare_python)


def submit_job(text: str, folder: Path, **job: str) -> "subprocess.CompletedProcess[str]":
    file = folder / "job.yaml"
    file.write_text(text)
    return submit(str(file), "local[2]", python=None, **job)


def test_a_submitted_job_prints_the_report_of_a_local_one(topics: Topics, tmp_path: Path) -> None:
    topic = topics.make()
    topics.send(topic, orders(12), 1)
    options = f"topics: {topic}\nnameServer: {topics.cluster.name_server}\n"

    done = submit_job(f"job: stats\nwindow: 1d\n{options}", tmp_path)

    assert done.returncode == 0, done.stderr
    head, row = done.stdout.partition("\nWindows\n")[2].splitlines()[:2]
    assert head.split()[:4] == ["from", "topic", "messages", "bytes"]
    assert row.split()[2:4] == [topic, "12"]
    assert re.search(r"^  messages +12$", done.stdout, re.MULTILINE)


def test_a_submitted_job_ends_with_the_exit_code_of_its_report(
    topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    topics.send(topic, orders(3))
    lake = str(tmp_path / "lake")
    job = {"nameServer": topics.cluster.name_server, "topics": topic, "path": lake}
    archived = submit(ARCHIVE, "local[2]", python=None, **job)
    assert archived.returncode == 0, archived.stderr
    for file in (tmp_path / "lake" / "_checkpoint" / "commits").iterdir():
        file.unlink()  # as of an archive whose position is not known: all is expected
    topics.send(topic, orders(3))

    done = submit_job("job: verify\n", tmp_path, **job)

    assert done.returncode == 1
    assert "archive and topics differ" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_submitted_job_that_fails_says_so_in_a_line(topics: Topics, tmp_path: Path) -> None:
    job = {"nameServer": topics.cluster.name_server, "topics": topics.name("-nowhere")}

    done = submit_job("job: lag\nconsumerGroup: lake\n", tmp_path, **job)

    assert done.returncode == 1
    said = done.stdout + done.stderr  # Spark makes one of both
    assert re.search(rf"^emberq: .*{topics.name('-nowhere')}", said, re.MULTILINE), said
    assert "Traceback" not in said


def seen_in_a_terminal(*words: str, **environ: str) -> tuple[int, str]:
    """The exit code, and all that the command writes where somebody watches."""
    terminal, of_command = pty.openpty()
    said = b""
    with subprocess.Popen(
        words, env={**os.environ, **environ}, stdout=of_command, stderr=of_command
    ) as process:
        os.close(of_command)
        with suppress(OSError):  # the end of a terminal, on Linux
            while part := os.read(terminal, 1 << 16):
                said += part
    os.close(terminal)
    return process.returncode, said.decode()


def test_who_watches_a_submitted_job_sees_the_bar_of_its_tasks_and_few_logs(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic, lake, job = topics.make(), tmp_path / "lake", tmp_path / "replay.yaml"
    topics.send(topic, orders(12))
    address = topics.cluster.name_server
    Archive(topics=topic, path=str(lake), name_server=address).run(spark)
    job.write_text(f"job: replay\npath: {lake}\nrate: 4\nnameServer: {address}\n")  # 3 seconds
    words = [sys.executable, "-m", "emberq", "spark", "submit", str(job), "--master", "local[2]"]
    words += [word for text in SMALL if "log" not in text for word in ("--conf", text)]

    code, said = seen_in_a_terminal(*words, **environment())

    assert code == 0, said
    assert re.search(r"\[[#-]{30}\] \d+ of \d+ tasks", said), said
    assert " INFO " not in said


def test_a_stream_runs_in_executors_of_their_own(
    topics: Topics, tmp_path: Path, bare_python: Path
) -> None:
    check_transform(topics, "local-cluster[2,1,1024]", tmp_path, python=bare_python)


PROGRAM = """
import sys

from pyspark.sql import SparkSession

import emberq.spark

spark = SparkSession.builder.getOrCreate()
emberq.spark.register(spark)
address, topic, folder = sys.argv[1:]
options = {"nameServer": address, "startingOffsets": "earliest", "bodyAs": "string"}
orders = spark.readStream.format("rocketmq").options(**options).load(topic)
writer = orders.select("body").writeStream.format("parquet").option("path", folder + "/rows")
query = writer.option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True)
query.start().awaitTermination()
print("rows:", spark.read.parquet(folder + "/rows").count())
"""


def test_a_program_of_ones_own_takes_the_package_along(
    topics: Topics, tmp_path: Path, bare_python: Path
) -> None:
    """As docs/guides/spark-clusters.md says it."""
    topic, package = topics.make(), tmp_path / "emberq.zip"
    topics.send(topic, orders(25))
    program = tmp_path / "orders.py"
    program.write_text(PROGRAM)
    written = submit(ARCHIVE, "yarn", "--package", str(package), "--dry-run")
    assert written.returncode == 0, written.stderr
    words = [spark_program("spark-submit"), "--master", "local-cluster[2,1,1024]"]
    words += [word for text in SMALL for word in ("--conf", text)]
    pythons = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), str(bare_python))

    done = subprocess.run(
        [
            *words,
            *("--py-files", str(package), str(program)),
            *(topics.cluster.name_server, topic, str(tmp_path)),
        ],
        env={**os.environ, **environment(), **pythons, "PYTHONPATH": str(package)},
        check=False,
        capture_output=True,
        text=True,
        timeout=SUBMIT_TIMEOUT_S,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "rows: 25" in done.stdout


def test_a_query_survives_the_loss_of_an_executor(topics: Topics, tmp_path: Path) -> None:
    topic = topics.make()
    topics.send(topic, orders(40), 0)
    topics.send(topic, orders(25), 1)
    mark = tmp_path / "died"
    words = [sys.executable, "-m", "tests.spark.lost_executor"]
    words += [topics.cluster.name_server, topic, str(mark)]

    done = subprocess.run(
        words,
        env={**os.environ, **environment(), "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
        capture_output=True,
        text=True,
        timeout=SUBMIT_TIMEOUT_S,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert mark.exists()
    assert "messages=65 rows=65" in done.stdout


def test_a_job_runs_on_a_standalone_cluster_with_an_environment_that_travels(
    topics: Topics,
    tmp_path: Path,
    bare_python: Path,
    standalone: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed = tmp_path / "environment.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(bare_python.parents[1], ".")
    monkeypatch.chdir(tmp_path)  # which is not where the driver works

    check_transform(
        topics, standalone, tmp_path, "--env", str(packed), query_name="large-orders.sql"
    )


def test_modules_of_the_user_reach_workers_that_know_no_name_server(
    topics: Topics,
    tmp_path: Path,
    bare_python: Path,
    standalone: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", topics.cluster.name_server)  # the cluster is there by now

    check_function(topics, standalone, tmp_path, python=bare_python)


def test_modules_of_the_user_reach_streams_on_a_connect_server(
    topics: Topics, tmp_path: Path, connect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", topics.cluster.name_server)  # of the client, not the server

    check_function(topics, connect, tmp_path)


@pytest.mark.parametrize("example", [ARCHIVE, TRANSFORM])
def test_jobs_run_on_a_connect_server_that_has_never_heard_of_us(
    topics: Topics, tmp_path: Path, connect: str, example: str
) -> None:
    check = {ARCHIVE: check_archive, TRANSFORM: check_transform}[example]

    check(topics, connect, tmp_path)


def test_a_trace_that_runs_on_does_so_on_a_connect_server(
    topics: Topics, tmp_path: Path, connect: str
) -> None:
    topic, address = topics.make(), topics.cluster.name_server
    table, page = tmp_path / "journeys", tmp_path / "journeys.html"
    with Producer("tracing", name_server=address, trace=True) as producer:
        producer.send(Message(topic, b"body", keys="k1"))
    job = tmp_path / "trace.yaml"
    job.write_text(f"job: trace\nevery: 1s\ntopics: {topic}\npath: {table}\nreport: {page}\n")
    words = [sys.executable, "-m", "emberq", "spark", "submit", str(job), "--master", connect]
    environ = {**os.environ, **environment()}

    with subprocess.Popen(
        [*words, "--set", f"nameServer={address}"],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            until(lambda: page.exists() or process.poll() is not None, START_TIMEOUT_S)
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=SUBMIT_TIMEOUT_S)
        finally:
            process.kill()

    assert process.returncode == 0, said
    assert re.search(r"messages:? +1\b", said), said
    assert "From the send to the consumer" in page.read_text()
