"""Our scenario programs in Go and JavaScript, made ready in the cache outside the repository."""

import shutil
import subprocess
from pathlib import Path

from tests.interop.harness.artifacts import ArtifactsUnavailable, cache_directory, locked

SOURCES = Path(__file__).parents[1]
# The first build downloads and compiles the client and all it needs.
BUILD_TIMEOUT_S = 900


def missing_tool(*tools: str) -> str | None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return f"not found: {', '.join(missing)}" if missing else None


def go_program() -> Path:
    """The compiled Go scenarios; versions are those of go.mod and go.sum."""
    sources = sorted((SOURCES / "go").iterdir())
    target = cache_directory() / "go-scenarios"
    with locked("go-scenarios"):
        if not _is_current(target, sources):
            _start_over(target)
            command = ["go", "build", "-mod=readonly", "-o", str(target / "scenarios"), "."]
            _run(command, SOURCES / "go")
            _finish(target, sources)
    return target / "scenarios"


def node_program() -> Path:
    """The Node scenarios beside their packages; versions are those of package-lock.json."""
    sources = sorted(path for path in (SOURCES / "node").iterdir() if path.is_file())
    target = cache_directory() / "node-scenarios"
    with locked("node-scenarios"):
        if not _is_current(target, sources):
            _start_over(target)
            for source in sources:
                shutil.copy(source, target)
            _run(["npm", "ci", "--omit=dev", "--no-audit", "--no-fund"], target)
            _finish(target, sources)
    return target / "scenarios.js"


def _stamp(sources: list[Path]) -> str:
    return "".join(f"{source.name}\n{source.read_text()}" for source in sources)


def _is_current(target: Path, sources: list[Path]) -> bool:
    stamp = target / "stamp"
    return stamp.exists() and stamp.read_text() == _stamp(sources)


def _start_over(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)


def _finish(target: Path, sources: list[Path]) -> None:
    (target / "stamp").write_text(_stamp(sources))


def _run(command: list[str], directory: Path) -> None:
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=False, timeout=BUILD_TIMEOUT_S
    )
    if done.returncode != 0:
        reason = (done.stdout + done.stderr).strip()[-2000:]
        raise ArtifactsUnavailable(f"{' '.join(command[:2])} failed:\n{reason}")
