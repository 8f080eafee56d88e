"""The official jars of both lines, resolved by Maven into a cache outside the repository."""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

GROUP = "org.apache.rocketmq"
DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
RESOLVE_TIMEOUT_S = 900
MANIFEST = "complete.json"
# Nothing that an artifact depends on.
ALONE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


@dataclass(frozen=True)
class Line:
    """One line of official releases: the last servers and the last client of it."""

    name: str
    server_version: str
    client_version: str

    @property
    def is_v5(self) -> bool:
        return self.name.startswith("5")


# 4.9.8 was published as client only; the last 4.x name server and broker are 4.9.7.
LINES = (Line("4.9", "4.9.7", "4.9.8"), Line("5.5", "5.5.0", "5.5.0"))
SERVER_ARTIFACTS = ("rocketmq-namesrv", "rocketmq-broker", "rocketmq-tools", "rocketmq-client")
CLIENT_ARTIFACTS = ("rocketmq-client",)


class ArtifactsUnavailable(Exception):
    """Maven could not provide the official jars; the text says why."""


def cache_directory() -> Path:
    """`EMBERQ_INTEROP_CACHE`, else `emberq/interop` in the user's cache folder."""
    if chosen := os.environ.get("EMBERQ_INTEROP_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "emberq" / "interop"


def is_resolved(line: Line) -> bool:
    names = (f"servers-{line.server_version}", f"clients-{line.client_version}")
    has_own_client = line.client_version != line.server_version
    return all(_is_complete(cache_directory() / name) for name in names[: 1 + has_own_client])


def missing_tools() -> list[str]:
    return [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]


def server_jars(line: Line) -> Path:
    return resolved_jars(f"servers-{line.server_version}", SERVER_ARTIFACTS, line.server_version)


def client_jars(line: Line) -> Path:
    if line.client_version == line.server_version:
        return server_jars(line)
    return resolved_jars(f"clients-{line.client_version}", CLIENT_ARTIFACTS, line.client_version)


def resolved_jars(
    name: str, artifacts: tuple[str, ...], version: str, *, group: str = GROUP
) -> Path:
    """The folder of jars, complete: resolved now if it is not there or was damaged."""
    return _resolved(name, [_dependency(group, artifact, version) for artifact in artifacts])


def resolved_alone(name: str, coordinates: tuple[str, ...]) -> Path:
    """The same of `group:artifact:version`, each without what it depends on."""
    dependencies = []
    for each in coordinates:
        group, artifact, version = each.split(":")
        dependencies.append(_dependency(group, artifact, version, ALONE))
    return _resolved(name, dependencies)


def _resolved(name: str, dependencies: list[str]) -> Path:
    target = cache_directory() / name
    with locked(name):
        if not _is_complete(target):
            _resolve_into(target, _pom(dependencies))
    return target


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Keep two test runs from filling the same cache entry."""
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_complete(directory: Path) -> bool:
    try:
        sizes: dict[str, int] = json.loads((directory / MANIFEST).read_text())
    except (OSError, ValueError):
        return False
    found = {jar.name: jar.stat().st_size for jar in directory.glob("*.jar")}
    return bool(sizes) and found == sizes


def _resolve_into(target: Path, project: str) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{target.name}.partial-") as work:
        pom, jars = Path(work) / "pom.xml", Path(work) / "jars"
        pom.write_text(project)
        command = ["mvn", "-B", "-q", "-f", str(pom), f"{DEPENDENCY_PLUGIN}:copy-dependencies"]
        command += [f"-DoutputDirectory={jars}", "-DincludeScope=runtime"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=RESOLVE_TIMEOUT_S
        )
        if done.returncode != 0:
            reason = (done.stdout + done.stderr).strip()[-2000:]
            raise ArtifactsUnavailable(f"Maven could not resolve {target.name}:\n{reason}")
        sizes = {jar.name: _size_of_sound_jar(jar) for jar in jars.glob("*.jar")}
        (jars / MANIFEST).write_text(json.dumps(sizes, indent=1))
        shutil.rmtree(target, ignore_errors=True)
        jars.rename(target)  # the manifest arrives with its jars or not at all


def _size_of_sound_jar(jar: Path) -> int:
    if not zipfile.is_zipfile(jar):
        raise ArtifactsUnavailable(f"{jar.name} is damaged: remove it from Maven's repository")
    return jar.stat().st_size


def _dependency(group: str, artifact: str, version: str, more: str = "") -> str:
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{more}</dependency>"
    )


def _pom(dependencies: list[str]) -> str:
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>emberq</groupId><artifactId>interop</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{''.join(dependencies)}</dependencies>"
        "</project>\n"
    )
