"""Starts the client programs, gives them orders and reads what they report."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from benchmarks.client.rows import Program
from tests.interop.harness.artifacts import (
    CLIENT_ARTIFACTS,
    LINES,
    ArtifactsUnavailable,
    cache_directory,
    locked,
    resolved_jars,
)

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# Roomy for a client; the collector and the compilers are the JVM's own choice.
JAVA_OPTIONS = ("-Xms512m", "-Xmx512m")
BUILD_TIMEOUT_S = 600
STOP_TIMEOUT_S = 20.0
_VERSION = LINES[-1].client_version


class Outcome(Struct, frozen=True):
    """What a program measured of itself."""

    messages: int
    seconds: float
    cpu_s: float


class ProgramFailed(Exception):
    """A client did not do what it was told; what it printed stands above."""


class Running:
    """A client program that waits for orders."""

    def __init__(self, name: Program, process: "subprocess.Popen[str]") -> None:
        self.name = name
        self._process = process

    def order(self, *words: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("= "):
                return line[2:].strip()
        raise ProgramFailed(f"{self.name} ended at: {' '.join(map(str, words))}")

    def measure(self, *words: object) -> Outcome:
        messages, seconds, cpu_s = self.order(*words).split()
        return Outcome(int(messages), float(seconds), float(cpu_s))


def missing(name: Program) -> str | None:
    """Why a program cannot run here, if it cannot."""
    match name:
        case Program.EMBERQ:
            return None
        case Program.JAVA:
            tools = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
        case Program.GO:
            tools = [] if shutil.which("go") else ["go"]
        case Program.AIOKAFKA | Program.CONFLUENT:
            module = "aiokafka" if name is Program.AIOKAFKA else "confluent_kafka"
            tools = [] if find_spec(module) else [module]
            tools += [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    return f"not found: {', '.join(tools)}" if tools else None


def command(name: Program, address: str) -> list[str]:
    """Builds the program first where that is needed.

    Raises:
        ArtifactsUnavailable: it cannot be built, or its libraries cannot be had.
    """
    match name:
        case Program.JAVA:
            jars = resolved_jars(f"clients-{_VERSION}", CLIENT_ARTIFACTS, _VERSION)
            path = f"{_java_classes(jars)}:{jars}/*"
            return ["java", *JAVA_OPTIONS, "-cp", path, "ClientProgram", address]
        case Program.GO:
            return [str(_go_binary()), address]
        case _:
            return [sys.executable, "-m", f"benchmarks.client.{name}_program", address]


@contextmanager
def started(name: Program, address: str) -> Iterator[Running]:
    line = command(name, address)
    with tempfile.TemporaryDirectory(prefix="emberq-bench-") as home:
        if name is Program.JAVA:  # it writes logs and offsets there
            line.insert(1, f"-Duser.home={home}")
        process = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert process.stdin is not None
        try:
            yield Running(name, process)
        finally:
            process.stdin.close()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def versions() -> str:
    parts = [f"Java client {_VERSION} ({' '.join(JAVA_OPTIONS)})", "Go client v2.1.2"]
    return ", ".join(parts)


def _java_classes(jars: Path) -> Path:
    source = HERE / "java" / "ClientProgram.java"
    target = cache_directory() / "bench-client-classes"
    build = ["javac", "-nowarn", "-encoding", "UTF-8", "-cp", f"{jars}/*", "-d", str(target)]
    _build(target, [source], [*build, str(source)], ROOT)
    return target


def _go_binary() -> Path:
    folder = HERE / "go"
    target = cache_directory() / "bench-client-go"
    build = ["go", "build", "-mod=readonly", "-o", str(target / "client"), "."]
    _build(target, sorted(folder.iterdir()), build, folder)
    return target / "client"


def _build(target: Path, sources: Sequence[Path], build: list[str], folder: Path) -> None:
    """Once per state of the sources."""
    stamp = "".join(source.read_text() for source in sources)
    with locked(target.name):
        done_before = target / "stamp"
        if done_before.exists() and done_before.read_text() == stamp:
            return
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        done = subprocess.run(
            build,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_TIMEOUT_S,
        )
        if done.returncode:
            raise ArtifactsUnavailable(f"{build[0]} failed:\n{(done.stdout + done.stderr)[-2000:]}")
        done_before.write_text(stamp)
