"""Jobs submitted to masters of every kind that fits on one machine, to Pythons without EmberQ."""

import json
import os
import re
import socket
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from emberq.pipelines.archived import existing_table
from emberq.pipelines.submission import spark_program
from tests.interop.harness.ports import free_port
from tests.spark.cluster import Topics, until
from tests.spark.session import environment

SUBMIT_TIMEOUT_S = 280
START_TIMEOUT_S = 200
SMALL = (
    *("spark.ui.enabled=false", "spark.executor.memory=600m", "spark.driver.memory=600m"),
    *("spark.sql.shuffle.partitions=2", "spark.log.level=ERROR"),
    "spark.sql.streaming.noDataMicroBatches.enabled=false",
)
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
    """The example `archive`: every message is in the table, and the report says so."""
    topic = topics.make()
    topics.send(topic, orders(30), 0)
    topics.send(topic, orders(12), 1)
    job = {"nameServer": topics.cluster.name_server, "topics": topic, "path": str(folder / "lake")}

    done = submit(ARCHIVE, master, *options, python=python, **job)

    assert done.returncode == 0, done.stdout + done.stderr
    files = existing_table("parquet", str(folder / "lake")).files()
    assert sum(each.rows for each in files) == 42
    assert re.search(r"messages:? +42", done.stdout + done.stderr)


def check_transform(
    topics: Topics, master: str, folder: Path, *options: str, python: Path | None = None
) -> None:
    """The example `large-orders`: a stream that reads a topic and writes another."""
    source, target = topics.make("-in"), topics.make("-out")
    topics.send(source, orders(20))
    query = f"SELECT body FROM `{source}` WHERE get_json_object(body, '$.amount') > 1500"
    job = {"nameServer": topics.cluster.name_server, "topics": source, "toTopic": target}
    job |= {"sql": query, "checkpoint": str(folder / "checkpoint")}

    done = submit(TRANSFORM, master, *options, python=python, **job)

    assert done.returncode == 0, done.stdout + done.stderr
    heads = sum(topics.producer.max_offset(topics.queue(target, number)) for number in range(2))
    assert heads == 4


@contextmanager
def running(log: Path, *command: str, **environ: str) -> Iterator[None]:
    """A server of Spark's; its output is in the log."""
    variables = {**os.environ, **environment(), **environ}
    with (
        log.open("w") as output,
        subprocess.Popen(command, env=variables, stdout=output, stderr=output) as process,
    ):
        try:
            yield
        finally:
            process.kill()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[str]:
    """A master and a worker of Spark's own cluster, from the package that pip installs."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    host = ("--host", "127.0.0.1", "--webui-port", "0")
    master = ("org.apache.spark.deploy.master.Master", *host, "--port", str(port))
    worker = ("org.apache.spark.deploy.worker.Worker", *host, "--cores", "1", "--memory", "1g")
    small = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_WORKER_DIR": str(tmp_path / "work")}
    command = spark_program("spark-class")
    with running(tmp_path / "master.log", command, *master, **small):
        until(lambda: listens(port), START_TIMEOUT_S)
        with running(tmp_path / "worker.log", command, *worker, address, **small):
            yield address


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory, bare_python: Path) -> Iterator[str]:
    """A server of Spark Connect whose Python knows nothing of EmberQ."""
    port, folder = free_port(), tmp_path_factory.mktemp("connect")
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    settings = (*SMALL, f"spark.connect.grpc.binding.port={port}")
    words = [word for text in settings for word in ("--conf", text)]
    command = [spark_program("spark-submit"), "--master", "local[2]", *words, "--class", server]
    pythons = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), str(bare_python))
    with running(folder / "connect.log", *command, "spark-internal", **pythons):
        until(lambda: listens(port), START_TIMEOUT_S)
        yield f"sc://127.0.0.1:{port}"


def test_a_job_runs_on_this_machine_with_the_package_shipped(
    topics: Topics, tmp_path: Path, bare_python: Path
) -> None:
    check_archive(topics, "local[2]", tmp_path, python=bare_python)


def test_a_stream_runs_in_executors_of_their_own(
    topics: Topics, tmp_path: Path, bare_python: Path
) -> None:
    check_transform(topics, "local-cluster[2,1,1024]", tmp_path, python=bare_python)


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
    topics: Topics, tmp_path: Path, bare_python: Path, standalone: str
) -> None:
    packed = tmp_path / "environment.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(bare_python.parents[1], ".")

    check_transform(topics, standalone, tmp_path, "--env", str(packed))


@pytest.mark.parametrize("example", [ARCHIVE, TRANSFORM])
def test_jobs_run_on_a_connect_server_that_has_never_heard_of_us(
    topics: Topics, tmp_path: Path, connect: str, example: str
) -> None:
    check = {ARCHIVE: check_archive, TRANSFORM: check_transform}[example]

    check(topics, connect, tmp_path)
