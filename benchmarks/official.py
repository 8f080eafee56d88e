"""The official name server to compare with: where its jars are, or why there is none."""

import shutil
import subprocess
from pathlib import Path

from tests.interop.harness.artifacts import LINES, ArtifactsUnavailable, server_jars

LINE = LINES[-1]


class OfficialMissing(Exception):
    """There is nothing to compare with; the text says why."""


def find_jars() -> Path:
    """Resolved by Maven into the cache of the interop tests, once."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if missing:
        raise OfficialMissing(f"{' and '.join(missing)} not found")
    try:
        return server_jars(LINE)
    except (ArtifactsUnavailable, OSError, subprocess.SubprocessError) as error:
        raise OfficialMissing(str(error)) from error


def java_version() -> str:
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[0].strip()
