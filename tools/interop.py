"""Runs the tests against the official software where Java and Maven are there to start it."""

import shutil
import subprocess

from tools.environment import ROOT, VENV_PYTHON, is_on_ci, say
from tools.setup import prepare

TOOLS_NEEDED = ("java", "javac", "mvn")


def run_interop(*, full: bool) -> int:
    """Return pytest's exit code; without the tools 0, but 1 on CI, where nothing may be skipped."""
    missing = [tool for tool in TOOLS_NEEDED if shutil.which(tool) is None]
    if missing:
        say(f"interop tests not run: {', '.join(missing)} not found (they need a JDK and Maven)")
        return 1 if is_on_ci() else 0
    prepare(["server", "dev", "spark"])
    marker = "interop" if full else "interop and not slow"
    command = [str(VENV_PYTHON), "-m", "pytest", "tests/interop", "-m", marker]
    return subprocess.run(command, cwd=ROOT, check=False).returncode
