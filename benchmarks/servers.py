"""Starts the servers that are measured, each in a temporary home, and stops them again."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from benchmarks import workload
from benchmarks.process_facts import Memory, memory
from benchmarks.wire_client import wait_for_answer

OUTPUT = "output.log"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
# Memory is read this long after the first answer: what starting needed may be given back by then.
SETTLE_S = 1.0

JAVA_HEAP = ("-Xms512m", "-Xmx512m", "-XX:MaxDirectMemorySize=2g")
JAVA_OPENS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
)


class Running(Struct, frozen=True, kw_only=True):
    """A server that has answered its first request."""

    port: int
    pid: int
    first_answer_s: float

    def idle_memory(self) -> Memory:
        time.sleep(SETTLE_S)
        return memory(self.pid)


@contextmanager
def emberq_name_server() -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as home:
        port = free_port()
        command = [*emberq_command(), "namesrv", "--port", str(port), "--log-level", "warning"]
        with _started(command, port, Path(home)) as running:
            yield running


@contextmanager
def official_name_server(jars: Path) -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "conf").mkdir()
        port = free_port()
        settings = home / "namesrv.conf"
        settings.write_text(
            f"listenPort={port}\nkvConfigPath={home}/kv.json\nconfigStorePath={settings}\n"
        )
        command = [
            shutil.which("java") or "java",
            *JAVA_HEAP,
            *JAVA_OPENS,
            f"-Drocketmq.home.dir={home}",
            f"-Duser.home={home}",
            "-cp",
            f"{jars}/*",
            "org.apache.rocketmq.namesrv.NamesrvStartup",
            "-c",
            str(settings),
        ]
        with _started(command, port, home) as running:
            yield running


@contextmanager
def echo_server() -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as home:
        port = free_port()
        command = [sys.executable, "-m", "benchmarks.echo_server", str(port)]
        with _started(command, port, Path(home)) as running:
            yield running


@contextmanager
def _started(command: list[str], port: int, home: Path) -> Iterator[Running]:
    with process_in_home(command, home) as (process, started_at):
        try:
            wait_for_answer(port, workload.unknown_route_request(), START_TIMEOUT_S)
        except (OSError, RuntimeError) as error:
            raise RuntimeError(
                f"{Path(command[0]).name} did not answer: {error}\n{output_tail(home)}"
            ) from error
        first_answer_s = time.perf_counter() - started_at
        yield Running(port=port, pid=process.pid, first_answer_s=first_answer_s)


@contextmanager
def process_in_home(
    command: list[str], home: Path, environment: Mapping[str, str] | None = None
) -> Iterator[tuple["subprocess.Popen[bytes]", float]]:
    """A process that believes to be at home, and when it was started; stopped at the end."""
    variables = {**os.environ, "HOME": str(home), **(environment or {})}
    # As users run it: compiled modules are kept, whatever the developer prefers.
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    with (home / OUTPUT).open("wb") as output:
        started_at = time.perf_counter()
        process = subprocess.Popen(
            command, env=variables, stdout=output, stderr=output, stdin=subprocess.DEVNULL
        )
        try:
            yield process, started_at
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def emberq_command() -> list[str]:
    """The installed command, as its users start it."""
    script = Path(sys.executable).with_name("emberq")
    return [str(script)] if script.exists() else [sys.executable, "-m", "emberq"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def output_tail(home: Path) -> str:
    return (home / OUTPUT).read_text(errors="replace")[-2000:]
