"""Starts the brokers that are measured, one at a time, each in a temporary home."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.process_facts import Memory, memory
from benchmarks.scenarios import frames
from benchmarks.servers import (
    JAVA_OPENS,
    SETTLE_S,
    Running,
    emberq_command,
    free_port,
    output_tail,
    process_in_home,
)
from benchmarks.wire_client import WireClient
from emberq.protocol.codes import ResponseCode
from tests.interop.harness.ports import free_port_with

START_TIMEOUT_S = 60.0
START_POLL_S = 0.002
# Roomy for these loads; the official start script asks for 8 GB.
JAVA_HEAP = ("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=2g")
FIRST_TOPIC = "bench-first"
# Brokers also listen two ports below, official ones one above.
NEIGHBOUR_PORTS = (-2, 1)


@contextmanager
def emberq_broker(*, is_pure: bool = False) -> Iterator[Running]:
    with _home() as home:
        port = free_port_with(*NEIGHBOUR_PORTS)
        settings = _settings(home, port)
        command = [*emberq_command(), "broker", "-c", str(settings), "--log-level", "warning"]
        environment = {"EMBERQ_PURE": "1"} if is_pure else {}
        with _started(command, port, home, environment) as running:
            yield running


@contextmanager
def official_broker(jars: Path) -> Iterator[Running]:
    with _home() as home:
        (home / "conf").mkdir()
        port = free_port_with(*NEIGHBOUR_PORTS)
        command = [
            shutil.which("java") or "java",
            *JAVA_HEAP,
            *JAVA_OPENS,
            f"-Drocketmq.home.dir={home}",
            f"-Duser.home={home}",
            "-cp",
            f"{jars}/*",
            "org.apache.rocketmq.broker.BrokerStartup",
            "-c",
            str(_settings(home, port)),
        ]
        with _started(command, port, home, {}) as running:
            yield running


@contextmanager
def _home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="emberq-bench-") as folder:
        yield Path(folder)


def _settings(home: Path, port: int) -> Path:
    path = home / "broker.conf"
    # Nobody listens at that name server: registration fails in the background, for both alike.
    path.write_text(
        f"brokerName=bench-broker\nbrokerIP1=127.0.0.1\nlistenPort={port}\n"
        f"namesrvAddr=127.0.0.1:{free_port()}\nstorePathRootDir={home}/store\n"
        f"storePathCommitLog={home}/store/commitlog\nenablePropertyFilter=true\n"
    )
    return path


@contextmanager
def _started(
    command: list[str], port: int, home: Path, environment: dict[str, str]
) -> Iterator[Running]:
    with process_in_home(command, home, environment) as (process, started_at):
        try:
            await_first_message(process, port)
        except (OSError, RuntimeError) as error:
            raise RuntimeError(
                f"{Path(command[0]).name} took no message: {error}\n{output_tail(home)}"
            ) from error
        first_answer_s = time.perf_counter() - started_at
        yield Running(port=port, pid=process.pid, first_answer_s=first_answer_s)


def await_first_message(process: "subprocess.Popen[bytes]", port: int) -> None:
    """From the start of the process until a message is accepted."""
    deadline = time.perf_counter() + START_TIMEOUT_S
    request = frames.send(FIRST_TOPIC, 0, b"first")
    while True:
        try:
            with WireClient(port) as client:
                answer = client.call(request)[1]
            if answer.code == ResponseCode.SUCCESS:
                return
            trouble = f"{answer.code} {answer.remark}"
        except (ConnectionError, RuntimeError) as error:
            trouble = str(error)
        if process.poll() is not None or time.perf_counter() > deadline:
            raise RuntimeError(trouble)
        time.sleep(START_POLL_S)


def idle_memory(running: Running) -> Memory:
    time.sleep(SETTLE_S)
    return memory(running.pid)
